"""The search: as many trials for each kind, of about one size, judged on sites apart."""

import json

import numpy as np
import pytest
import storage_sites
import torch

from . import tune
from .networks import parameters


@pytest.mark.parametrize("kind", tune.KINDS)
def test_every_kind_tries_as_often_and_the_shipped_setting_first(kind):
    tried = tune.drawn(kind, 6)
    assert tried[0] == ({}, 3e-3, 8) and len(tried) == 6
    assert all(one not in tried[:i] for i, one in enumerate(tried))


@pytest.mark.parametrize("kind", tune.KINDS)
def test_every_shape_has_about_the_same_size(kind):
    for shape in tune.SHAPES[kind]:
        size = parameters(tune.network(kind, shape))[1]
        assert size == pytest.approx(334_626, rel=1 / 8)


def without_flow(number):
    """The arrays of so many sites that hold no gas."""
    fields = np.zeros((2, number, 12, *tune.GRID.shape), np.float32)
    cases = [storage_sites.draw(tune.SEED, each, tune.GRID) for each in range(number)]
    names = ("saturation", "pressure")
    return storage_sites.to_arrays(cases, tune.GRID) | dict(zip(names, fields, strict=True))


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """What was trained (epochs, number of sites), while nothing is learnt."""
    trainings = []

    def train(net, cases, grid, epochs, seed, batch, rate):
        trainings.append((epochs, len(cases["mask"])))

    monkeypatch.setattr(tune, "train", train)
    monkeypatch.setattr(tune, "KEPT", tmp_path)
    monkeypatch.setattr(tune, "simulated", without_flow)
    return trainings


def test_sites_to_learn_from_to_choose_by_and_to_test_on_are_apart(asked):
    sets = tune.split((3, 2, 1))
    rates = torch.cat([part["rate"] for part in sets.values()])
    assert [len(part["mask"]) for part in sets.values()] == [3, 2, 1]
    assert len(rates.unique()) == 6


def test_a_finished_trial_is_found_again(asked):
    sets, setting = tune.split((3, 2, 1)), ("fno", {}, 3e-3, 8)
    told = (lambda: tune.network("fno", {}), setting, 0, sets, "test", 4, None)
    assert tune.taught(*told) == tune.taught(*told) and asked == [(4, 3)]
    assert json.loads(next(tune.KEPT.glob("*.json")).read_text())[0] == 4
