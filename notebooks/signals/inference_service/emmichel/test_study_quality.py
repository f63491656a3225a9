"""The study of quality: unseen events, the shipped network and the rule on the same ones."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import receipts
from lartpc import EM, MICHEL, TRACK
from press.study import hold, record

from . import study_quality as study
from .network import EmMichelTrack

PATCHES = torch.zeros(5, 48, 48)
TRUTH = np.array([TRACK, TRACK, TRACK, EM, -1])
EVENTS = [(PATCHES, TRUTH), (PATCHES[:1], np.array([MICHEL]))]


@pytest.fixture
def said(monkeypatch):
    """The network's answers: it calls the first five tracks and showers, the sixth Michel."""
    three = np.array(
        [[0.9, 0.1, 0], [0.9, 0.1, 0], [0.1, 0.9, 0], [0.1, 0.9, 0], [0.9, 0.1, 0]]
    )
    answers = {5: (three, np.zeros((5, 1))), 1: (three[:1], np.ones((1, 1)))}
    monkeypatch.setattr(study, "infer", lambda network, patches: answers[len(patches)])


def test_both_arms_are_judged_on_the_same_unseen_events():
    parts = study.parts(0, {"events": 1})
    seen = hold(study.STUDY, lambda seed, sizes: parts)
    assert {name for name, _ in seen} == {"network", "commonest"}
    for (name, _), one in seen.items():
        assert one.tests == {"unseen": parts["unseen"].data}
        assert one.made == ("shipped" if name == "network" else "the commonest kind")
        assert one.job.train is one.job.choice is None
    assert list(study.STUDY.seeds) == list(range(12)) and study.STUDY.sizes == {"events": 4}
    [(patches, truth)] = parts["unseen"].data
    assert len(patches) == len(truth) > 500 and set(truth) >= {TRACK, EM, MICHEL}


def test_no_event_is_one_that_taught_the_network_or_that_a_page_draws(monkeypatch):
    drawn, own = [], np.random.default_rng
    monkeypatch.setattr(
        study.np.random, "default_rng", lambda seed: drawn.append(seed) or own(seed)
    )
    monkeypatch.setattr(study, "simulate", lambda *_: SimpleNamespace(truth=[None]))
    monkeypatch.setattr(study, "prepare", lambda _: (None, [None], PATCHES))
    monkeypatch.setattr(study, "hit_truth", lambda *_: TRUTH)
    for seed in study.STUDY.seeds:
        part = study.parts(seed, {"events": 3})["unseen"]
        assert part.units == [(seed, 0), (seed, 1), (seed, 2)]
    assert drawn == [[905, seed] for seed in range(12)]  # training: 1 and 2; pages: 0, 900 …


def test_the_shipped_network_begins_and_the_rule_has_none():
    assert study.begin("the commonest kind", None) is None
    network = study.begin("shipped", None)
    assert network.notes["events"] == 24 and isinstance(network, EmMichelTrack)


def test_shares_are_of_hits_whose_truth_is_known(said):
    found = study.judge("a network", EVENTS, None)
    assert found["right"] == 4 / 5
    assert (found["track_efficiency"], found["track_purity"]) == (2 / 3, 1.0)
    assert (found["shower_efficiency"], found["shower_purity"]) == (1.0, 1 / 2)
    assert (found["michel_efficiency"], found["michel_hits"]) == (1.0, 1)
    assert study.judge(None, EVENTS, None) == {"right": 3 / 5}  # tracks are commonest


def test_what_is_recorded(said):
    found = {
        name: {seed: {"unseen": study.judge(made, EVENTS, None)} for seed in (0, 1)}
        for name, made in (("network", "a network"), ("commonest", None))
    }
    receipt = receipts.start("inference_service", "cpu")
    record(study.STUDY, receipt, found)
    told = {name: one["value"] for name, one in receipt.metrics.items()}
    assert told["quality_gain"] == pytest.approx(4 / 5 - 3 / 5)
    assert told["quality_network_michel_efficiency"] == 1
    assert told["quality_commonest_right"] == 3 / 5
    assert not any(name.startswith("quality_commonest_t") for name in told)
