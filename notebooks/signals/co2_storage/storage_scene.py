"""From the sliders of the live page to a case as the operator knows it, in tensors that can be
exported.

The page offers six numbers and a kind of rock. What the training cases draw besides
(anisotropy, brine that never flows, the curves' exponent) is held at its middle here. The rock
is a seeded field by the recipe of `rock_fields`, standardised, that the slider of permeability
lifts or lowers as a whole.

A well that would press too hard (over 40 % of the starting pressure by the simulator's own
estimate) is not among the training cases. `Scene.pressed` is that share, so that the page can
refuse what no network has seen.

Legend: Z rows, R rings; k knobs of the page.
"""

import math
from typing import NamedTuple

import numpy as np
import rock_fields
import torch
import two_phase
import two_phase_fluids as fluids
from storage_cases import TRAINING
from torch import nn
from two_phase_grid import DAY_S, WELL_RADIUS_M

SEED = 1
ROCKS = {
    "even": ("smooth", 0.2),  # name to kind and standard deviation of ln k
    "layered": ("layered", 0.8),
    "rough": ("continuous", 0.8),
    "smooth": ("smooth", 0.8),
    "sand and shale": ("facies", 0.8),
}
MD_M2 = two_phase.MD_M2
DEPTH_STEP_M = 10.0


class Knob(NamedTuple):
    """A slider of the page. `scale`: "" as it stands; "log10": of the number in `unit`;
    "share": of the thickness."""

    name: str
    label: str
    group: str
    min: float
    max: float
    step: float
    value: float
    unit: str
    scale: str = ""


def knobs(grid, ranges=TRAINING):
    """The six `Knob`s, within what a network has seen in training on `grid`."""
    row, thickest = grid.row_m, grid.rows * grid.row_m
    thinnest = math.ceil(ranges.thickness_m[0] / row - 1e-9) * row
    usual = round(0.75 * grid.rows) * row
    depth, rate, mean = ranges.depth_m, ranges.rate_mt, ranges.log10_mean_md
    return (
        Knob("depth", "Depth of the aquifer’s top", "Site", *depth, 50, 1500, "m"),
        Knob("thickness", "Thickness", "Site", thinnest, thickest, row, usual, "m"),
        Knob("permeability", "Permeability, median", "Site", *mean, 0.05, 2.3, "mD", "log10"),
        Knob("rate", "CO₂ injected", "Well", *rate, 0.05, 1.0, "Mt a year"),
        Knob("top", "Open from, below the top", "Well", 0.0, 1.0, 0.05, 0.5, "m", "share"),
        Knob("bottom", "Open down to", "Well", 0.0, 1.0, 0.05, 1.0, "m", "share"),
    )


def rocks(grid, seed=SEED):
    """Rock patterns by name, (2, Z, R) float32: what is added to the logarithm of permeability,
    and the scatter of porosity, by the recipe of `rock_fields`."""
    found = {}
    for index, (name, (kind, sigma)) in enumerate(ROCKS.items()):
        rng = np.random.default_rng([seed, index])
        fields = [rock_fields.gaussian(grid, rng, 30.0, 2000.0, kind) for _ in range(2)]
        found[name] = torch.tensor(
            np.stack([sigma * fields[0], fields[1]]), dtype=torch.float32
        )
    return found


