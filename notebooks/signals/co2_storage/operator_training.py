"""Training a neural operator on simulated storage sites, and what its errors are.

Article: "Accelerating Climate Change Mitigation with Machine Learning: The Case of Carbon
Storage" (NVIDIA Technical Blog, 2022); loss, optimiser and measures as in Wen et al., U-FNO
(2022): relative L2 of the field plus half of that of its derivative along the radius, over the
rock alone; Adam with weight decay and a rate that falls in steps; the plume error over cells
with gas, the pressure error relative to the largest build-up.

Where we differ: one network gives both fields, where the paper trains one a field; pressure is
learnt in units of rate over permeability times thickness, as radial flow has it, for every
contestant alike; the rate rises for a tenth of the updates and falls on a cosine; the
derivative is taken from ring to ring, which on a geometric grid is nearly the one along log r.

Legend: N cases, B batch, F fields (saturation, pressure build-up), Z rows, R rings, T times.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from fourier_operator import encode
from safetensors.torch import load_file, save_file
from torch import nn

__all__ = [
    "Errors", "Surrogate", "case_errors", "check_cases", "field_loss", "pick",
    "pressure_unit", "relative_l2", "targets", "train",
]  # fmt: skip

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


def targets(cases, grid):
    """(N, F, Z, R, T): saturation, and pressure build-up in units of `pressure_unit`."""
    unit = pressure_unit(cases, grid).view(-1, 1, 1, 1)
    return torch.stack([cases["saturation"], cases["pressure"] / unit], 1).movedim(2, -1)


def relative_l2(found_BZRT, true_BZRT):
    """(B,): ‖found − true‖ / ‖true‖, a field of zeros counting as one of norm 1e-6."""
    gap = (found_BZRT - true_BZRT).flatten(1).norm(dim=1)
    return gap / true_BZRT.flatten(1).norm(dim=1).clamp(min=FLOOR)


def field_loss(found_BFZRT, true_BFZRT, mask_BZR, derivative=0.5):
    """The mean over batch and fields of relative L2 plus `derivative` times that of the slope
    along the radius; cells outside of `mask` do not count.

    Raises ValueError for shapes that differ.
    """
    if found_BFZRT.shape != true_BFZRT.shape:
        raise ValueError(
            f"answers of shape {tuple(found_BFZRT.shape)}, truths of {tuple(true_BFZRT.shape)}"
        )
    inside = mask_BZR[:, None, :, :, None]
    found, true = ((field * inside).flatten(0, 1) for field in (found_BFZRT, true_BFZRT))
    slopes = (field[:, :, 2:] - field[:, :, :-2] for field in (found, true))
    return (relative_l2(found, true) + derivative * relative_l2(*slopes)).mean()


@dataclass
class Errors:
    """Per case: `plume` (mean absolute error of saturation where gas is or was foretold) and
    `pressure` (mean absolute error over the case's largest build-up), both (N,), as shares."""

    plume: torch.Tensor
    pressure: torch.Tensor

    def __str__(self):
        return f"plume {self.plume.mean():.2%}, pressure {self.pressure.mean():.2%}"


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


def train(net, cases, grid, epochs, seed=0, batch=8, rate=3e-3, device="cpu", tell=None):
    """A list of each epoch's mean loss; `net` is trained in place, and left in eval mode.

    cases: as `storage_cases.load` gives them. The order of the cases comes from `seed`.
    `tell(epoch, loss)` is called after each epoch. Adam, weight decay 1e-4. Raises ValueError
    for cases that `check_cases` refuses, and FloatingPointError, naming the epoch, once the
    loss is not finite.
    """
    check_cases(cases, grid, trained=False)
    order, number = torch.Generator().manual_seed(seed), len(cases["mask"])
    moving = net.head.times is None
    net.to(device).train()
    optimiser = torch.optim.Adam(net.parameters(), rate, weight_decay=1e-4)
    updates = epochs * -(-number // batch)
    course = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, updates, pct_start=0.1)
    losses = []
    for epoch in range(epochs):
        total = 0.0
        for chosen in torch.randperm(number, generator=order).split(batch):
            some = {name: values.to(device) for name, values in pick(cases, chosen).items()}
            found = net(encode(some, grid, moving))
            loss = field_loss(found, targets(some, grid), some["mask"])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            course.step()
            total += loss.item() * len(chosen)
        losses.append(total / number)
        if not math.isfinite(losses[-1]):
            raise FloatingPointError(f"the loss of epoch {epoch} is {losses[-1]}")
        if tell:
            tell(epoch, losses[-1])
    net.eval()
    return losses


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
        kept = {}
        for name, value in self.net.state_dict().items():
            value = torch.view_as_real(value) if value.is_complex() else value
            kept[name] = value.half().contiguous()
        save_file(kept, path)
        return path

    @classmethod
    def load(cls, path, net, grid):
        """The surrogate with a file's weights in `net`; ValueError if they do not fit it."""
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


def spread(values):
    """(mean, smallest, largest) of a list of numbers: three seeds at a glance."""
    return float(np.mean(values)), float(min(values)), float(max(values))
