"""Spectral convolutions for a runtime without complex numbers, such as a browser's, their
weights kept in 8 or 16 bits.

`MatrixSpectral` is the layer as products of real matrices (`spectral_conv.by_matrices`), laid
down so that it can be exported. Spectral weights are kept as 8-bit integers with one scale a
mode, because weak modes are orders of magnitude below strong ones; the other weights as 16-bit
floats. The graph widens them once, when it is loaded.

Legend: B batch, C channels, n_1 … n_d points an axis, K kept modes of all axes together.
"""

import copy
import functools

import torch
from torch import nn
from torch.nn.utils import parametrize

from .spectral_conv import (
    SpectralConv,
    by_matrices,
    check_room,
    joined,
    kept_transforms,
    mixing,
)

SMALL = 512  # weights of fewer numbers than this are left as they are


class MatrixSpectral(nn.Module):
    """The twin of a `SpectralConv` in real matrix products: `MatrixSpectral(conv.weight,
    conv.modes, (24, 56))`, the sizes those of what comes in, two axes or more. `bits` 8 rounds
    the weights, 32 keeps them. Raises ValueError for modes that do not fit the sizes."""

    def __init__(self, weight, modes, sizes, bits=32):
        super().__init__()
        self.modes, self.sizes = tuple(modes), tuple(sizes)
        check_room(self.modes, self.sizes)
        into, back = kept_transforms(self.sizes, self.modes, torch.float32, torch.device("cpu"))
        for axis, (there, home) in enumerate(zip(into, back, strict=True)):
            self.register_buffer(f"into{axis}", there, persistent=False)
            self.register_buffer(f"back{axis}", home, persistent=False)
        whole = joined(part.detach() for part in weight).flatten(2)
        parts = torch.view_as_real(whole).permute(3, 2, 0, 1)  # (2, K, C_in, C_out)
        self.mix = Stored(parts, bits)

    def forward(self, x_BCs):
        """(B, C_out, n_1 … n_d) float32."""
        axes = range(len(self.sizes))
        into, back = ([getattr(self, f"{way}{n}") for n in axes] for way in ("into", "back"))
        return by_matrices(x_BCs, mixing(*self.mix()), into, back)


class Stored(nn.Module):
    """A constant (2, K, C, C) kept in 8 bits, with a scale for each of the K modes, or in 32
    (ValueError for others): called, it gives back the tensor in float32."""

    def __init__(self, tensor, bits):
        super().__init__()
        if bits not in (8, 32):
            raise ValueError(f"bits={bits!r}: 8 or 32 are allowed")
        scale, kept = torch.ones(1), tensor.float()
        if bits == 8:
            largest = tensor.abs().amax((0, 2, 3), keepdim=True)
            scale = largest.clamp_min(1e-30) / 127
            kept = (tensor / scale).round().to(torch.int8)
        self.register_buffer("kept", kept.contiguous())
        self.register_buffer("scale", scale.float())
        self.bits = bits

    def forward(self):
        """The tensor in float32."""
        wide = self.kept.float()
        return wide * self.scale if self.bits == 8 else wide


class _Half(nn.Module):
    """Parametrization: a weight that is stored in half precision and used in single."""

    def forward(self, stored):
        return stored.float()

    def right_inverse(self, weight):
        return (weight.half(),)  # a tuple of one: a single tensor may not change its type


def as_matrices(model, example, bits=32):
    """A copy of `model` in evaluation mode whose spectral convolutions are `MatrixSpectral`,
    for the shapes of `example`, a tuple of inputs, alone. `bits` below 32 rounds spectral
    weights to that, and all other weights of 512 numbers or more to 16."""
    model = copy.deepcopy(model).eval().requires_grad_(False)
    for name, shape in _inputs(model, example).items():
        home, _, last = name.rpartition(".")
        old = model.get_submodule(name)
        new = MatrixSpectral(old.weight, old.modes, shape[2:], bits)
        setattr(model.get_submodule(home), last, new)
    if bits < 32:
        for module in list(model.modules()):
            for name, weight in list(module.named_parameters(recurse=False)):
                if weight.numel() >= SMALL:
                    parametrize.register_parametrization(module, name, _Half(), unsafe=True)
    return model


def _inputs(model, example):
    """The shape of what comes into each spectral convolution, by the module's name."""
    shapes = {}

    def seen(name, _, got, __):
        shapes[name] = got[0].shape

    for name, module in model.named_modules():
        if isinstance(module, SpectralConv):  # replaced afterwards, and the hook with it
            module.register_forward_hook(functools.partial(seen, name))
    with torch.no_grad():
        model(*example)
    return shapes
