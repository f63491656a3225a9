"""From storage sites to the arrays that the equations need.

Each row has one temperature, and so one density and one viscosity table for CO₂. Pressure at
rest is the discrete equilibrium of the equations, so that an aquifer without a well stays
exactly still. Capillary pressure is scaled from the reference rock of `fluids` by Leverett's
rule, √(φ/k).

Legend: B cases, Z rows, R rings.
"""

from typing import NamedTuple

import numpy as np
import torch

from . import equations, fluids
from .grid import BAR, DAY_S, YEAR_DAYS

MD_M2 = 9.869233e-16  # one millidarcy
MT_PER_YEAR = 1e9 / (YEAR_DAYS * DAY_S)  # in kg/s
ATMOSPHERE_PA = 1.013e5
COLUMN_KG_M3 = 1020.0  # of the brine between the surface and the aquifer


class Fluids(NamedTuple):
    """Plain fluids in place of the real ones, for validation: constant viscosities,
    densities that change linearly with pressure. `capillary` and `gravity` scale those
    effects, 0 leaves them out; `curves` replaces the rock's."""

    co2_density: float = 700.0
    co2_viscosity: float = 6e-5
    brine_density: float = 1020.0
    brine_viscosity: float = 6e-4
    co2_per_pa: float = 0.0
    brine_per_pa: float = 4e-10
    rock_per_pa: float = fluids.ROCK_PER_PA
    capillary: float = 0.0
    gravity: float = 0.0
    curves: fluids.Curves | None = None


REAL = Fluids(capillary=1.0, gravity=1.0)  # its densities and viscosities are not used


def hydrostatic_bar(depth_m):
    """The brine pressure that rests at a depth, in bar: about 101 at 1,000 m."""
    return (ATMOSPHERE_PA + COLUMN_KG_M3 * equations.GRAVITY * depth_m) / BAR


def aquifer_of(cases, grid, rows, fluid=None):
    """The `equations.Aquifer` of a batch of cases, cut to `rows` rows; those below a case's own
    thickness are sealed. `fluid`: a `Fluids`, or None for the real ones."""
    parts = [_arrays(case, grid, rows, fluid) for case in cases]
    stacked = {
        name: torch.as_tensor(np.stack([part[name] for part in parts])) for name in parts[0]
    }
    stacked["curves"] = stacked["curves"].transpose(0, 1).contiguous()
    gravity = equations.GRAVITY * (fluid or REAL).gravity
    nodes = torch.as_tensor(fluids.PRESSURES_PA)
    return equations.Aquifer(**stacked, pressures=nodes, row_m=grid.row_m, gravity=gravity)


def _arrays(case, grid, rows, fluid):
    """One case's part of the Aquifer, NumPy float64."""
    plain = fluid or REAL
    inside = np.arange(grid.rows)[:, None] < grid.active_rows(case.thickness_m)
    k = np.where(inside, np.asarray(case.permeability_ZR, float) * MD_M2, 0.0)
    porosity = np.where(inside, np.asarray(case.porosity_ZR, float), 0.1)
    leverett = np.where(inside, porosity / fluids.ROCK_POROSITY * fluids.ROCK_M2, 0.0)
    leverett = np.sqrt(leverett / np.where(inside, k, 1.0))
    perforated = grid.perforated_rows(case.perforation_m, case.thickness_m)
    liquid = _real_fluids(case, grid) if fluid is None else _plain_fluids(case, grid, fluid)
    head = equations.GRAVITY * plain.gravity * liquid.pop("well_density")
    arrays = {
        "pore_volume": porosity * grid.areas_m2 * grid.row_m,
        "radial": np.where(inside, grid.radial_conductance(k), 0.0),
        "vertical": np.where(inside[1:], grid.vertical_conductance(k * case.kv_kh), 0.0),
        "well_index": np.where(perforated, grid.well_index(k[:, 0]), 0.0),
        "well_head": head * (grid.depths_m - grid.depths_m[perforated.argmax()]) * perforated,
        "entry": np.pad(leverett, ((0, 0), (0, 1)), "edge") * plain.capillary,
        **liquid,
    }
    arrays = {name: part[: rows - (name == "vertical")] for name, part in arrays.items()}
    curve = plain.curves or fluids.curves(case.irreducible, case.lam)
    return arrays | {
        "rate": np.float64(case.rate_mt * MT_PER_YEAR),
        "rock_per_pa": np.float64(plain.rock_per_pa),
        "curves": np.stack([curve.brine, curve.co2, curve.capillary_pa]),
        "largest": np.float64(curve.largest_saturation),
    }


def _real_fluids(case, grid):
    """Per row: resting pressure, brine's properties, CO₂'s tables at the row's temperature."""
    depths = case.depth_m + grid.depths_m
    celsius = fluids.temperature_c(depths)
    about = hydrostatic_bar(depths) * BAR
    kelvin = celsius[:, None] + 273.15
    density = fluids.co2_density(fluids.PRESSURES_PA, kelvin)
    return {
        "brine_viscosity": fluids.brine_viscosity(celsius),
        "brine_per_pa": fluids.brine_compressibility(about, celsius),
        "co2_density": density, "co2_viscosity": fluids.co2_viscosity(density, kelvin),
        **_at_rest(grid, about[0], fluids.brine_density(about, celsius), density, 1.0),
    }  # fmt: skip


def _plain_fluids(case, grid, fluid):
    """The same for a `Fluids`; CO₂'s density is its own at the pressure of the first row."""
    first = hydrostatic_bar(case.depth_m + grid.depths_m[0]) * BAR
    ones = np.ones((grid.rows, len(fluids.PRESSURES_PA)))
    density = fluid.co2_density * ones * (1 + fluid.co2_per_pa * (fluids.PRESSURES_PA - first))
    return {
        "brine_viscosity": fluid.brine_viscosity * ones[:, 0],
        "brine_per_pa": fluid.brine_per_pa * ones[:, 0],
        "co2_density": density, "co2_viscosity": fluid.co2_viscosity * ones,
        **_at_rest(grid, first, fluid.brine_density * ones[:, 0], density, fluid.gravity),
    }  # fmt: skip


def _at_rest(grid, first, brine, co2, gravity):
    """Neighbouring rows differ by the weight of their mean density, as in `flux_between`."""
    steps = equations.GRAVITY * gravity * grid.row_m * (brine[1:] + brine[:-1]) / 2
    start = first + np.concatenate([[0.0], np.cumsum(steps)])
    nodes = fluids.PRESSURES_PA
    well = np.array([np.interp(p, nodes, table) for p, table in zip(start, co2, strict=True)])
    return {"start": start, "brine_density": brine, "well_density": well}
