"""Neural operators for CO₂ storage: the Fourier neural operator (FNO), the U-FNO, and a
plain U-Net beside them.

Article: "Accelerating Climate Change Mitigation with Machine Learning: The Case of Carbon
Storage" (NVIDIA Technical Blog, 2022), about Wen et al., U-FNO (Advances in Water
Resources, 2022). A Fourier layer (Li et al., 2021) computes

    v' = relu( F⁻¹(R · F(v)) + W v )          and the U-Fourier layer, with a U-Net U,
    v' = relu( F⁻¹(R · F(v)) + W v + U v )

where F is the Fourier transform over depth, radius and time, R a complex matrix a kept
mode, W a matrix a cell. What is not kept is zero, so that a layer has the same weights on
every grid. U, three levels of strided convolutions and back, returns what the cut-off took:
the sharp front of the plume.

`UFNO.published()` is the article's network, 33,097,829 parameters with a complex one
counted once. Our own words and code; the facts are the paper's. Where we differ: any shape
is padded so that three halvings fit, `outputs` may be more than one (the article trains one
network a target), and batch normalisation may be left out of the U path.

Legend: B batch, C channels, Z rows, R rings, T report times.
"""

from itertools import pairwise

import torch
from spectral_conv import SpectralConv
from torch import nn
from torch.nn import functional as F

__all__ = ["CHANNELS", "FNO", "UFNO", "SpectralConv", "UNet", "encode", "parameters"]

CHANNELS = (
    "radial permeability", "vertical permeability", "porosity", "perforation", "rate", "depth",
    "place in the aquifer", "irreducible water", "pore-size index", "radius", "row", "time",
)  # fmt: skip
INPUTS = len(CHANNELS)
LEVELS = 3  # halvings in the U path


class Pointwise(nn.Linear):
    """A linear map of the channels at every point: (B, C_in, …) to (B, C_out, …)."""

    def forward(self, v):
        """(B, C_out, …)."""
        return torch.baddbmm(
            self.bias[:, None], self.weight.expand(len(v), -1, -1), v.flatten(2)
        ).unflatten(2, v.shape[2:])


class FourierLayer(nn.Module):
    """`relu(spectral + per-cell matrix)`, and with `unet` what the U path adds; (B, C, Z,
    R, T) to the same."""

    def __init__(self, width, modes, unet=None):
        super().__init__()
        self.spectral = SpectralConv(width, width, modes)
        self.local = Pointwise(width, width)
        self.unet = unet

    def forward(self, v):
        """(B, C, Z, R, T)."""
        out = self.spectral(v) + self.local(v)
        return F.relu(out if self.unet is None else out + self.unet(v))


class UPath(nn.Module):
    """Three strided convolutions down and three transposed ones back, joined level by
    level; sizes in eighths.

    (B, width, Z, R, T) to the same. `inner` channels inside; as published 36, with batch
    normalisation.
    """

    def __init__(self, width, inner=None, normalise=True):
        super().__init__()
        inner = inner or width

        def block(channels, stride):
            layers = [nn.Conv3d(channels, inner, 3, stride, 1, bias=not normalise)]
            return nn.Sequential(
                *layers, *([nn.BatchNorm3d(inner)] if normalise else []), nn.LeakyReLU(0.1)
            )

        def back(channels):
            return nn.Sequential(
                nn.ConvTranspose3d(channels, inner, 4, 2, 1), nn.LeakyReLU(0.1)
            )

        self.down1 = block(width, 2)
        self.down2 = nn.Sequential(block(inner, 2), block(inner, 1))
        self.down3 = nn.Sequential(block(inner, 2), block(inner, 1))
        self.up3, self.up2, self.up1 = back(inner), back(2 * inner), back(2 * inner)
        self.out = nn.Conv3d(inner + width, width, 3, 1, 1)

    def forward(self, v):
        """(B, width, Z, R, T)."""
        half = self.down1(v)
        quarter = self.down2(half)
        up = self.up3(self.down3(quarter))
        up = self.up2(torch.cat([quarter, up], 1))
        up = self.up1(torch.cat([half, up], 1))
        return self.out(torch.cat([v, up], 1))


