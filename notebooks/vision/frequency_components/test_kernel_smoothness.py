"""Smoothness: closed cases of the statistic, each way of smoothing by its plain meaning."""

import pytest
import torch
from frequency_split import mask
from kernel_smoothness import (
    add_neighbours,
    high_share,
    low_kernels,
    roughness,
    roughness_penalty,
    smoothed,
)
from small_cnn import SmallCNN, first_kernels
from torch import nn


def noise(*shape, seed=0):
    return torch.randn(
        shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def checkerboard(side=4):
    rows = torch.arange(side)
    return (1.0 - 2 * ((rows[:, None] + rows) % 2)).double()[None, None]


def test_roughness_in_closed_form():
    assert roughness(torch.full((2, 1, 5, 5), 3.0)).item() == 0
    assert roughness(checkerboard()).item() == pytest.approx(4)
    assert roughness(noise(2000, 1, 5, 5)).item() == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("turned", [False, True])
def test_steps_down_and_steps_across_count_alike(turned):
    """Stripes: of 2 · 4 · 3 pairs of neighbours half differ by two."""
    stripes = (1.0 - 2 * (torch.arange(4) % 2)).double().expand(1, 1, 4, 4)
    assert roughness(stripes.mT if turned else stripes).item() == pytest.approx(2)


def test_roughness_does_not_see_the_scale():
    kernels = noise(4, 2, 3, 3)
    assert roughness(100 * kernels).item() == pytest.approx(roughness(kernels).item())


def test_roughness_refuses_what_has_no_neighbours_or_no_size():
    with pytest.raises(ValueError, match="at least 2 × 2"):
        roughness(torch.ones(3, 1, 1, 1))
    with pytest.raises(ValueError, match="all kernels are zero"):
        roughness(torch.zeros(3, 1, 3, 3))


def test_neighbours_are_added_as_the_plain_loop_adds_them():
    kernels, rho = noise(1, 1, 4, 3), 0.5
    wanted = kernels.clone()
    for i in range(4):
        for j in range(3):
            for di in (-1, 0, 1):
                for dj in (-1, 0, 1):
                    row, column = min(max(i + di, 0), 3), min(max(j + dj, 0), 2)
                    if di or dj:
                        wanted[0, 0, i, j] += rho * kernels[0, 0, row, column]
    torch.testing.assert_close(add_neighbours(kernels, rho), wanted)


def test_a_constant_kernel_gains_one_and_eight_rho_unless_normalised():
    ones = torch.ones(1, 1, 5, 5)
    torch.testing.assert_close(add_neighbours(ones, 0.5), 5 * ones)
    torch.testing.assert_close(add_neighbours(ones, 0.5, normalise=True), ones)
    assert torch.equal(add_neighbours(ones, 0), ones)


@pytest.mark.parametrize(
    "change", [lambda k: add_neighbours(k, 0.3), lambda k: low_kernels(k, 1.5)]
)
def test_both_ways_make_noise_smoother(change):
    kernels = noise(64, 1, 5, 5)
    assert roughness(change(kernels)) < 0.7 * roughness(kernels)


def test_the_low_part_of_a_kernel_keeps_its_sum():
    kernels = noise(3, 2, 5, 5)
    torch.testing.assert_close(low_kernels(kernels, 1.5).sum((2, 3)), kernels.sum((2, 3)))


def test_a_single_value_lets_all_frequencies_pass_alike():
    single = torch.zeros(1, 1, 5, 5)
    single[..., 2, 2] = 1
    wanted = 1 - mask(28, 28, 8).sum().item() / 28**2
    assert high_share(single, 28, 8).item() == pytest.approx(wanted)
    with pytest.raises(ValueError, match="must fit"):
        high_share(single, 4, 2)


def test_a_constant_kernel_passes_less_of_the_high_frequencies():
    assert high_share(torch.ones(1, 1, 5, 5), 28, 8) < 0.2  # noise: three quarters


def test_smoothing_changes_a_copy_s_first_layer_alone():
    model = SmallCNN(4)
    before = first_kernels(model).clone()
    changed = smoothed(model, lambda kernels: add_neighbours(kernels, 1))
    assert torch.equal(first_kernels(model), before)
    torch.testing.assert_close(first_kernels(changed), add_neighbours(before, 1))
    others = [m for m in changed.modules() if isinstance(m, nn.Conv2d)][1:]
    kept = [m for m in model.modules() if isinstance(m, nn.Conv2d)][1:]
    assert all(torch.equal(a.weight, b.weight) for a, b in zip(others, kept, strict=True))


def test_the_penalty_s_gradient_makes_kernels_smoother():
    model = SmallCNN(4)
    before = roughness(first_kernels(model)).item()
    first, punish = next(model.parameters()), roughness_penalty(1.0)
    for _ in range(20):
        (slope,) = torch.autograd.grad(punish(model), first)
        first.data -= 5 * slope
    assert roughness(first_kernels(model)).item() < before
    with torch.no_grad():
        first.fill_(1)
    assert punish(model).item() == 0
