"""Dice by class: closed answers, and what is refused."""

import dice
import numpy as np
import pytest
import torch


def test_a_half_overlap_scores_a_half():
    truth, found = np.zeros((1, 2, 4), np.uint8), np.zeros((1, 2, 4), np.uint8)
    truth[0, 0, :2], found[0, 0, 1:3] = 1, 1
    truth[0, 1], found[0, 1, 0] = 2, 2
    scores = dice.by_class(found, truth)
    assert scores.kidney == pytest.approx(0.5, abs=1e-6)
    assert scores.tumour == pytest.approx(2 / 5, abs=1e-6)
    assert scores.mean == pytest.approx(0.45, abs=1e-6) and scores[1] == scores.tumour


def test_truth_scores_best_and_nothing_scores_nothing():
    truth = torch.randint(0, 3, (5, 6, 7), generator=torch.Generator().manual_seed(0))
    assert dice.by_class(truth, truth) == (1.0, 1.0)
    assert max(dice.by_class(torch.zeros_like(truth), truth)) < 1e-6


def test_two_empty_sets_are_alike():
    empty = torch.zeros(2, 2, 2, dtype=torch.uint8)
    assert dice.by_class(empty, empty) == (1.0, 1.0)


def test_background_does_not_count():
    truth = torch.zeros(4, 4, 4, dtype=torch.uint8)
    truth[0, 0, 0] = 1
    wide = torch.zeros(40, 40, 40, dtype=torch.uint8)
    wide[:4, :4, :4] = truth
    assert dice.by_class(truth, truth) == dice.by_class(wide, wide)


def test_large_counts_are_exact():
    truth = torch.ones(1, 4100, 4100, dtype=torch.uint8)
    found = truth.clone()
    found[0, 0, 0] = 0  # float32 would lose it: more than 2^24 voxels
    assert dice.by_class(found, truth).kidney == pytest.approx(1 - 0.5 / 4100**2, abs=1e-12)


@pytest.mark.parametrize("kind", ["bool", "u1", "u2", ">i2", "i4", "u8", "f2", "f8"])
def test_any_kind_of_number_and_mirrored_arrays_count_alike(kind):
    truth = np.random.default_rng(0).integers(0, 2, (4, 5, 6))
    found = truth.copy()
    found[0] = 0
    wanted = dice.by_class(found, truth)
    assert wanted == dice.by_class(found.astype(kind), truth.astype(kind))
    assert wanted == dice.by_class(found.astype(kind)[::-1, ::-1], truth[::-1, ::-1])


@pytest.mark.parametrize(
    "bad", [np.full((2, 2), one) for one in (3, -1, 0.5, np.nan, np.inf, -np.inf)]
)
def test_other_classes_are_refused(bad):
    with pytest.raises(ValueError, match="classes"):
        dice.by_class(bad, np.zeros((2, 2)))


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match="shapes"):
        dice.by_class(np.zeros((2, 2)), np.zeros((2, 3)))
