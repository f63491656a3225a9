"""How smooth convolution kernels are, and three ways to make them smoother.

The statistic is the mean squared difference of adjacent values over the mean square: 0 for
a constant kernel, 2 expected for independent noise, 4 for a checkerboard; no scale changes it.

The three ways of the article, for kernels of the first layer:

1. add to each value its eight neighbours: w <- w + rho · (sum of the eight). At the border the
   outer values are repeated, as in the authors' code. The sum of a constant kernel grows by
   1 + 8 rho, which makes every later layer's input larger; `normalise` divides by it.
2. keep only the low frequencies of each kernel on its own grid: `frequency_split.split`.
3. punish differences of adjacent values during training: `roughness_penalty`.

The authors' PyTorch code sums over neighbouring channels; the paper's formula and this module
sum over neighbours in the plane. Legend: O output channels, I input channels, K side.
"""

import copy

import torch
from frequency_split import mask, split
from torch import nn
from torch.nn import functional as F


def roughness(kernels_OIKK):
    """Mean squared difference of adjacent values over the mean square; a float tensor ().

    Raises ValueError for kernels of one value, which have no neighbours, and for all zeros.
    """
    if min(kernels_OIKK.shape[-2:]) < 2 or not kernels_OIKK.numel():
        raise ValueError(f"kernels {tuple(kernels_OIKK.shape)}: at least 2 × 2 are needed")
    square = kernels_OIKK.square().mean()
    if not kernels_OIKK.any():
        raise ValueError("all kernels are zero: there is nothing to compare differences with")
    return _differences(kernels_OIKK) / square


def high_share(kernels_OIKK, side, radius):
    """The share of the kernels' energy at frequencies of images side × side beyond `radius`.

    What a convolution does to the frequency k is its kernel's transform at k, on the image's
    grid: the share is the mean gain (squared) of white noise that the high frequencies get.
    """
    if side < max(kernels_OIKK.shape[-2:]):
        raise ValueError(f"side is {side}; a kernel of {kernels_OIKK.shape[-1]} must fit")
    power = torch.fft.fft2(kernels_OIKK, s=(side, side)).abs().square()
    high = ~mask(side, side, radius, device=kernels_OIKK.device)
    return (power * high).sum() / power.sum()


def add_neighbours(kernels_OIKK, rho, normalise=False):
    """Each value plus rho times the sum of its eight neighbours, border values repeated."""
    padded = F.pad(kernels_OIKK, (1, 1, 1, 1), mode="replicate")
    height, width = kernels_OIKK.shape[-2:]
    shifts = [(i, j) for i in range(3) for j in range(3) if (i, j) != (1, 1)]
    around = sum(padded[..., i : i + height, j : j + width] for i, j in shifts)
    return (kernels_OIKK + rho * around) / (1 + 8 * rho if normalise else 1)


def low_kernels(kernels_OIKK, radius):
    """The low part of each kernel on its own grid; its sum, the gain of a constant, stays."""
    return split(kernels_OIKK, radius)[0]


def smoothed(model, change):
    """A copy of the model whose first convolution has the kernels `change(kernels)`."""
    model = copy.deepcopy(model)
    first = next(m for m in model.modules() if isinstance(m, nn.Conv2d))
    with torch.no_grad():
        first.weight.copy_(change(first.weight))
    return model


def roughness_penalty(strength):
    """A penalty for `train`: strength · the first kernels' mean squared difference."""

    def penalty(model):
        first = next(m for m in model.modules() if isinstance(m, nn.Conv2d))
        return strength * _differences(first.weight)

    return penalty


def _differences(kernels):
    """The mean squared difference of values side by side and one above the other."""
    down, across = kernels.diff(dim=-2).square(), kernels.diff(dim=-1).square()
    return (down.sum() + across.sum()) / (down.numel() + across.numel())
