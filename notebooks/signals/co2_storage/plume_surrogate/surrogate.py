"""A trained network that speaks in physical units, and its errors, as in Wen et al., U-FNO
(2022): the plume's over cells with gas, the pressure's relative to the largest build-up.

Legend: N cases, B batch, Z rows, R rings, T times.
"""

import math
from dataclasses import dataclass

import torch
from storage_sites import BUILD_UP_SHARE, TRAINING, rock
from torch import nn
from two_phase import Depth, at_depth, buildup_bar

from .inputs import FLOOR, encode, pressure_unit
from .mass import GAS, MassBalance, check_held

RANGES = {  # that the training sites lie in; rock in every cell
    "kv_kh": (*(10**power for power in TRAINING.log10_kv_kh), ""),
    "thickness": (*TRAINING.thickness_m, "m"), "depth": (*TRAINING.depth_m, "m"),
    "rate": (*TRAINING.rate_mt, "Mt/yr"), "swi": (*TRAINING.irreducible, ""),
    "lam": (*TRAINING.lam, ""), "porosity": (*rock.POROSITY, ""),
    "permeability": (rock.SLOWEST_MD, rock.FASTEST_MD, "mD"),
}  # fmt: skip
MEAN_MD = (15.0, 2250.0)  # geometric means of the training sites' permeability


def pick(cases, which):
    """The dict of the cases numbered `which` (an index tensor, slice or list of N)."""
    return {name: values[which] for name, values in cases.items()}


@dataclass
class Errors:
    """Mean absolute errors of N cases, as shares."""

    plume: torch.Tensor  # (N,) of saturation, where gas is or was predicted
    pressure: torch.Tensor  # (N,) over the case's largest build-up


def case_errors(saturation_NTZR, pressure_NTZR, cases):
    """The `Errors` of fields predicted for `cases`, as `Surrogate.predict` gives them."""
    true_s, true_p = cases["saturation"], cases["pressure"]
    inside = cases["mask"][:, None].expand_as(true_s)
    gas = ((true_s > GAS) | (saturation_NTZR > GAS)) & inside
    plume = ((saturation_NTZR - true_s).abs() * gas).flatten(1).sum(1)
    gap = ((pressure_NTZR - true_p).abs() * inside).flatten(1).sum(1)
    largest = (true_p.abs() * inside).flatten(1).amax(1).clamp(min=FLOOR)
    cells = inside.flatten(1).sum(1)
    return Errors(plume / gas.flatten(1).sum(1).clamp(min=1), gap / cells / largest)


class Surrogate(nn.Module):
    """A trained network that speaks in physical units: `Surrogate(net, grid).predict(cases)`.

    Called with a case's dict it gives saturation and build-up in bar, (B, T, Z, R) each, zero
    outside of the rock, and the share of the injected gas that they hold (`mass`), (B, T), in
    tensor arithmetic alone; `predict` also checks the cases, and that the share is one.
    """

    def __init__(self, net, grid):
        super().__init__()
        self.net, self.grid, self.balance = net, grid, MassBalance(grid)

    def forward(self, cases):
        """Saturation and pressure build-up in bar, (B, T, Z, R); the gas held (B, T)."""
        saturation, pressure = self.unbalanced(cases)
        saturation, held = self.balance(cases, saturation, pressure)
        return saturation, pressure, held

    def unbalanced(self, cases):
        """Both fields as the network has them, cut to the rock and to [0, 1], mass or not."""
        x = encode(cases, self.grid, self.net.head.times is None)
        saturation, pressure = self.net(x).permute(0, 1, 4, 2, 3).unbind(1)
        unit = pressure_unit(cases, self.grid).view(-1, 1, 1, 1)
        inside = cases["mask"][:, None].float()
        return saturation.clamp(0, 1) * inside, pressure * unit * inside

    @torch.inference_mode()
    def predict(self, cases, batch=16, trained=True):
        """Saturation and build-up in bar, (N, T, Z, R) each, on the CPU like the cases, however
        far away the network lies.

        Raises ValueError for cases that `check_cases` refuses (`trained=False` lets those
        outside of the training's ranges pass), ArithmeticError where an answer cannot hold the
        injected gas.
        """
        check_cases(cases, self.grid, trained)
        here, parts = self.balance.years_T.device, []
        for some in torch.arange(len(cases["mask"])).split(batch):
            parts.append(self({key: x.to(here) for key, x in pick(cases, some).items()}))
        *fields, held = (torch.cat(each).cpu() for each in zip(*parts, strict=True))
        check_held(held)
        return tuple(fields)

    def save(self, path):
        """Write the weights as safetensors, 16 bits each, complex ones as pairs."""
        from safetensors.torch import save_file

        kept = {}
        for name, value in self.net.state_dict().items():
            value = torch.view_as_real(value) if value.is_complex() else value
            kept[name] = value.half().contiguous()
        save_file(kept, path)
        return path

    @classmethod
    def load(cls, path, net, grid):
        """The surrogate with a file's weights in `net`; ValueError if they do not fit it."""
        from safetensors.torch import load_file

        found = {name: value.float() for name, value in load_file(path).items()}
        for name, value in net.state_dict().items():
            if value.is_complex() and name in found:
                found[name] = torch.view_as_complex(found[name])
        try:
            net.load_state_dict(found)
        except RuntimeError as error:
            raise ValueError(f"{path} holds another network than this one: {error}") from None
        return cls(net.eval(), grid)


