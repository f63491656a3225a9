"""Baselines: chance, popularity by hand, the ablation and the ceiling of a drawn log."""

import pytest
import torch
from test_wide_deep_training import SIZES, TRAIN, VALID
from wide_deep_baselines import (
    Baseline,
    ceiling,
    compare,
    popularity_scores,
    random_scores,
)
from wide_deep_training import Options


def data(ads, clicked=None):
    ads = torch.tensor(ads)
    found = {"ad_id": ads, "display_id": torch.arange(len(ads)) // 2}
    found["clicked"] = torch.tensor(clicked or [0] * len(ads)).float()
    return found


def test_popularity_by_hand():
    train = data([5, 5, 5, 9, 9, 2], [1, 1, 0, 0, 1, 0])  # mean 1/2
    found = popularity_scores(train, data([9, 5, 2, 7, 1]), prior=2)
    want = torch.tensor([(1 + 1) / 4, (2 + 1) / 5, (0 + 1) / 3, 1 / 2, 1 / 2]).double()
    torch.testing.assert_close(found, want)


def test_a_seed_breaks_ties_alone():
    train = data([5, 5, 9], [1, 0, 1])
    plain = popularity_scores(train, data([7, 9, 8, 5, 9]))
    broken = popularity_scores(train, data([7, 9, 8, 5, 9]), seed=0)
    assert plain[0] == plain[2] and broken[0] != broken[2]
    torch.testing.assert_close(plain, broken, rtol=0, atol=1e-11)


def test_chance_is_seeded_and_gives_the_mean_of_one_over_rank():
    assert torch.equal(random_scores(9, 1), random_scores(9, 1))
    assert not torch.equal(random_scores(9, 1), random_scores(9, 2))
    found = compare(TRAIN, VALID, SIZES, Options(1, 0), seeds=range(40))["random"]
    assert found.mean == pytest.approx(sum(1 / r for r in range(1, 6)) / 5, abs=0.01)


def test_the_ablation_has_a_value_and_a_curve_a_seed():
    found = compare(TRAIN, VALID, SIZES, Options(2, 0.5, deep_lr=0.02), 100, seeds=(0, 1))
    assert list(found) == ["random", "popularity", "wide", "deep", "both"]
    for name in ("wide", "deep", "both"):
        assert len(found[name].map_at_12) == len(found[name].curves) == 2
        assert [curve[-1].map_at_12 for curve in found[name].curves] == list(
            found[name].map_at_12
        )
        assert found[name].mean > found["random"].mean
    again = compare(TRAIN, VALID, SIZES, Options(2, 0.5, deep_lr=0.02), 100, seeds=(0, 1))
    assert all(again[name].map_at_12 == found[name].map_at_12 for name in found)


def test_mean_and_spread():
    found = Baseline("x", (0.5, 0.6, 0.7))
    assert found.mean == pytest.approx(0.6) and found.spread == pytest.approx(0.2)


def test_the_truth_ranks_best():
    draw = torch.Generator().manual_seed(0)
    probability = torch.rand(4000, 4, generator=draw).softmax(1)
    chosen = torch.multinomial(probability, 1, generator=draw)[:, 0]
    valid = {
        "clicked": torch.nn.functional.one_hot(chosen, 4).flatten(),
        "display_id": torch.arange(4000).repeat_interleave(4),
    }
    best = ceiling(probability.flatten(), valid)
    noisy = probability + 0.1 * torch.randn(4000, 4, generator=draw)
    assert best > ceiling(noisy.flatten(), valid)
