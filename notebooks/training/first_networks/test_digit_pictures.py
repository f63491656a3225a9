"""Blocks are counted as the data's makers did; a drawing's place and size do not matter."""

import digit_pictures as dp
import numpy as np
import pytest


def test_the_data_are_what_the_page_says():
    counts, digits = dp.load()
    assert counts.shape == (1797, 64) and counts.min() == 0 and counts.max() == 16
    assert sorted(set(digits.tolist())) == [*range(10)]


def test_a_full_bitmap_has_sixteen_in_each_block():
    assert dp.reduced(np.ones((32, 32))).tolist() == [16] * 64


def test_a_bit_is_counted_in_its_own_block():
    bits = np.zeros((32, 32))
    bits[4, 31] = 1  # second row of blocks, last column
    assert np.flatnonzero(dp.reduced(bits)).tolist() == [15]


@pytest.mark.parametrize("shift", [(0, 0), (3, 40), (60, 11)])
def test_where_a_digit_is_drawn_does_not_matter(shift):
    drawing = np.zeros((120, 120))
    drawing[:40, :20] = np.random.default_rng(0).random((40, 20)) > 0.5
    drawing[0, 0] = drawing[39, 19] = 1
    moved = np.roll(drawing, shift, axis=(0, 1))
    np.testing.assert_array_equal(dp.framed(moved), dp.framed(drawing))


def test_how_large_a_digit_is_drawn_does_not_matter():
    small = np.zeros((48, 48))
    small[5:37, 9:25] = np.random.default_rng(1).random((32, 16)) > 0.5
    small[5, 9] = small[36, 24] = 1  # as high as the frame, so each bit is its own pixel
    np.testing.assert_array_equal(dp.framed(np.kron(small, np.ones((3, 3)))), dp.framed(small))


def test_the_data_fill_their_height_and_not_their_width():
    ink = dp.load()[0].reshape(-1, 8, 8)
    assert ink.any(axis=2).all(), "each picture has ink in all rows of blocks"
    share = ink.any(axis=1).mean(axis=0)  # of pictures with ink in a column of blocks
    assert share[0] < 0.02 and share[7] < 0.15 and share[1:7].min() > 0.8


@pytest.mark.parametrize(("wide", "columns"), [(16, range(12, 20)), (64, range(6, 26))])
def test_a_drawing_fills_the_height_and_is_centred_in_at_most_twenty_columns(wide, columns):
    drawing = np.zeros((64, 64))
    drawing[:, :wide] = 1
    bits = dp.framed(drawing)
    assert bits.any(axis=1).all()
    assert np.flatnonzero(bits.any(axis=0)).tolist() == [*columns]


def test_one_point_fills_what_a_drawing_may_fill():
    drawing = np.zeros((9, 9))
    drawing[2, 3] = 1
    assert dp.framed(drawing)[:, 6:26].all() and dp.framed(drawing).sum() == 32 * 20


def test_a_split_shares_no_picture():
    train, test = dp.split(np.zeros(100), 3, tests=30)
    assert sorted([*train, *test]) == [*range(100)] and len(test) == 30


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: dp.reduced(np.ones((8, 8))), "32 × 32"),
        (lambda: dp.reduced(np.full((32, 32), 2)), "of 0 and 1"),
        (lambda: dp.framed(np.zeros((9, 9))), "draw something"),
        (lambda: dp.split(np.zeros(5), 0, tests=5), "1 to 4 allowed"),
    ],
)
def test_bad_input_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