def check_cases(cases, grid, trained=True):
    """None where the cases (tensors, or arrays of NumPy) can be predicted; else ValueError.

    Refused are fields of another grid, numbers that are not finite or not positive, porosity
    over a half, a well outside of the aquifer or without one, and with `trained` whatever lies
    outside of what the training drew from: each number, each cell, the mean of the rock, and
    how hard the well would press.
    """
    shape = tuple(cases["permeability"].shape[1:])
    if shape != grid.shape:
        raise ValueError(f"fields of {shape} cells: this grid has {grid.shape}")
    mask, opened = cases["mask"], cases["perforation_mask"]
    for name, (low, high, unit) in RANGES.items():
        values, allowed = cases[name], f"training drew from {low:g} to {high:g} {unit}"
        if not trained:
            low, high = FLOOR, 0.5 if name == "porosity" else math.inf
            allowed = f"it must be positive, and at most {high:g}"
        fine = (values >= low * (1 - FLOOR)) & (values <= high * (1 + FLOOR))
        fine &= values < math.inf
        if values.ndim == 3:  # a comparison is false for what is not a number
            fine |= ~mask
        if not fine.all():
            first = values[~fine].flatten()[0].item()
            allowed = allowed if math.isfinite(first) else "every number must be finite"
            count = int((~fine).sum())
            values = "1 value" if count == 1 else f"{count} values"
            raise ValueError(f"{name} = {first:g}: {allowed} ({values})")
    if not opened.any(1).all():
        raise ValueError("a well is open over no row: CO₂ needs a way into the rock")
    if (opened & ~mask[:, :, 0]).any():
        raise ValueError("a well is open below the aquifer: its rows must lie in the rock")
    if trained:
        check_pressing({name: torch.as_tensor(cases[name]) for name in PRESSED}, grid)


PRESSED = ("permeability", "porosity", "perforation_mask", "mask", "rate", "depth")


def check_pressing(cases, grid):
    """None where rock and well are, as a whole, like those of the training; else ValueError."""
    k_NZR, mask = cases["permeability"], cases["mask"]
    means = (k_NZR.clamp(min=FLOOR).log() * mask).sum((1, 2)) / mask.sum((1, 2))
    for mean in means.exp().tolist():
        if not MEAN_MD[0] <= mean <= MEAN_MD[1]:
            had = "the training sites have {:g} to {:g}".format(*MEAN_MD)
            raise ValueError(f"permeability with a geometric mean of {mean:.3g} mD: {had}")
    depth = Depth(*map(torch.as_tensor, at_depth(cases["depth"].numpy())))
    share = (buildup_bar(cases, depth, grid) / depth.start_bar).max()
    if not share <= BUILD_UP_SHARE * (1 + 1e-3):
        had = f"the training has at most {BUILD_UP_SHARE:.0%}; inject less, or open more rows"
        told = f"this well would raise the pressure by about {share:.0%} of what rests there"
        raise ValueError(f"{told}: {had}")
