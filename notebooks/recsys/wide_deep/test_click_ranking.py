"""MAP@k equals a count by hand: ties, groups without a click, few ads and many."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from click_ranking import average_precision, map_at_k
from hypothesis import given, settings
from hypothesis import strategies as st


def average_precision_reference(scores, clicked, groups, k):
    """Each group's average precision by a loop over its ranked rows."""
    out = []
    for group in sorted(set(groups)):
        rows = [i for i, g in enumerate(groups) if g == group]
        rows.sort(key=lambda i: (-scores[i], clicked[i]))
        hits = total = 0.0
        for rank, row in enumerate(rows[:k], 1):
            if clicked[row]:
                hits += 1
                total += hits / rank
        out.append(total / max(1, min(k, sum(clicked[i] for i in rows))))
    return out


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.tuples(st.integers(-3, 3), st.booleans(), st.integers(0, 5)), min_size=1, max_size=90
    ),
    st.integers(1, 14),
)
def test_equals_a_loop_with_many_ties(rows, k):
    scores, clicked, groups = (list(x) for x in zip(*rows, strict=True))
    found = average_precision(
        torch.tensor(scores), torch.tensor(clicked), torch.tensor(groups), k
    )
    want = average_precision_reference(scores, clicked, groups, k)
    np.testing.assert_allclose(found, want, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 2, 11, 12, 13, 40])
def test_equals_a_loop_for_groups_around_twelve(size):
    rng = np.random.default_rng(size)
    groups = rng.permutation(np.repeat(np.arange(50), size))
    scores, clicked = rng.random(len(groups)), np.zeros(len(groups), int)
    clicked[[np.flatnonzero(groups == g)[0] for g in range(50)]] = 1
    want = np.mean(average_precision_reference(scores, clicked, groups, 12))
    assert map_at_k(scores, clicked, groups) == pytest.approx(want, rel=1e-12)


def test_one_click_gives_one_over_its_rank_and_nothing_beyond_k():
    for rank in range(1, 15):
        clicked = np.arange(1, 15) == rank
        found = map_at_k(-np.arange(14.0), clicked, np.zeros(14, int))
        assert found == (pytest.approx(1 / rank) if rank <= 12 else 0)


def test_closed_answers():
    assert map_at_k([3.0, 2, 1], [1, 0, 1], [0, 0, 0]) == pytest.approx((1 + 2 / 3) / 2)
    assert map_at_k([3.0, 2, 1], [1, 0, 1], [0, 0, 0], k=2) == pytest.approx(1 / 2)
    assert map_at_k([0.5], [1], [9]) == 1


def test_a_group_without_a_click_counts_zero():
    assert map_at_k([1.0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 1, 1]) == 0.5
    assert map_at_k([1.0, 2], [0, 0], [0, 0]) == 0


def test_a_constant_score_earns_the_last_rank_wherever_the_click_lies():
    for at in range(4):
        clicked = np.arange(4) == at
        assert map_at_k(np.zeros(4), clicked, np.zeros(4, int)) == 1 / 4


def test_the_order_of_rows_does_not_matter():
    rng = np.random.default_rng(0)
    scores, groups = rng.integers(0, 4, 300) / 4, rng.integers(0, 40, 300)
    clicked = rng.random(300) < 0.2
    want = average_precision(scores, clicked, groups)
    for _ in range(5):
        order = rng.permutation(300)
        found = average_precision(scores[order], clicked[order], groups[order])
        np.testing.assert_allclose(found, want, rtol=1e-12)


def test_a_growing_function_of_the_scores_changes_nothing():
    torch.manual_seed(0)
    logits, groups = torch.randn(500), torch.randint(60, (500,))
    clicked = torch.rand(500) < 0.2
    assert map_at_k(logits, clicked, groups) == map_at_k(logits.sigmoid(), clicked, groups)


def test_infinite_scores_rank_first_and_last():
    assert map_at_k([1.0, np.inf, -np.inf], [0, 1, 0], [0, 0, 0]) == 1
    assert map_at_k([1.0, 2.0, -np.inf], [0, 0, 1], [0, 0, 0]) == pytest.approx(1 / 3)


def test_more_of_the_list_counted_never_lowers_one_click():
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(30), 12)
    scores, clicked = rng.random(360), np.tile(np.arange(12) == 0, 30)
    found = [map_at_k(scores, clicked, groups, k) for k in range(1, 13)]
    assert all(a <= b for a, b in pairwise(found))


def test_a_nan_score_is_refused():
    with pytest.raises(ValueError, match="1 scores are NaN"):
        map_at_k([1.0, np.nan], [1, 0], [0, 0])


@pytest.mark.parametrize(
    "arguments, told",
    [
        (([1.0], [1, 0], [0, 0]), "1 scores, 2 labels"),
        (([], [], []), "at least one row"),
        (([1.0], [1], [0], 0), "k=0"),
        (([1.0], [2], [0]), "other than 0 and 1"),
    ],
)
def test_inputs_that_make_no_sense_are_refused(arguments, told):
    with pytest.raises(ValueError, match=told):
        map_at_k(*arguments)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpu_equals_cpu():
    torch.manual_seed(0)
    scores, groups = torch.randint(5, (9000,)).float(), torch.randint(900, (9000,))
    clicked = torch.rand(9000) < 0.2
    want = average_precision(scores, clicked, groups)
    found = average_precision(scores.cuda(), clicked.cuda(), groups.cuda()).cpu()
    torch.testing.assert_close(found, want)
