"""What lies where: every number in one place, the published rules, known answers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from placement import STRATEGIES, plan


def cells(made):
    """{(table, row, column): how often it is in a piece}, counted one by one."""
    found = {}
    for piece in made.pieces:
        for row in range(piece.first_row, piece.first_row + piece.rows):
            for col in range(piece.first_col, piece.first_col + piece.cols):
                found[piece.table, row, col] = found.get((piece.table, row, col), 0) + 1
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 7)), min_size=1, max_size=6),
    st.integers(1, 5),
    st.sampled_from(STRATEGIES),
    st.sampled_from([None, 1, 8, 20]),
    st.sampled_from([None, 12, 30]),
    st.sampled_from([None, 0, 6]),
)
def test_every_number_lies_on_exactly_one_device_or_on_all(
    tables, devices, way, col, row, copy
):
    made = plan(
        tables, devices, way, column_threshold=col, row_threshold=row, replicate_threshold=copy
    )
    found = cells(made)
    assert set(found.values()) <= {1}
    split = [t for t in range(len(tables)) if t not in made.replicated]
    assert len(found) == sum(tables[t][0] * tables[t][1] for t in split)
    assert {key[0] for key in found} == set(split)
    assert all(0 <= piece.device < devices for piece in made.pieces)


def test_basic_deals_in_turn():
    made = plan([(5, 1)] * 5, 2)
    assert [[p.table for p in made.on(d)] for d in (0, 1)] == [[0, 2, 4], [1, 3]]


def test_memory_balanced_goes_there_and_back():
    made = plan([(n, 1) for n in (10, 9, 8, 7, 6, 5)], 2, "memory_balanced")
    assert [{p.table for p in made.on(d)} for d in (0, 1)] == [{0, 3, 4}, {1, 2, 5}]


def test_of_equal_tables_the_later_goes_first_as_in_the_original():
    made = plan([(4, 1)] * 4, 2, "memory_balanced")
    assert [{p.table for p in made.on(d)} for d in (0, 1)] == [{3, 0}, {2, 1}]


def test_memory_optimised_fills_the_emptiest():
    made = plan([(n, 1) for n in (10, 3, 3, 3)], 2, "memory_optimized")
    assert sorted(made.elements(d) for d in (0, 1)) == [9, 10]
    assert made.elements(0) == 9  # the lighter device comes first


def test_columns_are_cut_to_a_power_of_two_the_first_take_the_rest():
    made = plan([(10, 7)], 4, column_threshold=20)
    assert [(p.first_col, p.cols, p.device) for p in made.pieces] == [
        (0, 2, 0), (2, 2, 1), (4, 2, 2), (6, 1, 3)
    ]  # fmt: skip


def test_slices_are_no_more_than_devices_or_columns():
    assert len(plan([(100, 8)], 3, column_threshold=1).pieces) == 3
    assert len(plan([(100, 2)], 4, column_threshold=1).pieces) == 2


def test_slices_that_meet_are_one_piece():
    made = plan([(10, 8), (1000, 1)], 2, "memory_optimized", column_threshold=40)
    (piece,) = [p for p in made.pieces if p.table == 0]
    assert (piece.first_col, piece.cols) == (0, 8)


def test_rows_are_cut_evenly_and_never_into_nothing():
    made = plan([(7, 2)], 3, row_threshold=14)
    assert [(p.first_row, p.rows) for p in made.pieces] == [(0, 3), (3, 2), (5, 2)]
    assert len(plan([(2, 9)], 3, row_threshold=1).pieces) == 2


def test_thresholds_include_their_ends():
    made = plan([(5, 2), (5, 4)], 2, replicate_threshold=10, row_threshold=20)
    assert made.replicated == (0,) and made.row_sliced == (1,)
    assert len(plan([(5, 2)], 1, column_threshold=10).pieces) == 1


def test_fewer_tables_than_devices_are_halved_until_all_have_one():
    made = plan([(64, 8), (4, 8)], 4)
    assert {p.device for p in made.pieces} == {0, 1, 2, 3}
    assert len([p for p in made.pieces if p.table == 0]) >= 3


def test_tables_of_one_width_are_merged_with_offsets():
    made = plan([(5, 4), (6, 8), (7, 4)], 1)
    merged = made.merged(made.on(0))
    assert [(m.width, m.offsets, m.rows) for m in merged] == [(4, (0, 5), 12), (8, (0,), 6)]


def test_inputs_of_a_shared_table_are_answered_beside_each_other():
    made = plan([(5, 4), (6, 4)], 1, inputs=(1, 0, 1))
    assert [(one, piece.table) for one, piece in made.wanted(made.on(0))] == [
        (1, 0), (0, 1), (2, 1)
    ]  # fmt: skip


def test_the_largest_go_to_the_host_until_the_rest_keeps_to_the_limit():
    made = plan([(10, 1), (6, 1), (3, 1), (2, 1)], 1, device_limit=12)
    assert [p.host for p in made.pieces] == [True, False, False, False]
    assert made.elements(0) == 11 and made.elements(0, host=True) == 10


def test_what_just_fits_stays():
    made = plan([(10, 1), (6, 1)], 1, device_limit=16)
    assert not any(p.host for p in made.pieces)


def test_copies_count_on_every_device():
    made = plan([(3, 2), (50, 2)], 2, replicate_threshold=6)
    assert [made.elements(d) for d in (0, 1)] == [6 + 50, 6 + 50]
    with pytest.raises(ValueError, match="too few for the copies"):
        plan([(3, 2), (50, 2)], 2, replicate_threshold=6, device_limit=5)


@pytest.mark.parametrize(
    ("tables", "devices", "more", "words"),
    [
        ([(0, 4)], 1, {}, "whole numbers above 0"),
        ([(4, 2.0)], 1, {}, "whole numbers above 0"),
        ([(4, 2, "max")], 1, {}, "sum or mean"),
        ([4], 1, {}, "rows, width"),
        ([], 1, {}, "0 tables"),
        ([(4, 4)], 0, {}, "at least one"),
        ([(4, 4)], 1, {"strategy": "best"}, "memory_balanced"),
        ([(4, 4)], 1, {"inputs": [1]}, "allowed are 0 to 0"),
        ([(4, 4)], 1, {"column_threshold": 0}, "nothing fits"),
        ([(4, 4)], 1, {"row_threshold": float("nan")}, "number of elements"),
        ([(4, 4)], 1, {"row_threshold": 3, "replicate_threshold": 3}, "both at once"),
    ],
)
def test_what_cannot_be_placed_is_told(tables, devices, more, words):
    with pytest.raises(ValueError, match=words):
        plan(tables, devices, **more)
