"""The spectral convolution: one complex matrix for each kept mode, and two ways to compute it.

By fast transforms it costs O(n log n) and touches every mode, kept or not. Where few are
kept, products with the few rows of the transforms' matrices cost less: `SpectralConv` takes
them on a processor below `MATRICES_BELOW`. They are of real matrices alone, real and imaginary
parts side by side, since small products of complex numbers are slow in the libraries, and some
runtimes have none: [a b] · [[cos, -sin], [sin, cos]] multiplies a + bi by e^(-iθ). The layer
is that of Li et al. (2021); the matrices are our own.

Legend: B batch, C channels, n1 … nd points an axis, K kept modes of all axes together.
"""

import functools
import math
import operator

import torch
from torch import nn

MATRICES_BELOW = 0.5  # share of kept modes under which a processor is quicker with matrices
FEW_BEHIND = 8  # kept modes of the axes behind, up to which a block matrix is worth its zeros


class SpectralConv(nn.Module):
    """A learned multiplication of the lowest modes: `SpectralConv(36, 36, (10, 10, 10))`.

    Maps real (B, C_in, n1 … nd) to (B, C_out, n1 … nd). `modes` are kept on both sides of every
    axis but the last, of which the real transform has one side: so there are 2^(d-1) corners.
    `weight` holds one complex tensor (C_in, C_out, m1 … md) a corner; the first axis toggles
    fastest. Raises ValueError where the corners would overlap.
    """

    def __init__(self, channels_in, channels_out, modes):
        super().__init__()
        if not modes or min(*modes, channels_in, channels_out) < 1:
            told = f"{channels_in} to {channels_out} channels, modes {tuple(modes)}"
            raise ValueError(f"{told}: each >= 1")
        self.modes, corners = tuple(modes), 2 ** (len(modes) - 1)
        scale = 1 / math.sqrt(2 * channels_in * channels_out)
        shape = (channels_in, channels_out, *modes)
        drawn = (scale * torch.randn(shape, dtype=torch.cfloat) for _ in range(corners))
        self.weight = nn.ParameterList(map(nn.Parameter, drawn))

    def forward(self, x_BCs):
        """(B, C_out, n1 … nd), real."""
        sizes = x_BCs.shape[2:]
        check_room(self.modes, sizes)
        kept = math.prod(2 * mode / size for mode, size in zip(self.modes, sizes, strict=True))
        if kept < MATRICES_BELOW and x_BCs.device.type == "cpu":
            return self._by_matrices(x_BCs, sizes)
        return self._by_transforms(x_BCs, sizes)

    def _by_transforms(self, x_BCs, sizes):
        axes = tuple(range(2, x_BCs.ndim))
        found = torch.fft.rfftn(x_BCs, dim=axes)
        mixed = found.new_zeros(len(found), self.weight[0].shape[1], *found.shape[2:])
        for number, weight in enumerate(self.weight):
            ends = [(number >> axis) & 1 for axis in range(len(axes) - 1)] + [0]
            starts = ((n - m) * end for n, m, end in zip(sizes, self.modes, ends, strict=True))
            kept = (slice(a, a + m) for a, m in zip(starts, self.modes, strict=True))
            corner = (slice(None), slice(None), *kept)
            mixed[corner] = torch.einsum("bi...,io...->bo...", found[corner], weight)
        return torch.fft.irfftn(mixed, s=sizes, dim=axes)

    def _by_matrices(self, x_BCs, sizes):
        """The same by products with the kept columns of the transforms' matrices."""
        parts = torch.view_as_real(joined(self.weight).flatten(2)).permute(3, 2, 0, 1)
        transforms = kept_transforms(tuple(sizes), self.modes, parts.dtype, parts.device)
        return by_matrices(x_BCs, mixing(*parts), *transforms)