class FNO(nn.Module):
    """Lift, Fourier layers, projection: `FNO(12, width=36, modes=(10, 10, 10), layers=6)`.

    Maps (B, C, Z, R, T) to (B, Z, R, T), or (B, outputs, Z, R, T) where `outputs` > 1. The
    field is padded by `pad` cells an axis at the far ends (zeros below in depth, the edge
    repeated along radius and time), and more where eighths do not fit, since a transform
    takes its field for periodic. Raises ValueError for another number of channels.
    """

    def __init__(
        self, channels=INPUTS, outputs=1, width=36, modes=(10, 10, 10), layers=6,
        pad=(8, 8, 8), head=128,
    ):  # fmt: skip
        super().__init__()
        self.channels, self.outputs, self.pad = channels, outputs, tuple(pad)
        self.lift = Pointwise(channels, width)
        self.layers = nn.ModuleList(FourierLayer(width, modes) for _ in range(layers))
        self.head = nn.Sequential(Pointwise(width, head), nn.ReLU(), Pointwise(head, outputs))

    def forward(self, x_BCZRT):
        """(B, Z, R, T), or (B, outputs, Z, R, T)."""
        v = self.lift(prepared(x_BCZRT, self.channels, self.pad))
        for layer in self.layers:
            v = layer(v)
        return cut(self.head, v, x_BCZRT.shape[2:])

    @classmethod
    def published(cls):
        """Six Fourier layers in the shape of `UFNO.published`."""
        return cls()

    @classmethod
    def reduced(cls, outputs=2):
        """For 24 × 48 × 12 points on two cores; both fields from one network."""
        return cls(outputs=outputs, width=12, modes=(5, 8, 4), layers=3, pad=(0, 8, 4), head=32)


class UFNO(FNO):
    """An FNO whose last `u_layers` layers have a U path: `UFNO.published()`. Shapes and
    errors as `FNO`."""

    def __init__(
        self, *args, width=36, layers=6, u_layers=3, inner=None, normalise=True, **options
    ):
        super().__init__(*args, width=width, layers=layers, **options)
        if not 0 < u_layers <= layers:
            raise ValueError(
                f"u_layers={u_layers} of {layers} layers: 1 to {layers} may have a U path"
            )
        for layer in self.layers[-u_layers:]:
            layer.unet = UPath(width, inner, normalise)

    @classmethod
    def published(cls):
        """The article's network: width 36, 10 modes an axis, three Fourier and three
        U-Fourier layers, for 96 × 200 × 24 points: 33,097,829 parameters with a complex one
        counted once."""
        return cls()

    @classmethod
    def reduced(cls, outputs=2):
        """About as many real numbers as `FNO.reduced`: fewer modes pay for the U path.
        Without batch normalisation, whose statistics mean little at batch 4."""
        return cls(
            outputs=outputs, width=12, modes=(5, 7, 4), layers=3, u_layers=1, inner=8,
            normalise=False,
            pad=(0, 8, 4), head=32,
        )  # fmt: skip


class UNet(nn.Module):
    """The convolutional baseline, a U-Net in three dimensions: `UNet(12, width=12)`. Shapes
    and errors as `FNO`.

    Two convolutions a level, channels doubled and every axis halved three times, and back
    with what each level had.
    """

    def __init__(self, channels=INPUTS, outputs=1, width=32, pad=(0, 0, 4), head=128):
        super().__init__()
        self.channels, self.outputs, self.pad = channels, outputs, tuple(pad)
        sizes = [width * 2**level for level in range(LEVELS + 1)]
        self.lift = Pointwise(channels, width)
        self.down = nn.ModuleList(_convolution(a, b, 2) for a, b in pairwise(sizes))
        self.level = nn.ModuleList(_convolution(size, size) for size in sizes)
        self.up = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, 2) for a, b in pairwise(sizes))
        self.join = nn.ModuleList(_convolution(2 * size, size) for size in sizes[:-1])
        self.head = nn.Sequential(Pointwise(width, head), nn.ReLU(), Pointwise(head, outputs))

    def forward(self, x_BCZRT):
        """(B, Z, R, T), or (B, outputs, Z, R, T)."""
        v = self.level[0](self.lift(prepared(x_BCZRT, self.channels, self.pad)))
        passed = []
        for down, level in zip(self.down, self.level[1:], strict=True):
            passed.append(v)
            v = level(down(v))
        for up, join in zip(reversed(self.up), reversed(self.join), strict=True):
            v = join(torch.cat([passed.pop(), up(v)], 1))
        return cut(self.head, v, x_BCZRT.shape[2:])

    @classmethod
    def reduced(cls, outputs=2):
        """About as many real numbers as `UFNO.reduced`."""
        return cls(outputs=outputs, width=11, head=32)


