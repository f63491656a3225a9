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

Legend: B batch, C channels, Z rows, R rings, T report times, K kept modes.
"""

import copy
import math

import torch
from torch import nn
from torch.nn.utils import parametrize

SMALL = 512  # weights of fewer numbers than this are left as they are


class MatrixSpectral(nn.Module):
    """The twin of a spectral convolution in real matrix products: `MatrixSpectral(weight,
    modes, (28, 56, 16))`.

    weight: the complex tensors (C_in, C_out, m_z, m_r, m_t) of the four corners, in the order
    (low z, low r), (high z, low r), (low z, high r), (high z, high r); modes: (m_z, m_r, m_t);
    shape: (Z, R, T) of what comes in. Maps (B, C_in, Z, R, T) to (B, C_out, Z, R, T). `bits` 8
    rounds the weights, 32 keeps them. Raises ValueError for corners that overlap or modes
    beyond the transform's.
    """

    def __init__(self, weight, modes, shape, bits=32):
        super().__init__()
        (m_z, m_r, m_t), (Z, R, T) = modes, shape
        if 2 * m_z > Z or 2 * m_r > R or m_t > T // 2 + 1:
            most = f"at most ({Z // 2}, {R // 2}, {T // 2 + 1}), or corners would overlap"
            raise ValueError(f"modes {tuple(modes)} of shape {tuple(shape)}: {most}")
        self.kept = (2 * m_z, 2 * m_r, m_t)
        for name, matrix in _products(modes, shape).items():
            self.register_buffer(name, matrix.float(), persistent=False)
        low_low, high_low, low_high, high_high = (part.detach() for part in weight)
        low, high = torch.cat([low_low, low_high], 3), torch.cat([high_low, high_high], 3)
        modes_first = torch.cat([low, high], 2).permute(4, 3, 2, 0, 1).flatten(0, 2)
        parts = torch.view_as_real(modes_first.contiguous()).permute(3, 0, 1, 2)
        self.mix = Stored(parts, bits)  # (2, K, C_in, C_out): real, imaginary

    def forward(self, x_BCZRT):
        """(B, C_out, Z, R, T) float32."""
        B, C, Z, R, T = x_BCZRT.shape
        k_z, k_r, k_t = self.kept
        n = B * C
        y = x_BCZRT.reshape(-1, T) @ self.into_t
        y = _along(y, (n, Z, R, 2, k_t), (0, 1, 4, 3, 2), self.into_r)
        y = _along(y, (n, Z, k_t, 2, k_r), (0, 2, 4, 3, 1), self.into_z)
        y = y.reshape(B, C, k_t * k_r, 2, k_z).permute(2, 4, 3, 0, 1).reshape(-1, 2 * B, C)
        real, imaginary = self.mix()
        by_real, by_imaginary = (y @ real).split(B, 1), (y @ imaginary).split(B, 1)
        y = torch.cat([by_real[0] - by_imaginary[1], by_real[1] + by_imaginary[0]], 1)
        C = y.shape[-1]
        n = B * C
        y = _along(y, (k_t * k_r, k_z, 2, B, C), (3, 4, 0, 2, 1), self.from_z)
        y = _along(y, (n, k_t, k_r, 2, Z), (0, 1, 4, 3, 2), self.from_r)
        y = _along(y, (n, k_t, Z, 2, R), (0, 2, 4, 3, 1), self.from_t)
        return y.reshape(B, C, Z, R, T)


def _along(y, shape, order, matrix):
    """`y` seen in `shape`, axes in `order`, its last ones as rows times `matrix`."""
    return y.reshape(shape).permute(order).reshape(-1, matrix.shape[0]) @ matrix


def _products(modes, shape):
    """Six matrices, float64: into the kept modes along t, r, z, and back along z, r, t."""
    (m_z, m_r, m_t), (Z, R, T) = modes, shape
    kept_z, kept_r = ([*range(m), *range(N - m, N)] for m, N in ((m_z, Z), (m_r, R)))
    twice = torch.full((m_t, 1), 2.0, dtype=torch.float64)  # for a mode and its mirror image
    twice[0] = 1
    if 2 * (m_t - 1) == T:
        twice[-1] = 1
    cos, sin = _angles(T, range(m_t))
    return {
        "into_t": torch.cat([cos, -sin], 1),
        "into_r": _rotation(*_angles(R, kept_r), -1),
        "into_z": _rotation(*_angles(Z, kept_z), -1),
        "from_z": _rotation(*(part.T / Z for part in _angles(Z, kept_z)), 1),
        "from_r": _rotation(*(part.T / R for part in _angles(R, kept_r)), 1),
        "from_t": torch.cat([cos.T * twice, -sin.T * twice]) / T,
    }


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

    A module counts as one when its class is called SpectralConv; it has `weight` (four corners)
    and `modes`. `example` is a tuple of inputs: the copy works for their shapes alone. `bits`
    below 32 rounds spectral weights to that, and all other weights of 512 numbers or more to
    16.
    """
    model = copy.deepcopy(model).eval().requires_grad_(False)
    for name, shape in _inputs(model, example).items():
        home, _, last = name.rpartition(".")
        old = model.get_submodule(name)
        new = MatrixSpectral(old.weight, old.modes, shape[-3:], bits)
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
        if type(module).__name__ == "SpectralConv":

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
