"""How hard a well would press, estimated before any simulation.

Radial flow of brine from the open rows to a distance of one thickness h, from there through the
whole aquifer to √(2.25 η t), where Theis' solution has fallen to nothing, η = k/(φ μ c):

    Δp = Q μ / (2π ρ) · (ln(h/r_w) / Σ_open k Δz + ln(√(2.25 η t)/h) / Σ k Δz)

The simulator refuses sites by it, the networks learnt from sites that it let pass, and the live
page asks it, too: `buildup_bar` is tensor arithmetic alone.

Legend: B cases, Z rows, R rings.
"""

import math
from typing import NamedTuple

import numpy as np
import torch

from . import fluids
from .aquifer import MD_M2, MT_PER_YEAR, hydrostatic_bar
from .grid import BAR, DAY_S, WELL_RADIUS_M


class Depth(NamedTuple):
    """What the estimate needs of an aquifer's depth: resting pressure in bar; build-up of one
    Mt a year, in bar mD m; viscosity times compressibility, in s."""

    start_bar: np.ndarray
    push: np.ndarray
    storage: np.ndarray


def at_depth(depth_m):
    """The `Depth` of one depth of an aquifer's top in m, or of many: `at_depth(1500.0)`."""
    start_bar, celsius = hydrostatic_bar(depth_m), fluids.temperature_c(depth_m)
    viscosity = fluids.brine_viscosity(celsius)
    springs = fluids.ROCK_PER_PA + fluids.brine_compressibility(start_bar * BAR, celsius)
    volume = MT_PER_YEAR / fluids.co2_density(start_bar * BAR, celsius + 273.15)
    return Depth(start_bar, volume * viscosity / MD_M2 / BAR, springs * viscosity)


def buildup_bar(cases, depth, grid):
    """(B,) bar of build-up in each case's well at the last report time, were brine pushed;
    cases as `storage_sites.to_arrays` names them, `depth` the `Depth` of their tops."""
    k_BZR, open_BZ = cases["permeability"], cases["perforation_mask"]
    rows = cases["mask"][:, :, 0].sum(1)
    cells, thickness = rows * k_BZR.shape[2], rows * grid.row_m
    mean_md, porosity = (
        cases[name].sum((1, 2)) / cells for name in ("permeability", "porosity")
    )
    diffusivity = mean_md * MD_M2 / (porosity * depth.storage)
    far = (2.25 * diffusivity * grid.times_days[-1] * DAY_S).sqrt() / thickness
    near = (thickness / WELL_RADIUS_M).log() / (k_BZR[:, :, 0] * open_BZ).sum(1)
    through = far.clamp(min=1).log() / (mean_md * rows)
    return cases["rate"] * depth.push / (2 * math.pi * grid.row_m) * (near + through)


def estimated_buildup_bar(case, grid):
    """A float: bar of build-up in a case's well at the last report time, were brine pushed."""
    inside = np.arange(grid.rows)[:, None] < grid.active_rows(case.thickness_m)
    one = {
        "permeability": np.where(inside, case.permeability_ZR, 0.0),
        "porosity": np.where(inside, case.porosity_ZR, 0.0),
        "perforation_mask": grid.perforated_rows(case.perforation_m, case.thickness_m),
        "mask": np.broadcast_to(inside, grid.shape),
        "rate": np.float64(case.rate_mt),
    }
    tensors = {name: torch.tensor(np.array(value))[None] for name, value in one.items()}
    return buildup_bar(tensors, Depth(*map(float, at_depth(case.depth_m))), grid).item()
