"""The proof: equal to the reference, right where the answer is known, clear on wrong input."""

import numpy as np
import pytest
from visual_tts import window_sums, window_sums_reference


@pytest.mark.parametrize(("points", "length"), [(1, 1), (7, 7), (31, 1), (64, 5), (257, 13)])
def test_equals_the_reference(points, length):
    stream = np.random.default_rng(points).normal(1000.0, 1.0, points)
    fast = window_sums(stream, length)
    plain = window_sums_reference(stream, length)
    bound = 4 * points * np.finfo(float).eps * np.abs(stream).sum()  # a prefix rounds each step
    np.testing.assert_allclose(fast, plain, rtol=0, atol=bound)


def test_ones_sum_to_the_length():
    assert window_sums(np.ones(10), 4).tolist() == [4.0] * 7


def test_a_shifted_stream_shifts_its_sums():
    stream = np.arange(12.0)
    assert window_sums(stream[1:], 3).tolist() == window_sums(stream, 3)[1:].tolist()


@pytest.mark.parametrize("length", [0, -1, 6])
def test_a_length_that_fits_no_window_is_refused(length):
    with pytest.raises(ValueError, match="1 to 5 are allowed"):
        window_sums(np.ones(5), length)


def test_a_stream_of_two_axes_is_refused():
    with pytest.raises(ValueError, match="one axis is allowed"):
        window_sums(np.ones((2, 5)), 2)
