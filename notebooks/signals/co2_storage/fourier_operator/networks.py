"""The Fourier neural operator (FNO), the U-FNO, and a plain U-Net beside them.

The article is about Wen et al., U-FNO (2022). A Fourier layer (Li et al., 2021) computes

    v' = relu( F⁻¹(R · F(v)) + W v )          and the U-Fourier layer, with a U-Net U,
    v' = relu( F⁻¹(R · F(v)) + W v + U v )

where F is the Fourier transform over depth, radius and time, R a complex matrix for each
kept mode, W a matrix a cell. What is not kept is zero, so that a layer has the same weights on
every grid. U, three levels of strided convolutions and back, returns what the cut-off took.

Where we differ: any shape is padded so that three halvings fit, `outputs` may be more than one
(the article trains one network a target), and batch normalisation may be left out of the U
path. Two modes in place of three fold time into the channels: the network sees depth and
radius, and answers for all `times` at once, as the reduced presets do.

Legend: B batch, C channels, Z rows, R rings, T report times.
"""

import functools
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from .spectral_conv import SpectralConv

INPUTS = 12  # channels that say what a storage site is
HALVINGS = 3  # that a U path makes
REDUCED = {
    "FNO": {"width": 25, "modes": (4, 8), "layers": 4, "pad": (0, 8, 0), "head": 64},
    "UFNO": {"width": 22, "modes": (3, 5), "layers": 3, "pad": (0, 8, 0), "head": 64,
             "u_layers": 3, "inner": 24, "normalise": False},
    "UNet": {"width": 14, "pad": (0, 0, 0), "head": 64, "axes": 2},
}  # fmt: skip


class Pointwise(nn.Linear):
    """A linear map of the channels at every point: (B, C_in, …) to (B, C_out, …)."""

    def forward(self, v):
        """(B, C_out, …)."""
        return torch.baddbmm(
            self.bias[:, None], self.weight.expand(len(v), -1, -1), v.flatten(2)
        ).unflatten(2, v.shape[2:])


class FourierLayer(nn.Module):
    """`relu(spectral + per-cell matrix)`, with `unet` what the U path adds; shapes stay."""

    def __init__(self, width, modes, unet=None):
        super().__init__()
        self.spectral = SpectralConv(width, width, modes)
        self.local = Pointwise(width, width)
        self.unet = unet

    def forward(self, v):
        """(B, C, Z, R, …)."""
        out = self.spectral(v) + self.local(v)
        return F.relu(out if self.unet is None else out + self.unet(v))


class UPath(nn.Module):
    """Three strided convolutions down and three transposed ones back, joined level by level;
    (B, width, Z, R, …) to the same, sizes in eighths. `inner` channels inside; as published 36,
    with batch normalisation."""

    def __init__(self, width, inner=None, normalise=True, axes=3):
        super().__init__()
        inner = inner or width
        convolution, transposed, norm = _kinds(axes)

        def block(channels, stride):
            first = convolution(channels, inner, 3, stride, 1, bias=not normalise)
            norms = [norm(inner)] if normalise else []
            return nn.Sequential(first, *norms, nn.LeakyReLU(0.1))

        def back(channels):
            return nn.Sequential(transposed(channels, inner, 4, 2, 1), nn.LeakyReLU(0.1))

        self.down1 = block(width, 2)
        self.down2 = nn.Sequential(block(inner, 2), block(inner, 1))
        self.down3 = nn.Sequential(block(inner, 2), block(inner, 1))
        self.up3, self.up2, self.up1 = back(inner), back(2 * inner), back(2 * inner)
        self.out = convolution(inner + width, width, 3, 1, 1)

    def forward(self, v):
        """(B, width, Z, R, …)."""
        half = self.down1(v)
        quarter = self.down2(half)
        up = self.up3(self.down3(quarter))
        up = self.up2(torch.cat([quarter, up], 1))
        up = self.up1(torch.cat([half, up], 1))
        return self.out(torch.cat([v, up], 1))


class FNO(nn.Module):
    """Lift, Fourier layers, projection. Maps (B, C, Z, R, T) to (B, Z, R, T), or (B, outputs,
    Z, R, T) where `outputs` > 1. The field is padded by `pad` cells an axis at the far ends
    (zeros below in depth, the edge repeated along radius and time), and more where eighths do
    not fit, since a transform takes its field for periodic. With two `modes`, time is folded: T
    must be `times` or 1, the input's first time alone is read, and all `times` are answered.
    Raises ValueError for another number of channels or of times."""

    def __init__(
        self, channels=INPUTS, outputs=1, width=36, modes=(10, 10, 10), layers=6,
        pad=(8, 8, 8), head=128, times=None,
    ):  # fmt: skip
        super().__init__()
        self.channels, self.pad = channels, tuple(pad)
        self.lift = Pointwise(channels, width)
        self.layers = nn.ModuleList(FourierLayer(width, modes) for _ in range(layers))
        self.head = Head(width, head, outputs, _folded(times, len(modes)))

    def forward(self, x_BCZRT):
        """(B, Z, R, T), or (B, outputs, Z, R, T)."""
        v = self.lift(prepared(x_BCZRT, self.channels, self.pad, self.head.times))
        for layer in self.layers:
            v = layer(v)
        return self.head(v, x_BCZRT.shape[2:])

    @classmethod
    def published(cls):
        """The article's shape, for 96 × 200 × 24 points."""
        return cls()

    @classmethod
    def reduced(cls, outputs=2, times=12):
        """For 24 × 48 points, time folded; both fields from one network. All kinds have about
        as many real numbers; no batch normalisation, whose statistics few cases hardly give."""
        return cls(outputs=outputs, times=times, **REDUCED[cls.__name__])