def _convolution(channels_in, channels_out, stride=1):
    return nn.Sequential(nn.Conv3d(channels_in, channels_out, 3, stride, 1), nn.LeakyReLU(0.1))


def prepared(x_BCZRT, channels, pad):
    """The input, checked and padded; ValueError for another number of channels or axes."""
    if x_BCZRT.ndim != 5 or x_BCZRT.shape[1] != channels:
        raise ValueError(
            f"an input of shape {tuple(x_BCZRT.shape)}: (B, {channels}, Z, R, T) is needed"
        )
    return padded(x_BCZRT, pad)


def cut(head, v, sizes):
    """The head's answer for the points that were there before padding, (B, Z, R, T) where
    it is a single one."""
    Z, R, T = sizes
    out = head(v[:, :, :Z, :R, :T])
    return out[:, 0] if out.shape[1] == 1 else out


def padded(x_BCZRT, pad):
    """`x` with at least `pad` more cells at each axis's far end, up to a multiple of eight:
    zeros in depth, the last cell repeated in radius and time."""
    step = 2**LEVELS
    z, r, t = (
        -(-(size + more) // step) * step - size
        for size, more in zip(x_BCZRT.shape[2:], pad, strict=True)
    )
    x = F.pad(x_BCZRT, (0, t, 0, r, 0, 0), mode="replicate")
    return F.pad(x, (0, 0, 0, 0, 0, z))


def parameters(model):
    """(count with a complex number as one, count of real numbers)."""
    sizes = [(p.numel(), p.numel() * (2 if p.is_complex() else 1)) for p in model.parameters()]
    return tuple(map(sum, zip(*sizes, strict=True)))


def encode(cases, grid):
    """The network's input (B, 12, Z, R, T), channels as `CHANNELS`, from a dict as
    `storage_cases.load` gives it.

    Permeabilities (mD) as logarithms, the rest scaled to about one; everything is zero
    below the aquifer, but not time and place. Tensor arithmetic alone, so that it can be
    traced; float32, on the cases' device.
    """
    k_BZR = cases["permeability"].float()
    device, inside = k_BZR.device, cases["mask"].float()
    B, Z, R = k_BZR.shape

    def case(name):
        return cases[name].float().reshape(-1, 1, 1)

    def along(values, shape):
        return (
            torch.as_tensor(values, dtype=torch.float32, device=device)
            .reshape(shape)
            .expand(B, Z, R)
        )

    depth_m = case("depth") + along(grid.depths_m, (1, Z, 1))
    logs = [(value.clamp(min=1e-6).log10() - 2) / 2 for value in (k_BZR, k_BZR * case("kv_kh"))]
    open_BZR = cases["perforation_mask"].float()[:, :, None].expand(B, Z, R)
    fields = [
        *logs,
        (cases["porosity"].float() - 0.2) * 10,
        open_BZR,
        open_BZR * case("rate") / open_BZR[:, :, :1].sum(1, keepdim=True).clamp(min=1) * 8,
        (depth_m - 1700) / 500,
        along(grid.depths_m, (1, Z, 1)) / case("thickness").clamp(min=1) * 2 - 1,
        ((case("swi") - 0.2) * 10).expand(B, Z, R),
        ((case("lam") - 0.5) * 5).expand(B, Z, R),
    ]
    places = [
        along(grid.centres_m, (1, 1, R)).clamp(min=1e-3).log10() / 2 - 1,
        along(grid.depths_m, (1, Z, 1)) / 100 - 1,
    ]
    still = torch.stack([field * inside for field in fields] + places, 1)
    times = torch.as_tensor(grid.times_days, dtype=torch.float32, device=device).log10() / 2 - 1
    T = len(times)
    moving = times.expand(B, 1, Z, R, T)
    return torch.cat([still[..., None].expand(B, still.shape[1], Z, R, T), moving], 1)
