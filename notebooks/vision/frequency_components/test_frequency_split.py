"""The split: against the plainest loop, in closed form, by a projection's laws, refusals."""

import cmath
import math

import numpy as np
import pytest
import torch
from frequency_split import low_pass, mask, reach, split, stretch, waves
from hypothesis import given, settings
from hypothesis import strategies as st

SHAPES = [
    (2, 1, 28, 28),
    (1, 3, 32, 32),
    (2, 2, 7, 7),
    (1, 1, 5, 8),
    (1, 1, 9, 6),
    (1, 1, 1, 1),
]


def images(shape, dtype=torch.float64, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def split_reference(plane, radius, edge=False):
    """The low part of one plane (H, W), frequency by frequency, float64."""
    height, width = plane.shape
    low = np.zeros((height, width), complex)
    rows, columns = np.arange(height)[:, None], np.arange(width)
    for u in range(-(height // 2), height - height // 2):
        for v in range(-(width // 2), width - width // 2):
            distance = math.hypot(u, v)
            if distance < radius or edge and distance == radius:
                wave = np.exp(2j * cmath.pi * (u * rows / height + v * columns / width))
                low += (plane * wave.conj()).sum() / plane.size * wave
    return low.real


@pytest.mark.parametrize("edge", [False, True])
@pytest.mark.parametrize("shape", [(6, 6), (5, 7), (8, 5), (1, 4)])
def test_equals_the_sum_over_frequencies(shape, edge):
    plane = images((1, 1, *shape))
    for radius in (0, 1, 2, 2.5, 2.9, 9):
        wanted = split_reference(plane[0, 0].numpy(), radius, edge)
        found = split(plane, radius, edge)[0][0, 0].numpy()
        np.testing.assert_allclose(found, wanted, atol=1e-12, err_msg=f"radius {radius}")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("radius", [0, 1, 4, 8, 12.5, 20, 1000])
def test_low_and_high_add_up_to_the_image(shape, radius):
    x = images(shape, torch.float32)
    low, high = split(x, radius)
    assert low.shape == high.shape == x.shape and low.dtype == high.dtype == x.dtype
    assert (low + high - x).abs().max() <= 1e-6


def test_the_high_part_is_what_the_other_frequencies_give():
    x = images((2, 1, 28, 28))
    spectrum = torch.fft.fft2(x) * ~mask(28, 28, 8)
    torch.testing.assert_close(
        split(x, 8)[1], torch.fft.ifft2(spectrum).real, atol=1e-12, rtol=0
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_splitting_a_low_part_returns_it_and_a_high_part_has_none(shape):
    low, high = split(images(shape), 4)
    torch.testing.assert_close(split(low, 4)[0], low, atol=1e-12, rtol=0)
    assert split(high, 4)[0].abs().max() < 1e-12


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.floats(0, 9), st.integers(0, 999))
def test_is_linear_and_self_adjoint(height, width, radius, seed):
    x, y = images((2, 1, 1, height, width), seed=seed)
    product = lambda a, b: (a * b).sum().item()  # noqa: E731
    left, right = product(low_pass(x, radius), y), product(x, low_pass(y, radius))
    assert left == pytest.approx(right, abs=1e-10)
    both = low_pass(2 * x - 3 * y, radius)
    torch.testing.assert_close(
        both, 2 * low_pass(x, radius) - 3 * low_pass(y, radius), atol=1e-11, rtol=0
    )


def test_is_self_adjoint_in_float32_where_attacks_use_it():
    x, y = images((2, 4, 1, 28, 28), torch.float32) - 0.5
    left, right = (low_pass(x, 8) * y).sum(), (x * low_pass(y, 8)).sum()
    assert abs(left - right) < 1e-4 * x.norm() * y.norm()


@pytest.mark.parametrize(("u", "v", "edge"), [(3, 4, True), (3, 4, False), (0, 5, False)])
def test_a_wave_is_kept_whole_or_not_at_all(u, v, edge):
    rows, columns = torch.arange(28.0)[:, None], torch.arange(28.0)
    wave = torch.cos(2 * math.pi * (u * rows + v * columns) / 28)[None, None]
    low, high = split(wave, 5, edge)
    kept, gone = (low, high) if edge else (high, low)
    torch.testing.assert_close(kept, wave, atol=1e-5, rtol=0)
    assert gone.abs().max() < 1e-5


@pytest.mark.parametrize("side", [1, 2, 5, 8, 28])
def test_all_waves_of_an_axis_are_an_orthonormal_basis(side):
    whole, frequency = waves(side, side, False, torch.empty(0, dtype=torch.float64))
    assert not whole[:, side:].any() and whole.shape[1] % 16 == 0
    whole, frequency = whole[:, :side], frequency[:side]
    torch.testing.assert_close(whole.T @ whole, torch.eye(side).double(), atol=1e-12, rtol=0)
    apart = torch.fft.fft(whole, dim=0).abs() > 1e-9  # each is of one frequency and its twin
    place = torch.arange(side)[:, None]
    assert ((place == frequency) | (place == (side - frequency) % side))[apart].all()


def test_only_waves_within_the_radius_are_made():
    like = torch.empty(0)
    found = [waves(28, 8, edge, like)[1].tolist() for edge in (False, True)]
    assert found[0] == [*range(8), *range(1, 8), 0] and found[1][:17] == [
        *range(9),
        *range(1, 9),
    ]
    many = [int(waves(28, r, False, like)[0].any(0).sum()) for r in (0, 0.5, 1.5, 8)]
    assert many == [0, 1, 3, 15]


def test_the_masks_of_the_original_have_these_sizes():
    assert [int(mask(32, 32, r).sum()) for r in (4, 8, 12, 16)] == [45, 193, 437, 793]
    assert [int(mask(32, 32, r, True).sum()) for r in (4, 8, 12, 16)] == [49, 197, 441, 795]


def test_nothing_is_left_above_the_farthest_frequency():
    x = images((2, 1, 28, 28), torch.float32)
    assert reach(28, 28) == pytest.approx(14 * math.sqrt(2)) and reach(28, 28) < 20
    low, high = split(x, 20)
    assert torch.equal(low, x) and not high.any()
    assert split(x, 19)[1].any()
    low, high = split(x, 0)
    assert torch.equal(high, x) and not low.any()


def test_each_image_and_channel_is_split_alone():
    x = images((3, 2, 28, 28))
    alone = torch.stack([split(x[i, c], 6)[0] for i in range(3) for c in range(2)])
    torch.testing.assert_close(split(x, 6)[0].view(6, 28, 28), alone, atol=1e-13, rtol=0)
    x[1, 0, 3, 3] = math.nan
    low = split(x, 6)[0]
    assert low[1, 0].isnan().all() and low.isnan().sum() == 28 * 28


def test_takes_views_half_precision_and_no_images():
    x = images((2, 1, 28, 28))
    torch.testing.assert_close(split(x.mT, 6)[0], split(x.mT.contiguous(), 6)[0])
    low, high = split(x.bfloat16(), 6)
    assert low.dtype == high.dtype == torch.bfloat16
    torch.testing.assert_close(low.double(), split(x, 6)[0], atol=2e-2, rtol=0)  # 8 bits
    assert split(x[:0], 6)[0].shape == (0, 1, 28, 28)


@pytest.mark.parametrize("radius", [-1, math.nan, math.inf])
def test_refuses_a_radius_that_is_none(radius):
    with pytest.raises(ValueError, match="radius is .* finite number from 0"):
        split(images((1, 1, 4, 4)), radius)


def test_refuses_integers_lines_and_empty_grids():
    with pytest.raises(ValueError, match="torch.uint8; a floating-point"):
        split(torch.zeros(1, 1, 4, 4, dtype=torch.uint8), 2)
    with pytest.raises(ValueError, match=r"shape \(4,\)"):
        split(torch.zeros(4), 2)
    with pytest.raises(ValueError, match=r"shape \(1, 0, 4\)"):
        split(torch.zeros(1, 0, 4), 2)


def test_stretching_makes_the_largest_value_one_and_leaves_nothing_alone():
    x = images((3, 1, 28, 28)) * torch.tensor([1.0, 0.01, 0.0])[:, None, None, None]
    made = stretch(x)
    assert made.amax((1, 2, 3)).tolist() == pytest.approx([1, 1, 0])
    torch.testing.assert_close(made[1] / made[1].max(), x[1] / x[1].max())


def test_the_rounding_of_an_empty_high_part_is_not_stretched_to_full_size():
    flat = torch.full((1, 1, 28, 28), 0.7)
    high = split(flat, 4)[1]
    assert high.abs().max() < 1e-5
    assert stretch(high).abs().max() < 1e-5


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_splits_as_the_cpu():
    x = images((5, 3, 32, 32), torch.float32)
    for radius in (0, 4, 12.5, 30):
        low = split(x.cuda(), radius)[0]
        assert low.is_cuda
        torch.testing.assert_close(low.cpu(), split(x, radius)[0], atol=1e-5, rtol=0)
