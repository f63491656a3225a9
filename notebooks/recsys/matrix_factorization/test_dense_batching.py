"""Dense rows equal the plain loops, lose nothing, and keep a history in one batch."""

import itertools

import dense_batching
import pytest
import torch
from dense_batching import dense_batches
from hypothesis import given, settings
from hypothesis import strategies as st

HISTORIES = st.lists(st.lists(st.integers(0, 50), max_size=12, unique=True), max_size=9)


@settings(max_examples=60, deadline=None)
@given(HISTORIES, st.integers(1, 13))
def test_rows_and_owners_equal_the_plain_loops(histories, length):
    rows, owners = dense_batching.dense_batches_reference(histories, length)
    found = dense_batches(histories, length)
    assert found.items_RL.tolist() == rows
    assert found.owner_R.tolist() == owners
    assert found.links_U.tolist() == [len(history) for history in histories]


@settings(max_examples=60, deadline=None)
@given(HISTORIES, st.integers(1, 5), st.integers(12, 20))
def test_batches_have_one_shape_and_give_back_every_history(histories, length, rows):
    found = {}
    batches = dense_batches(histories, length).batches(rows)
    assert len({(b.items_RL.shape, b.owners_U.shape) for b in batches}) <= 1
    for batch in batches:
        assert (batch.items_RL[batch.ends[-1] :] == -1).all()
        for start, end in itertools.pairwise((0, *batch.ends)):
            for items, owner in zip(
                batch.items_RL[start:end].tolist(), batch.owners_U.tolist(), strict=False
            ):
                found.setdefault(owner, []).extend(item for item in items if item >= 0)
        owners = batch.owners_U[batch.owners_U >= 0].tolist()
        assert all(found[owner] == histories[owner] for owner in owners)  # whole, in this one
    assert {owner: h for owner, h in found.items() if h} == {
        n: h for n, h in enumerate(histories) if h
    }


def test_rounds_hold_the_next_row_of_the_first_so_many_owners():
    (batch,) = dense_batches([[1], [2, 3, 4, 5, 6], [], [7, 8, 9]], 2).batches(8)
    assert batch.owners_U.tolist() == [1, 3, 0] and batch.ends == (3, 5, 6)
    rows = [[2, 3], [7, 8], [1, -1], [4, 5], [9, -1], [6, -1], [-1, -1], [-1, -1]]
    assert batch.items_RL.tolist() == rows


def test_the_fill_ratio_counts_items_over_places():
    assert dense_batches([[3, 1, 4], [1]], 2).fill == pytest.approx(4 / 6)
    assert dense_batches([[1, 2, 3, 4]], 4).fill == 1  # a multiple needs no row more
    assert dense_batches([], 4).fill == 1
    assert dense_batching.padded_fill([[1, 2, 3], [4]]) == pytest.approx(4 / 6)
    assert dense_batching.padded_fill([[], []]) == 1


def test_a_history_longer_than_a_batch_is_refused():
    with pytest.raises(ValueError, match="history 1 needs 3 dense rows and a batch has 2"):
        dense_batches([[1], [1, 2, 3]], 1).batches(2)


@pytest.mark.parametrize(
    ("histories", "length", "words"),
    [([[1]], 0, "at least 1 item"), ([[-1]], 2, "marks an empty place")],
)
def test_bad_input_is_refused(histories, length, words):
    with pytest.raises(ValueError, match=words):
        dense_batches(histories, length)


def test_a_batch_without_rows_is_refused():
    with pytest.raises(ValueError, match="at least 1 dense row"):
        dense_batches([[1]], 2).batches(0)


def test_tensors_and_lists_are_the_same_histories():
    histories = [[4, 2], [], [7]]
    assert torch.equal(
        dense_batches(histories, 2).items_RL,
        dense_batches(list(map(torch.tensor, histories)), 2).items_RL,
    )