class Scene(nn.Module):
    """From the page's knobs to a case as the operator knows it: `Scene(grid)(pattern_2ZR,
    knobs_k)`.

    The case is a dict of tensors of batch one like those of `storage_cases.load`, fields zero
    below the aquifer. `pressed(case)` is the estimated build-up as a share of the starting
    pressure, (1,).
    """

    def __init__(self, grid, kv_kh=0.1, irreducible=0.2, lam=0.5):
        super().__init__()
        self.row_m, self.shape, self.seconds = (
            grid.row_m,
            grid.shape,
            grid.times_days[-1] * DAY_S,
        )
        numbers = {
            "depths_Z": grid.depths_m,
            "held": [kv_kh, irreducible, lam],
            "table": _at_depths(),
        }
        for name, value in numbers.items():
            self.register_buffer(name, torch.tensor(value, dtype=torch.float32))
        self.register_buffer("rows_Z", torch.arange(grid.rows))

    def forward(self, pattern_2ZR, knobs_k):
        """A dict of tensors of batch one."""
        depth, thickness, log_median, rate, top, bottom = knobs_k.unbind()
        thickness = (thickness / self.row_m).round() * self.row_m
        inside_Z = self.depths_Z < thickness
        open_Z = (self.depths_Z > top * thickness) & (self.depths_Z < bottom * thickness)
        away_Z = (self.depths_Z - (top + bottom) / 2 * thickness).abs() + 1e6 * ~inside_Z
        open_Z = inside_Z & (open_Z | (self.rows_Z == away_Z.argmin()))
        log_k_ZR = (log_median * math.log(10) + pattern_2ZR[0]).clamp(
            math.log(rock_fields.SLOWEST_MD), math.log(rock_fields.FASTEST_MD)
        )
        porosity_ZR = 0.2 + 0.05 * (log_k_ZR / math.log(10) - 2) + 0.01 * pattern_2ZR[1]
        mask_ZR = inside_Z[:, None].expand(self.shape)
        kv_kh, swi, lam = self.held[:, None].unbind()
        return {
            "permeability": (log_k_ZR.exp() * mask_ZR)[None],
            "porosity": (porosity_ZR.clamp(0.05, 0.35) * mask_ZR)[None],
            "kv_kh": kv_kh,
            "thickness": thickness[None],
            "depth": depth[None],
            "rate": rate[None],
            "perforation_mask": open_Z[None],
            "swi": swi,
            "lam": lam,
            "mask": mask_ZR[None],
        }

    def pressed(self, case):
        """(1,): `two_phase.estimated_buildup_bar` over the hydrostatic pressure, in tensors."""
        place = (case["depth"][0] / DEPTH_STEP_M).clamp(0, len(self.table) - 1.001)
        low = place.floor().long()
        row = self.table[low] + (place - low) * (self.table[low + 1] - self.table[low])
        start, mobility, storage = row.unbind()
        k_ZR, rows = case["permeability"][0], case["mask"][0, :, :1].sum()
        height, porosity = (
            case["thickness"][0],
            case["porosity"].mean() * len(self.rows_Z) / rows,
        )
        mean = k_ZR.mean() * len(self.rows_Z) / rows
        far = (2.25 * mean * MD_M2 / (porosity * storage) * self.seconds).sqrt() / height
        open_k = (k_ZR[:, 0] * case["perforation_mask"][0]).sum()
        near = (height / WELL_RADIUS_M).log() / open_k
        near = near + far.clamp_min(1).log() / (mean * rows)
        flow = case["rate"] * mobility / (2 * math.pi * self.row_m)
        return flow * near / start


def _at_depths(deepest_m=4000.0):
    """(depths, 3), a row every 10 m: starting pressure in bar; rate (Mt/yr) to build-up (bar)
    times mD; viscosity times compressibility. What `estimated_buildup_bar` needs to know of the
    depth."""
    depth = np.arange(0, deepest_m + 1, DEPTH_STEP_M)
    celsius, start = fluids.temperature_c(depth), two_phase.hydrostatic_bar(depth)
    viscosity = fluids.brine_viscosity(celsius)
    density = fluids.co2_density(start * two_phase.BAR, celsius + 273.15)
    mobility = two_phase.MT_PER_YEAR / density * viscosity / MD_M2 / two_phase.BAR
    stiff = fluids.brine_compressibility(start * two_phase.BAR, celsius)
    return np.stack([start, mobility, (fluids.ROCK_PER_PA + stiff) * viscosity], 1)
