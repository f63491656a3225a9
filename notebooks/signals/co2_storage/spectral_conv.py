"""The spectral convolution: one complex matrix a kept mode, and two ways to compute it.

By fast transforms it costs O(n log n) and touches every mode, kept or not. Where few are
kept, products with the few rows of the transforms' matrices cost less, though they grow
with n · modes: `SpectralConv` takes them on a processor below `MATRICES_BELOW`. Both agree
up to rounding, and so do their gradients. Source of the layer: Li et al., Fourier Neural
Operator for Parametric Partial Differential Equations (2021); the matrices are our own.

Legend: B batch, C channels, n1 … nd points an axis.
"""

import functools
import math

import torch
from torch import nn

__all__ = ["MATRICES_BELOW", "SpectralConv", "kept_transforms"]

MATRICES_BELOW = (
    0.5  # share of kept modes under which matrix products beat transforms on a processor
)


class SpectralConv(nn.Module):
    """A learned multiplication of the lowest modes: `SpectralConv(36, 36, (10, 10, 10))`.

    Maps real (B, C_in, n1 … nd) to (B, C_out, n1 … nd): real FFT over all axes but two, the
    kept modes times one complex matrix (C_in, C_out) each, zeros elsewhere, and back.
    `modes` are kept on both sides of every axis but the last, of which the transform has
    one side: so there are 2^(d-1) corners. `weight` holds one complex tensor (C_in, C_out,
    m1 … md) a corner; the first axis toggles fastest: (low, low), (high, low), (low, high),
    (high, high). Raises ValueError where the corners would overlap. Source: Li et al.,
    2021, section 4.
    """

    def __init__(self, channels_in, channels_out, modes):
        super().__init__()
        if not modes or min(*modes, channels_in, channels_out) < 1:
            raise ValueError(
                f"{channels_in} to {channels_out} channels, modes {tuple(modes)}: each >= 1"
            )
        self.modes, corners = tuple(modes), 2 ** (len(modes) - 1)
        scale = 1 / math.sqrt(2 * channels_in * channels_out)
        shape = (channels_in, channels_out, *modes)
        self.weight = nn.ParameterList(
            nn.Parameter(scale * torch.randn(shape, dtype=torch.cfloat)) for _ in range(corners)
        )

    def forward(self, x_BCs):
        """(B, C_out, n1 … nd), real."""
        sizes = x_BCs.shape[2:]
        self._check(sizes)
        few = (
            math.prod(2 * mode / size for mode, size in zip(self.modes, sizes, strict=True))
            < MATRICES_BELOW
        )
        if few and x_BCs.device.type == "cpu":
            return self._by_matrices(x_BCs, sizes)
        axes = tuple(range(2, x_BCs.ndim))
        found = torch.fft.rfftn(x_BCs, dim=axes)
        mixed = found.new_zeros(len(found), self.weight[0].shape[1], *found.shape[2:])
        for number, weight in enumerate(self.weight):
            corner = (slice(None), slice(None), *self.corner(number, sizes))
            mixed[corner] = torch.einsum("bi...,io...->bo...", found[corner], weight)
        return torch.fft.irfftn(mixed, s=sizes, dim=axes)

    def _by_matrices(self, x_BCs, sizes):
        """The same by products with the kept columns of the transforms' matrices: less work
        where few modes are kept."""
        like = torch.view_as_real(self.weight[0])
        there, back = kept_transforms(tuple(sizes), self.modes, like.dtype, like.device)
        v = torch.view_as_complex((x_BCs @ there[-1]).unflatten(-1, (-1, 2)))
        for axis in range(len(sizes) - 2, -1, -1):
            rest = v.shape[3 + axis :]
            v = (there[axis] @ v.flatten(3 + axis)).unflatten(-1, rest)
        mixed = torch.einsum("bi...,io...->bo...", v, self._whole())
        for axis in range(len(sizes) - 1):
            rest = mixed.shape[3 + axis :]
            mixed = (back[axis] @ mixed.flatten(3 + axis)).unflatten(-1, rest)
        return torch.view_as_real(mixed.resolve_conj()).flatten(-2) @ back[-1]

    def _whole(self):
        """The corners as one tensor (C_in, C_out, 2 m1 … md), low modes before high ones on
        every axis but the last."""
        parts = list(self.weight)
        for axis in range(len(self.modes) - 1):
            parts = [
                torch.cat(pair, 2 + axis) for pair in zip(parts[::2], parts[1::2], strict=True)
            ]
        return parts[0]

    def corner(self, number, sizes):
        """The slices, one an axis, of corner `number` in a transform of a field with these
        sizes."""
        ends = [(number >> axis) & 1 for axis in range(len(self.modes) - 1)] + [0]
        return tuple(
            slice(size - mode, size) if end else slice(0, mode)
            for end, mode, size in zip(ends, self.modes, sizes, strict=True)
        )

    def _check(self, sizes):
        room = (*(size // 2 for size in sizes[:-1]), sizes[-1] // 2 + 1)
        if len(sizes) != len(self.modes) or any(
            mode > most for mode, most in zip(self.modes, room, strict=True)
        ):
            raise ValueError(
                f"a field of {tuple(sizes)} has room for {room} modes, not {self.modes}"
            )


@functools.lru_cache(maxsize=32)
@torch.inference_mode(False)  # what is made in inference cannot be used in training later
def kept_transforms(sizes, modes, dtype, device):
    """(there, back): lists of one matrix an axis, of the real transform cut to the kept
    modes, and of its inverse.

    All but the last are complex, (kept, n) and (n, kept); the last are real, (n, 2 kept)
    and (2 kept, n), with real and imaginary parts side by side. The inverse counts a mode
    and its mirror image, which a real field has, twice.
    """
    there, back = [], []
    for number, (size, mode) in enumerate(zip(sizes, modes, strict=True)):
        last = number == len(sizes) - 1
        kept = (
            torch.arange(mode)
            if last
            else torch.cat([torch.arange(mode), torch.arange(size - mode, size)])
        )
        angle = 2 * math.pi / size * torch.outer(kept.double(), torch.arange(size).double())
        wave = torch.polar(torch.ones_like(angle), -angle)
        if not last:
            there.append(wave.to(device, dtype.to_complex()))
            back.append((wave.conj().T / size).resolve_conj().to(device, dtype.to_complex()))
            continue
        twice = torch.full((mode, 1), 2.0, dtype=torch.float64)
        twice[0] = 1
        if 2 * (mode - 1) == size:
            twice[-1] = 1
        there.append(torch.view_as_real(wave.T.contiguous()).flatten(1).to(device, dtype))
        inverse = torch.stack([wave.real * twice, wave.imag * twice], 1).flatten(0, 1) / size
        back.append(inverse.to(device, dtype))
    return there, back
