"""The search: each pair of weights trains a head of its own; one network is read for all."""

from dataclasses import asdict, replace

import disfl_labels as dl
import prefix_training as pt
import pytest
import study_disfluency as systems
import study_loss_search as study
import torch
from helpers import receipts
from helpers.study import Job
from press.study import hold, record

GAMMAS, LATENCIES = ("1", "1.9", "4"), ("0.1", "0.2", "0.35", "0.6")
TRIES = [("logistic", g, latency) for g in GAMMAS for latency in LATENCIES]
TRIES += [("smooth", "1.9", latency) for latency in LATENCIES]
NAMES = [" ".join(one).replace(".", "_") for one in TRIES]
ONE = [name.replace("logistic", "one at") for name in NAMES[:12]]


def test_each_pair_of_weights_trains_a_head_of_its_own(questions):
    worlds, seen = [systems.world(questions, 12, 8, seed) for seed in (0, 1)], hold(study.STUDY)
    assert {name for name, _ in seen} == {"prefixes", *NAMES, *ONE}
    for (_, seed), one in seen.items():
        assert one.tests == {"dev": worlds[seed].dev} and one.job.choice is None
    for kind, gamma, latency in TRIES:
        one = seen[f"{kind} {gamma} {latency}".replace(".", "_"), 1]
        assert one.job.start == ("made", "prefixes", 1)
        assert one.job.train.utterances == worlds[1].train
        assert asdict(one.job.arm.loss) == {
            "kind": kind, "gamma": float(gamma), "latency": float(latency), "epochs": 4,
            "draws": 2, "batch": 1024, "rate": 2e-3, "dropout": 0.2, "new_head": False,
        }  # fmt: skip
        assert one.job.arm.setting == {"ahead": None}
    base = seen["prefixes", 0]
    assert base.job.start == "new" and base.job.train.utterances == worlds[0].train
    assert (base.job.arm.loss.kind, base.job.arm.loss.epochs) == ("prefixes", 32)
    assert list(study.STUDY.seeds) == [0, 1, 2]
    assert study.STUDY.sizes == {"sentences": 3000, "tests": 200}


@pytest.mark.parametrize(
    ("name", "price"),
    [
        ("one at 1_9 0_35", 1.0),
        ("one at 1_9 0_6", 0.6 / 0.35),  # a dearer wait
        ("one at 4 0_35", 1.9 / 4),  # a dearer error
        ("one at 1 0_1", 0.1 * 1.9 / 0.35),
    ],
)
def test_one_network_is_read_as_if_a_wait_cost_what_it_costs_there(questions, name, price):
    seen = hold(study.STUDY)
    one = seen[name, 0]
    assert one.made == ("made", "logistic 1_9 0_35", 0) and one.job.train is None
    assert one.job.arm.setting == {"ahead": None, "price": pytest.approx(price)}


def test_the_price_of_the_reading_reaches_the_scores(monkeypatch):
    z, wait = torch.tensor([[1.0, -9], [1.0, -1]]), torch.tensor([[0.3, -9], [-1.0, -1]])
    monkeypatch.setattr(pt, "logits", lambda *asked: [(z, wait)])
    rows = [dl.Utterance(("uh", "a"), (1, 0), ("edit", "fluent"))]
    waits = {
        name: study.judge(
            systems.Labeller("network", "words"), rows, Job(name, study.GRID[name], 0, {})
        )["told"]["waiting"]
        for name in ("logistic 1 0_1", "one at 1_9 0_35", "one at 1_9 0_6", "one at 1_9 0_2")
    }
    assert list(waits.values()) == [0.5, 0.5, 0, 0.5]


def test_the_curve_sets_training_anew_beside_one_reading():
    found = {}
    for at, name in enumerate(study.GRID):
        told = [{key: at + 0.1 * n + s for n, key in enumerate(study.DRAWN)} for s in range(3)]
        found[name] = {seed: {"dev": {"told": one}} for seed, one in enumerate(told)}
    receipt = receipts.start("disfluency", "cpu")
    record(study.STUDY, receipt, found)
    curve, names = receipt.curves["study_search"], list(study.GRID)
    assert list(receipt.metrics) == ["study_search_pairs"]
    assert receipt.metrics["study_search_pairs"]["value"] == 16
    assert curve["smooth"] == [0] * 12 + [1] * 4
    for row, (kind, gamma, latency) in enumerate(TRIES):
        where = f" {gamma} {latency}".replace(".", "_")
        anew, one = (names.index(what + where) for what in (kind, "one at"))
        assert (curve["gamma"][row], curve["latency"][row]) == (float(gamma), float(latency))
        assert curve["f1"][row] == pytest.approx(anew + 1)  # the mean of the seeds
        assert curve["coverage"][row] == pytest.approx(anew + 1.3)
        assert curve["one_f1"][row] == pytest.approx(one + 1)
        assert curve["one_waiting"][row] == pytest.approx(one + 1.2)
    assert set(curve) == {*study.DRAWN, "gamma", "latency", "smooth", "one_f1", "one_waiting"}


def test_a_grid_of_twins_is_refused(questions):
    twin = {**study.GRID, "twin": study.GRID["smooth 1_9 0_1"]}
    with pytest.raises(ValueError, match="declare the same"):
        hold(replace(study.STUDY, arms=twin))
