"""The search: as many trials for each kind, of about one size, judged on sites apart."""

import json

import numpy as np
import pytest
import storage_sites
import torch
from fourier_operator import parameters
from helpers import receipts

from . import tune


@pytest.mark.parametrize("kind", tune.KINDS)
def test_every_kind_tries_as_often_and_the_shipped_setting_first(kind):
    tried = tune.drawn(kind, 6)
    assert tried[0] == (kind, {}, 3e-3, 8) and len(tried) == 6
    assert all(one not in tried[:i] for i, one in enumerate(tried))


@pytest.mark.parametrize("kind", tune.KINDS)
def test_every_shape_has_about_the_same_size(kind):
    for shape in tune.SHAPES[kind]:
        size = parameters(tune.network(kind, shape))[1]
        assert size == pytest.approx(334_626, rel=1 / 8)


def test_a_setting_is_told_in_words():
    assert tune.words(("fno", {}, 3e-3, 8)) == "as shipped; rate 0.003; batch 8"
    told = tune.words(("fno", {"width": 37, "modes": (3, 5)}, 1e-2, 4))
    assert told == "width 37, modes (3, 5); rate 0.01; batch 4"


def without_flow(numbers, seed, grid):
    """The arrays of so many sites that hold no gas."""
    fields = np.zeros((2, len(numbers), 12, *grid.shape), np.float32)
    cases = [storage_sites.draw(seed, each, grid) for each in numbers]
    names = ("saturation", "pressure")
    return storage_sites.to_arrays(cases, grid) | dict(zip(names, fields, strict=True))


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """What was trained (epochs, number of sites), while nothing is learnt."""
    trainings = []

    def train(net, cases, grid, epochs, seed, batch, rate):
        trainings.append((epochs, len(cases["mask"])))

    monkeypatch.setattr(tune, "train", train)
    monkeypatch.setattr(tune, "KEPT", tmp_path)
    monkeypatch.setattr(tune, "SETS", {"training": 3, "validation": 2, "test": 1})
    monkeypatch.setattr(tune, "simulate_shard", without_flow)
    return trainings


def test_sites_to_learn_from_to_choose_by_and_to_test_on_are_apart(asked):
    sets = tune.split()
    rates = torch.cat([part["rate"] for part in sets.values()])
    assert [len(part["mask"]) for part in sets.values()] == [3, 2, 1]
    assert len(rates.unique()) == 6


def test_a_finished_trial_is_found_again(asked):
    sets, setting = tune.split(), ("fno", {}, 3e-3, 8)
    found = [tune.taught(setting, 0, sets, "test") for _ in range(2)]
    assert found[0] == found[1] and asked == [(tune.EPOCHS, 3)]
    assert json.loads(next(tune.KEPT.glob("*.json")).read_text())[0] == tune.EPOCHS


def test_the_best_on_the_sites_to_choose_by_is_the_one_that_is_tested(monkeypatch):
    tried = []

    def taught(setting, seed, sets, asked, seconds):
        tried.append((asked, setting[2:]))
        off = {1: 5.0, 2: 1.0, 3: 3.0}[len(tried)] if asked == "validation" else 2.0 + seed
        return [12, 7.0, off, 1.0]

    monkeypatch.setattr(tune, "taught", taught)
    monkeypatch.setattr(tune, "KINDS", ["fno"])
    receipt = receipts.start("co2_storage", "cpu")
    tune.tuned(receipt, "equal_epochs", None, 3, {})
    best = tune.drawn("fno", 3)[1]
    sums = [receipt.metrics[f"equal_epochs_fno_trial_{i}"]["value"] for i in range(3)]
    assert sums == [6.0, 2.0, 4.0] and tried[3:] == [("test", best[2:])] * 3
    plume = receipt.metrics["equal_epochs_fno_plume"]
    assert (plume["value"], plume["low"], plume["high"]) == (3.0, 2.0, 4.0)
    assert plume["note"] == tune.words(best)
