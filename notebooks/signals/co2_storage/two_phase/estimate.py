"""How hard a well would press, estimated before any simulation.

Radial flow of brine from the open rows to a distance of one thickness h, from there through the
whole aquifer to √(2.25 η t), where Theis' solution has fallen to nothing, η = k/(φ μ c):

    Δp = Q μ / (2π ρ) · (ln(h/r_w) / Σ_open k Δz + ln(√(2.25 η t)/h) / Σ k Δz)

One formula serves the simulator, which refuses sites by it, and the live page, whose graph it
becomes a part of: `radial_buildup_bar` is tensor arithmetic alone.

Legend: Z rows, R rings.
"""

import math
from typing import NamedTuple

import numpy as np
import torch

from . import fluids
from .aquifer import MD_M2, MT_PER_YEAR, hydrostatic_bar
from .grid import BAR, DAY_S, WELL_RADIUS_M


class Depth(NamedTuple):
    """What the estimate needs to know of an aquifer's depth, numbers or arrays of one shape:
    resting pressure in bar; build-up of one Mt a year, in bar mD m; viscosity times
    compressibility, in s."""

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


def radial_buildup_bar(depth, rate_mt, open_md, mean_md, porosity, thickness_m, grid):
    """Bar of build-up in the well at the last report time, from tensors that broadcast.

    open_md: the sum over the open rows of the first ring's permeability; mean_md, porosity:
    means over the aquifer, which has thickness_m / grid.row_m rows.
    """
    seconds = grid.times_days[-1] * DAY_S
    far = (2.25 * mean_md * MD_M2 / (porosity * depth.storage) * seconds).sqrt() / thickness_m
    near = (thickness_m / WELL_RADIUS_M).log() / open_md
    through = far.clamp(min=1).log() * grid.row_m / (mean_md * thickness_m)
    return rate_mt * depth.push / (2 * math.pi * grid.row_m) * (near + through)


def estimated_buildup_bar(case, grid):
    """A float: bar of build-up in a case's well at the last report time, were brine pushed."""
    rows = grid.active_rows(case.thickness_m)
    k, porosity = (
        np.asarray(f, float)[:rows] for f in (case.permeability_ZR, case.porosity_ZR)
    )
    opened = grid.perforated_rows(case.perforation_m, case.thickness_m)[:rows]
    numbers = (case.rate_mt, k[opened, 0].sum(), k.mean(), porosity.mean(), rows * grid.row_m)
    tensors = (torch.tensor(number, dtype=torch.float64) for number in numbers)
    return radial_buildup_bar(Depth(*map(float, at_depth(case.depth_m))), *tensors, grid).item()
