"""MAP@k equals a count by hand: ties, groups without a click, few ads and many."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from .ranking import average_precision, map_at_k, popularity_scores, random_scores


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


@settings(deadline=None, max_examples=70)
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


def shown(ads, clicked=None):
    ads = torch.tensor(ads)
    found = {"ad_id": ads, "display_id": torch.arange(len(ads)) // 2}
    found["clicked"] = torch.tensor(clicked or [0] * len(ads)).float()
    return found


def test_popularity_by_hand():
    train = shown([5, 5, 5, 9, 9, 2], [1, 1, 0, 0, 1, 0])  # mean 1/2
    found = popularity_scores(train, shown([9, 5, 2, 7, 1]), prior=2)
    want = torch.tensor([(1 + 1) / 4, (2 + 1) / 5, (0 + 1) / 3, 1 / 2, 1 / 2]).double()
    torch.testing.assert_close(found, want)


def test_a_seed_breaks_ties_alone():
    train = shown([5, 5, 9], [1, 0, 1])
    plain = popularity_scores(train, shown([7, 9, 8, 5, 9]))
    broken = popularity_scores(train, shown([7, 9, 8, 5, 9]), seed=0)
    assert plain[0] == plain[2] and broken[0] != broken[2]
    torch.testing.assert_close(plain, broken, rtol=0, atol=1e-11)


def test_chance_is_seeded_and_gives_the_mean_of_one_over_rank():
    assert torch.equal(random_scores(9, 1), random_scores(9, 1))
    assert not torch.equal(random_scores(9, 1), random_scores(9, 2))
    clicked, groups = (
        torch.tensor([0, 0, 1, 0, 0] * 8000),
        torch.arange(8000).repeat_interleave(5),
    )
    found = map_at_k(random_scores(40_000), clicked, groups)
    assert found == pytest.approx(sum(1 / r for r in range(1, 6)) / 5, abs=0.01)


def test_the_truth_ranks_best():
    draw = torch.Generator().manual_seed(0)
    probability = torch.rand(4000, 4, generator=draw).softmax(1)
    chosen = torch.multinomial(probability, 1, generator=draw)[:, 0]
    clicked = torch.nn.functional.one_hot(chosen, 4).flatten()
    groups = torch.arange(4000).repeat_interleave(4)
    noisy = probability + 0.1 * torch.randn(4000, 4, generator=draw)
    assert map_at_k(probability, clicked, groups) > map_at_k(noisy, clicked, groups)