def check_room(modes, sizes):
    """None where a field of these sizes has these modes, each once; else ValueError."""
    room = (*(size // 2 for size in sizes[:-1]), sizes[-1] // 2 + 1)
    if len(sizes) != len(modes) or any(map(operator.gt, modes, room)):
        raise ValueError(f"a field of {tuple(sizes)} has room for {room} modes, not {modes}")


def joined(corners):
    """The corners' weights as one tensor (C_in, C_out, 2 m1 … md), low modes before high ones
    on every axis but the last."""
    parts = list(corners)
    for axis in range(2, parts[0].ndim - 1):
        parts = [torch.cat(pair, axis) for pair in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def by_matrices(x_BCs, mix, into, back):
    """(B, C_out, n1 … nd): the layer as real products, with `mixing`'s and `kept_transforms`'.
    The last axis goes first, and comes back last; what is kept of it stays behind."""
    B, C_in = x_BCs.shape[:2]
    y, behind = x_BCs, 1
    for matrix in reversed(into):
        y = _multiplied(y, matrix, behind)
        behind = matrix.shape[1] // 2 * (behind if matrix.ndim == 3 else 1)
    K, C_out = len(mix), mix.shape[2] // 2
    y = y.reshape(B, C_in, K, 2).permute(2, 0, 3, 1).reshape(K, B, 2 * C_in) @ mix
    y = y.reshape(K, B, 2, C_out).permute(1, 3, 0, 2)
    for matrix in back:
        behind = behind // matrix.shape[2] if matrix.ndim == 3 else 1
        y = _multiplied(y, matrix, behind)
    return y.reshape(B, C_out, *x_BCs.shape[2:])


def mixing(real_KCC, imaginary_KCC):
    """(K, 2 C_in, 2 C_out): the matrix of each kept mode, for real beside imaginary parts."""
    top = torch.cat([real_KCC, imaginary_KCC], 2)
    return torch.cat([top, torch.cat([-imaginary_KCC, real_KCC], 2)], 1)


@functools.lru_cache(maxsize=32)
@torch.inference_mode(False)  # what is made in inference cannot be used in training later
def kept_transforms(sizes, modes, dtype, device):
    """(into, back): two lists of one real matrix an axis, of the real transform cut to the kept
    modes, and of its inverse, which counts a mode twice, for its mirror image.

    What lies behind an axis, K kept modes of the axes after it, must not mix. Where K is small
    the matrix has two axes, (n · K · 2, 2 modes · K · 2), most of it zeros: cheaper than to
    move the field in memory. Else it has three, (1, 4 modes, n): cosines above sines."""
    into, back, behind = [], [], 1
    for axis in range(len(sizes) - 1, -1, -1):
        last = axis == len(sizes) - 1
        there, home = (_halved if last else _turned)(modes[axis], sizes[axis], behind)
        into.insert(0, there.to(device, dtype).contiguous())
        back.insert(0, home.to(device, dtype).contiguous())
        behind *= modes[axis] * (1 if last else 2)
    return into, back


def _halved(modes, size, _):
    """The last axis, real before and after: (n, k · 2) and (k · 2, n)."""
    cos, sin = _waves(range(modes), size)
    twice = torch.full((modes, 1), 2.0, dtype=torch.float64)
    twice[0] = 1
    if 2 * (modes - 1) == size:
        twice[-1] = 1
    there = torch.stack([cos, -sin], 1)
    return there.flatten(0, 1).T, (there * twice[:, None] / size).flatten(0, 1)


def _turned(modes, size, behind):
    cos, sin = _waves([*range(modes), *range(size - modes, size)], size)
    if behind > FEW_BEHIND:
        there, home = torch.cat([cos, sin]), torch.cat([cos.T, -sin.T]) / size
        return there[None], home[None]
    apart, pair = torch.eye(behind, dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    there = torch.kron(cos.T.contiguous(), torch.kron(apart, pair))
    there += torch.kron(sin.T.contiguous(), torch.kron(apart, _quarter(pair)))
    return there, there.T / size


def _waves(kept, size):
    """Cosines and sines (K, n) in float64 of 2π k n / size."""
    points = torch.arange(size, dtype=torch.float64)
    angle = 2 * math.pi / size * torch.outer(torch.tensor([*kept], dtype=points.dtype), points)
    return angle.cos(), angle.sin()


def _quarter(y):
    """y · e^(-iπ/2) of (real, imaginary) on the last axis."""
    return torch.stack([y[..., 1], -y[..., 0]], -1)


def _multiplied(y, matrix, behind):
    """One axis transformed; what it has `behind` is read where the matrix does not say it."""
    if matrix.ndim == 2:
        return y.reshape(-1, len(matrix)) @ matrix
    both = matrix @ y.reshape(-1, matrix.shape[2], 2 * behind)
    cos, sin = both.reshape(len(both), 2, -1, behind, 2).unbind(1)
    return cos + _quarter(sin)
