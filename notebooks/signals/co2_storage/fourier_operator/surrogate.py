"""A trained network that speaks in physical units, and what its errors are.

Article: "Accelerating Climate Change Mitigation with Machine Learning: The Case of Carbon
Storage" (NVIDIA Technical Blog, 2022); the measures as in Wen et al., U-FNO (2022): the plume
error over cells with gas, the pressure error relative to the largest build-up. Pressure is
foretold in units of rate over permeability times thickness, as radial flow has it, for every
contestant alike.

Legend: N cases, B batch, Z rows, R rings, T times.
"""

import math
from dataclasses import dataclass

import torch
from torch import nn

from .inputs import encode

BAR_PER_FLOW = 4e5  # bar · mD · m / (Mt/yr): about the largest build-up of a median case
GAS = 0.01  # saturation above which a cell belongs to the plume
FLOOR = 1e-6
RANGES = {
    "permeability": (1e-4, 1e5, "mD"),
    "porosity": (0.0, 0.5, ""),
    "kv_kh": (0.01, 1.0, ""),
    "thickness": (25.0, 200.0, "m"),
    "depth": (1000.0, 2500.0, "m"),
    "rate": (0.2, 2.0, "Mt/yr"),
    "swi": (0.1, 0.3, ""),
    "lam": (0.3, 0.7, ""),
}


def pick(cases, which):
    """The dict of the cases numbered `which` (an index tensor, slice or list of N)."""
    return {name: values[which] for name, values in cases.items()}


def pressure_unit(cases, grid):
    """(N,): the build-up in bar that a network calls 1, rate / (permeability · thickness) times
    a constant: the scale of steady radial flow. Tensor arithmetic alone."""
    k_NZR = cases["permeability"].float() * cases["mask"].float()
    conductance = k_NZR.mean((1, 2)) * (grid.rows * grid.row_m)
    return BAR_PER_FLOW * cases["rate"].float() / conductance.clamp(min=FLOOR)


@dataclass
class Errors:
    """Per case: `plume` (mean absolute error of saturation where gas is or was foretold) and
    `pressure` (mean absolute error over the case's largest build-up), both (N,), as shares."""

    plume: torch.Tensor
    pressure: torch.Tensor


def case_errors(saturation_NTZR, pressure_NTZR, cases):
    """The `Errors` of fields foretold for `cases`, as `Surrogate.predict` gives them."""
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

    Called with a case's dict it gives saturation and build-up in bar, (B, T, Z, R) each, in
    tensor arithmetic alone; `predict` also checks the cases and keeps to the rock.
    """

    def __init__(self, net, grid):
        super().__init__()
        self.net, self.grid = net, grid

    def forward(self, cases):
        """Saturation (B, T, Z, R) and pressure build-up in bar (B, T, Z, R)."""
        x = encode(cases, self.grid, self.net.head.times is None)
        saturation, pressure = self.net(x).movedim(-1, 2).unbind(1)
        return saturation, pressure * pressure_unit(cases, self.grid).view(-1, 1, 1, 1)

    @torch.inference_mode()
    def predict(self, cases, batch=16, trained=True):
        """Saturation in [0, 1] and build-up in bar, zero outside of the rock.

        Raises ValueError for cases that `check_cases` refuses; `trained=False` lets cases
        outside of the training's ranges pass, for those who know what they ask.
        """
        check_cases(cases, self.grid, trained)
        parts = []
        for chosen in torch.arange(len(cases["mask"])).split(batch):
            some = pick(cases, chosen)
            saturation, pressure = self(some)
            inside = some["mask"][:, None]
            parts.append((saturation.clamp(0, 1) * inside, pressure * inside))
        saturations, pressures = zip(*parts, strict=True)
        return torch.cat(saturations), torch.cat(pressures)

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

        found, wanted = load_file(path), net.state_dict()
        if found.keys() != wanted.keys():
            other = sorted(found.keys() ^ wanted.keys())[:3]
            raise ValueError(f"{path} holds another network than this one: {other} differ")
        for name, value in wanted.items():
            read = found[name].float()
            read = torch.view_as_complex(read) if value.is_complex() else read
            if read.shape != value.shape:
                shapes = f"{tuple(read.shape)}, not {tuple(value.shape)}"
                raise ValueError(f"{path} holds another network than this one: {name} {shapes}")
            value.copy_(read)
        return cls(net.eval(), grid)


def check_cases(cases, grid, trained=True):
    """None where the cases (tensors, or arrays of NumPy) can be foretold; else ValueError says
    which, what and why.

    Refused are fields of another grid, numbers that are not finite, porosity below zero or
    over a half, permeability that is not positive, a well outside of the aquifer or without
    one, and with `trained` whatever lies outside of the ranges that the training drew from.
    """
    shape = tuple(cases["permeability"].shape[1:])
    if shape != grid.shape:
        raise ValueError(f"fields of {shape} cells: this grid has {grid.shape}")
    mask, opened = cases["mask"], cases["perforation_mask"]
    for name, (low, high, unit) in RANGES.items():
        values, allowed = cases[name], f"{low:g} to {high:g} {unit}"
        if values.ndim == 3:  # a comparison is false for what is not a number
            fine = ((values > low) & (values <= high)) | ~mask
        elif trained:
            fine = (values >= low - FLOOR) & (values <= high + FLOOR)
            allowed = "training drew from " + allowed
        else:
            fine, allowed = (values > 0) & (values < math.inf), "it must be positive"
        if not fine.all():
            first = values[~fine].flatten()[0].item()
            allowed = allowed if math.isfinite(first) else "every number must be finite"
            count = int((~fine).sum())
            raise ValueError(f"{name} = {first:g}: {allowed} ({count} such numbers)")
    if not opened.any(1).all():
        raise ValueError("a well is open over no row: CO₂ needs a way into the rock")
    if (opened & ~mask[:, :, 0]).any():
        raise ValueError("a well is open below the aquifer: its rows must lie in the rock")