class UFNO(FNO):
    """An FNO whose last `u_layers` layers have a U path. Shapes and errors as `FNO`."""

    def __init__(
        self, *args, width=36, modes=(10, 10, 10), layers=6, u_layers=3, inner=None,
        normalise=True, **options,
    ):  # fmt: skip
        super().__init__(*args, width=width, modes=modes, layers=layers, **options)
        if not 0 < u_layers <= layers:
            raise ValueError(f"u_layers={u_layers} of {layers} layers: from 1 on, and no more")
        for layer in self.layers[-u_layers:]:
            layer.unet = UPath(width, inner, normalise, len(modes))


class UNet(nn.Module):
    """The article's kind of baseline, convolutions alone: up to three `halvings`, twice the
    channels at each, and back, each level's field handed across. `kernel`: an odd number.
    Shapes, `times` (with `axes` 2) and errors as `FNO`."""

    def __init__(
        self, channels=INPUTS, outputs=1, width=32, pad=(0, 0, 4), head=128, times=None, axes=3,
        halvings=HALVINGS, kernel=3,
    ):  # fmt: skip
        super().__init__()
        self.channels, self.pad = channels, tuple(pad)
        sizes = [width * 2**level for level in range(halvings + 1)]
        transposed, made = _kinds(axes)[1], functools.partial(_convolution, axes, kernel)
        self.lift = Pointwise(channels, width)
        self.down = nn.ModuleList(made(a, b, 2) for a, b in pairwise(sizes))
        self.level = nn.ModuleList(made(size, size) for size in sizes)
        self.up = nn.ModuleList(transposed(b, a, 2, 2) for a, b in pairwise(sizes))
        self.join = nn.ModuleList(made(2 * size, size) for size in sizes[:-1])
        self.head = Head(width, head, outputs, _folded(times, axes))

    def forward(self, x_BCZRT):
        """(B, Z, R, T), or (B, outputs, Z, R, T)."""
        x = prepared(x_BCZRT, self.channels, self.pad, self.head.times)
        v = self.level[0](self.lift(x))
        passed = []
        for down, level in zip(self.down, self.level[1:], strict=True):
            passed.append(v)
            v = level(down(v))
        for up, join in zip(reversed(self.up), reversed(self.join), strict=True):
            v = join(torch.cat([passed.pop(), up(v)], 1))
        return self.head(v, x_BCZRT.shape[2:])

    reduced = classmethod(FNO.reduced.__func__)


class Head(nn.Module):
    """Two maps a point, from `width` channels to the outputs, of the points that were there
    before padding; `times` unfolds time."""

    def __init__(self, width, inner, outputs, times):
        super().__init__()
        self.outputs, self.times, last = outputs, times, outputs * (times or 1)
        self.maps = nn.Sequential(Pointwise(width, inner), nn.ReLU(), Pointwise(inner, last))

    def forward(self, v, sizes):
        """(B, outputs, Z, R, T)."""
        Z, R, T = sizes
        out = self.maps(v[:, :, :Z, :R] if self.times else v[:, :, :Z, :R, :T])
        if self.times:
            out = out.unflatten(1, (self.outputs, self.times)).permute(0, 1, 3, 4, 2)
        return out[:, 0] if self.outputs == 1 else out


def _folded(times, axes):
    if (times is None) != (axes == 3) or axes not in (2, 3):
        need = "folded time needs `times` and two axes, else three"
        raise ValueError(f"times={times}, {axes} axes: {need}")
    return times


def _kinds(axes):
    """The convolution, the transposed one and the normalisation over two or three axes."""
    return {
        2: (nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm2d),
        3: (nn.Conv3d, nn.ConvTranspose3d, nn.BatchNorm3d),
    }[axes]


def _convolution(axes, kernel, channels_in, channels_out, stride=1):
    convolution = _kinds(axes)[0](channels_in, channels_out, kernel, stride, kernel // 2)
    return nn.Sequential(convolution, nn.LeakyReLU(0.1))


def prepared(x_BCZRT, channels, pad, times=None):
    """The input, checked and padded, with `times` its first time alone; ValueError for
    another number of channels, axes or times."""
    if x_BCZRT.ndim != 5 or x_BCZRT.shape[1] != channels:
        need = f"(B, {channels}, Z, R, T) is needed"
        raise ValueError(f"an input of shape {tuple(x_BCZRT.shape)}: {need}")
    if times is None:
        return padded(x_BCZRT, pad)
    if x_BCZRT.shape[-1] not in (1, times):
        need = f"this network, time folded, answers for {times}, asked with all of them or one"
        raise ValueError(f"{x_BCZRT.shape[-1]} times; {need}")
    first = x_BCZRT if x_BCZRT.shape[-1] == 1 else x_BCZRT[..., :1]
    return padded(first.flatten(3), pad)


def padded(x_BCs, pad):
    """`x`, (B, C, Z, R, T) or (B, C, Z, R), with at least `pad` more cells at each axis's far
    end, up to a multiple of eight: zeros in depth, the last cell repeated elsewhere."""
    step = 2**HALVINGS
    for axis, more in enumerate(pad[: x_BCs.ndim - 2], start=2):
        size = x_BCs.shape[axis]
        more = (size + more + step - 1) // step * step - size  # not negative: tracing truncates
        edge = x_BCs.narrow(axis, size - 1, 1)
        if axis == 2:
            edge = torch.zeros_like(edge)
        if more:
            x_BCs = torch.cat([x_BCs, *[edge] * more], axis)
    return x_BCs


def parameters(model):
    """(count with a complex number as one, count of real numbers)."""
    sizes = [(p.numel(), p.numel() * (2 if p.is_complex() else 1)) for p in model.parameters()]
    return tuple(map(sum, zip(*sizes, strict=True)))
