"""Recommendations: nothing that was seen, nobody where none is left; recall against the plain
one.
"""

import pytest
import ranking
import torch
from hypothesis import given, settings
from hypothesis import strategies as st


def capped_recall_reference(best, wanted):
    """The same for one row, two lists."""
    return len(set(best) & set(wanted)) / min(len(best), len(wanted))


def tensors(*histories):
    return [torch.tensor(history, dtype=torch.int64) for history in histories]


def test_what_was_seen_is_never_recommended():
    scores = torch.tensor([[5.0, 4, 3, 2], [1, 2, 3, 4]])
    assert ranking.top_k(scores, tensors([0], [2, 3]), 2).tolist() == [[1, 2], [1, 0]]


def test_where_too_few_are_left_nobody_takes_their_place():
    assert ranking.top_k(torch.tensor([[5.0, 4, 3]]), tensors([0, 1]), 3).tolist() == [
        [2, -1, -1]
    ]
    assert ranking.top_k(torch.tensor([[5.0, 4]]), tensors([]), 9).tolist() == [[0, 1]]


@settings(max_examples=60, deadline=None)
@given(st.permutations(range(9)), st.integers(1, 9), st.sets(st.integers(0, 8), min_size=1))
def test_recall_equals_the_plain_one(order, k, wanted):
    best = torch.tensor([order[:k]])
    found = ranking.capped_recall(best, tensors(sorted(wanted)))
    assert found.item() == pytest.approx(capped_recall_reference(order[:k], wanted))


def test_recall_is_capped_so_that_one_can_be_reached():
    assert ranking.capped_recall(torch.tensor([[1, 2]]), tensors([1, 2, 3, 4])).item() == 1
    assert ranking.capped_recall(torch.tensor([[1, 7]]), tensors([1])).item() == 1


def test_nobody_is_no_hit():
    assert ranking.capped_recall(torch.tensor([[-1, 2]]), tensors([0, 3])).item() == 0


def test_a_row_that_wants_nothing_is_refused():
    with pytest.raises(ValueError, match="1 of 2 rows want nothing"):
        ranking.capped_recall(torch.tensor([[0], [1]]), tensors([0], []))


@pytest.mark.parametrize(
    ("scores", "k", "words"),
    [([[1.0, float("nan")]], 1, "1 rows have scores that are NaN"), ([[1.0]], 0, "at least 1")],
)
def test_bad_scores_are_refused(scores, k, words):
    with pytest.raises(ValueError, match=words):
        ranking.top_k(torch.tensor(scores), tensors([]), k)


def test_popularity_counts_links_and_is_the_same_for_all():
    assert ranking.popularity(torch.tensor([1, 1, 2]), 4, 2).tolist() == [[0, 2, 1, 0]] * 2


def test_scores_are_rounded_only_where_asked():
    users, items = torch.tensor([[1.0]]), torch.tensor([[1.001]])
    assert ranking.scores(users, items).item() == pytest.approx(1.001)
    assert ranking.scores(users, items, torch.bfloat16).item() == 1


def test_neighbours_go_by_the_angle_and_leave_the_page_itself_out():
    table = torch.tensor([[1.0, 0], [9, 1], [0, 1], [-1, 0]])
    assert ranking.neighbours(table, 2)[0].tolist() == [1, 2]
    table[2] = 0  # nobody links there
    assert 2 not in ranking.neighbours(table, 2)[[0, 1, 3]]


def test_a_longer_vector_is_no_nearer_neighbour():
    table = torch.tensor([[1.0, 0], [9, 9], [1, 0.1]])
    assert ranking.neighbours(table, 2)[0].tolist() == [2, 1]
