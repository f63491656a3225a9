"""Packs: every sequence once, no row too long, the printed efficiencies, and clear refusals."""

from collections import Counter

import numpy as np
import pytest
from helpers import data
from hypothesis import given, settings
from hypothesis import strategies as st
from sequence_packing import (
    assign,
    efficiency,
    full_rows,
    lpfhp,
    nnlshp,
    packing_factor,
    read_histogram,
    spfhp,
)

PACKERS = [spfhp, lpfhp, nnlshp]


@pytest.fixture(scope="module")
def wikipedia():
    return read_histogram(data.fetch("packed_lengths") / "histograms.py")


@pytest.mark.parametrize("pack", PACKERS)
@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=16), st.integers(1, 4))
def test_every_sequence_lies_in_exactly_one_pack(pack, histogram, most):
    packs, counts = pack(histogram, 16, most)
    packed = Counter()
    for lengths, count in zip(packs, counts, strict=True):
        assert sum(lengths) <= 16 and 1 <= len(lengths) <= most and count > 0
        for length in lengths:
            packed[length] += count
    assert packed == {i + 1: n for i, n in enumerate(histogram) if n}


def test_the_histogram_is_that_of_the_paper(wikipedia):
    assert wikipedia.sum() == 16_279_552 and len(wikipedia) == 512
    assert 512 * wikipedia.sum() / (np.arange(1, 513) @ wikipedia) == pytest.approx(
        2.0013, abs=5e-5
    )


@pytest.mark.parametrize(
    ("pack", "most", "percent"),
    [
        (spfhp, 1, 49.97),
        (spfhp, 2, 80.52),
        (spfhp, 3, 89.44),
        (spfhp, 16, 99.60),
        (lpfhp, 3, 89.49),
    ],
)
def test_efficiency_to_the_printed_digit(wikipedia, pack, most, percent):
    assert round(100 * efficiency(*pack(wikipedia, 512, most), 512), 2) == percent


def test_strategies_of_three_in_512_are_22102():
    assert len(full_rows(512, 3)) == 22_102


def test_least_squares_beats_greedy_on_64_bins(wikipedia):
    bins = wikipedia.reshape(64, 8).sum(1)
    assert efficiency(*nnlshp(bins, 64, 3), 64) > 0.99 > efficiency(*spfhp(bins, 64, 3), 64)


@pytest.mark.slow  # two minutes: 22,102 strategies
def test_least_squares_at_full_size_has_the_papers_efficiency(wikipedia):
    assert efficiency(*nnlshp(wikipedia, 512, 3), 512) >= 0.997


def test_least_squares_rounds_to_the_nearest_and_empties_what_is_too_much():
    # one row and a half is rounded to two (half to even): one place stays empty
    assert nnlshp([0, 3], 4, 2) == ([[2, 2], [2]], [1, 1])


def test_rows_name_each_sequence_once():
    rows = assign([4, 1, 3, 1, 3], [[3, 1], [4]], [2, 1])
    assert rows == [[2, 1], [4, 3], [0]]


@pytest.mark.parametrize("lengths", [[3], [3, 1, 1], [3, 2]])
def test_packs_of_other_lengths_are_refused(lengths):
    with pytest.raises(ValueError, match="the same lengths"):
        assign(lengths, [[3, 1]], [1])


def test_packing_factor_counts_sequences_a_row():
    assert packing_factor([[3, 1], [4]], [3, 1]) == 7 / 4


@pytest.mark.parametrize("pack", PACKERS)
def test_an_empty_histogram_gives_no_packs(pack):
    assert pack([0, 0], 4, 3) == ([], [])


@pytest.mark.parametrize("pack", PACKERS)
@pytest.mark.parametrize(
    ("histogram", "length", "most", "words"),
    [
        ([0, 0, 1], 2, 3, "3 tokens does not fit a row of 2"),
        ([1, -1], 2, 3, "whole counts"),
        ([0.5], 2, 3, "whole counts"),
        ([float("nan")], 2, 3, "whole counts"),
        ([1], 2, 0, "1 or more"),
    ],
)
def test_bad_input_is_refused(pack, histogram, length, most, words):
    with pytest.raises(ValueError, match=words):
        pack(histogram, length, most)
