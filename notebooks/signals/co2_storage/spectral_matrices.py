"""Spectral convolutions as small matrix products, with weights kept in 8 or 16 bits: what a
browser can run.

No back-end of a browser's runtime has a Fourier transform of complex numbers. But a spectral
layer keeps few modes, and for few modes the transform is a small matrix product: X_k = Σ_n x_n
e^(-2πi kn/N) for the kept k alone, with real and imaginary parts side by side, so that [a b] ·
[[cos, -sin], [sin, cos]] multiplies a + bi by e^(-iθ). `MatrixSpectral` does that along time,
radius and depth, then mixes channels a mode at a time, then goes back by the transposed
products. It costs O(N · modes) instead of O(N log N), which for 4 to 8 modes is as fast, and it
is exact up to rounding.

Spectral weights are kept as 8-bit integers with one scale a mode, because weak modes are orders
of magnitude below strong ones; the other weights as 16-bit floats. The graph widens them once,
when it is loaded. Source of the layer: Li et al., Fourier neural operator (2021); the matrices
are our own.

Legend: B batch, C channels, n_1 … n_d points an axis, K kept modes of all axes together.
"""

import copy
import math

import torch
from spectral_conv import SpectralConv
from torch import nn
from torch.nn.utils import parametrize

SMALL = 512  # weights of fewer numbers than this are left as they are


class MatrixSpectral(nn.Module):
    """The twin of a `SpectralConv` in real matrix products: `MatrixSpectral(conv.weight,
    conv.modes, (24, 56))`.

    weight: complex (C_in, C_out, m_1 … m_d) for each corner, as `SpectralConv` has them; modes:
    (m_1 … m_d); sizes: (n_1 … n_d) of what comes in, two axes or more. Maps (B, C_in, n_1 …
    n_d) to (B, C_out, n_1 … n_d). `bits` 8 rounds the weights, 32 keeps them. Raises ValueError
    for corners that overlap or modes beyond the transform's.
    """

    def __init__(self, weight, modes, sizes, bits=32):
        super().__init__()
        self.modes, self.sizes = tuple(modes), tuple(sizes)
        room = (*(size // 2 for size in sizes[:-1]), sizes[-1] // 2 + 1)
        if len(modes) != len(sizes) or any(m > r for m, r in zip(modes, room, strict=True)):
            told = f"at most {room}, or corners would overlap"
            raise ValueError(f"modes {self.modes} of sizes {self.sizes}: {told}")
        for axis in range(len(sizes)):
            into, back = _products(modes[axis], sizes[axis], axis == len(sizes) - 1)
            self.register_buffer(f"into{axis}", into.float(), persistent=False)
            self.register_buffer(f"back{axis}", back.float(), persistent=False)
        whole = [part.detach() for part in weight]
        for axis in range(2, len(sizes) + 1):  # low modes before high ones
            whole = [torch.cat(whole[at : at + 2], axis) for at in range(0, len(whole), 2)]
        modes_first = whole[0].permute(*range(len(sizes) + 1, 1, -1), 0, 1).flatten(0, -3)
        parts = torch.view_as_real(modes_first.contiguous()).permute(3, 0, 1, 2)
        self.mix = Stored(parts, bits)  # (2, K, C_in, C_out): real, imaginary

    def forward(self, x_BCs):
        """(B, C_out, n_1 … n_d) float32. Each axis is brought last, then multiplied away:
        `kept` counts the modes of the axes before, `k` those of the last one, `done` points."""
        (B, C), last = x_BCs.shape[:2], len(self.sizes) - 1
        y = x_BCs.reshape(-1, self.sizes[-1]) @ getattr(self, f"into{last}")
        kept, k = 1, self.modes[-1]
        for axis in range(last - 1, -1, -1):
            y = y.reshape(-1, self.sizes[axis], kept, 2, k).permute(0, 2, 4, 3, 1)
            y = y.reshape(-1, 2 * self.sizes[axis]) @ getattr(self, f"into{axis}")
            kept, k = kept * k, 2 * self.modes[axis]
        y = y.reshape(B, C, kept, 2, k).permute(2, 4, 3, 0, 1).reshape(kept * k, 2 * B, C)
        real, imaginary = self.mix()
        by_real, by_imaginary = (y @ real).split(B, 1), (y @ imaginary).split(B, 1)
        y = torch.cat([by_real[0] - by_imaginary[1], by_real[1] + by_imaginary[0]], 1)
        C = y.shape[-1]
        y = y.reshape(kept, k, 2, B, C).permute(3, 4, 0, 2, 1).reshape(-1, 2 * k) @ self.back0
        done = 1
        for axis in range(1, last + 1):
            k = self.modes[axis] * (1 if axis == last else 2)
            kept //= k
            y = y.reshape(B * C, kept, k, done, 2, -1).permute(0, 1, 3, 5, 4, 2)
            y = y.reshape(-1, 2 * k) @ getattr(self, f"back{axis}")
            done *= self.sizes[axis - 1]
        return y.reshape(B, C, *self.sizes)


def _products(modes, size, half):
    """(into, back) in float64: from points to kept modes, (2n, 2k), and back, (2k, 2n), real
    beside imaginary parts; `half` of a real axis: (n, 2k) and (2k, n)."""
    if not half:
        angles = _angles(size, [*range(modes), *range(size - modes, size)])
        return _rotation(*angles, -1), _rotation(*(part.T / size for part in angles), 1)
    cos, sin = _angles(size, range(modes))
    twice = torch.full((modes, 1), 2.0, dtype=torch.float64)  # for a mode and its mirror image
    twice[0] = 1
    if 2 * (modes - 1) == size:
        twice[-1] = 1
    return torch.cat([cos, -sin], 1), torch.cat([cos.T * twice, -sin.T * twice]) / size


def _angles(length, modes):
    """Cosines and sines (N, K) in float64 of 2π k n / N."""
    n = torch.arange(length, dtype=torch.float64)
    turn = 2 * math.pi / length * torch.outer(n, torch.tensor([*modes], dtype=n.dtype))
    return turn.cos(), turn.sin()


def _rotation(cos, sin, sign):
    """(2N, 2K): what multiplies rows (real | imaginary) by e^(i · sign · θ)."""
    return torch.cat([torch.cat([cos, sign * sin], 1), torch.cat([-sign * sin, cos], 1)])


class Stored(nn.Module):
    """A constant (2, K, C, C) kept small: called, it gives back the tensor in float32.

    `bits` 8: a scale for each of the K modes, so that a weak mode keeps its digits; 16: half
    precision; 32: as it is. Raises ValueError for another width."""

    def __init__(self, tensor, bits):
        super().__init__()
        if bits not in (8, 16, 32):
            raise ValueError(f"bits={bits!r}: 8, 16 or 32 are allowed")
        scale, kept = torch.ones(1), tensor.half() if bits == 16 else tensor.float()
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
    """A copy of `model` in evaluation mode whose spectral convolutions are `MatrixSpectral`:
    `as_matrices(net, x)`.

    `example` is a tuple of inputs: the copy works for their shapes alone. `bits` below 32
    rounds spectral weights to that, and all other weights of 512 numbers or more to 16.
    """
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
    shapes, hooks = {}, []
    for name, module in model.named_modules():
        if isinstance(module, SpectralConv):

            def seen(_, got, __, name=name):
                shapes[name] = got[0].shape

            hooks.append(module.register_forward_hook(seen))
    try:
        with torch.no_grad():
            model(*example)
    finally:
        for hook in hooks:
            hook.remove()
    return shapes
