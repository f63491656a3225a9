"""The simulator against answers that do not come from it: a front, a pressure, a sum.

Front       Buckley and Leverett (1942): without gravity, capillarity and compressibility a
            saturation S moves out to π r² h φ = W f'(S), W the volume injected and f the CO₂'s
            share of the flow; the front stands where the tangent from the undisturbed state
            touches f (Welge 1952).
Pressure    Theis (1935): one slightly compressible fluid from a line well raises the
            pressure by Q μ/(4π ρ k h) · E₁(r²/(4 η t)), η = k/(φ μ c). Both fluids get the same
            properties and straight relative permeabilities, so there is only one.
Sum         the mass in place, summed again from the fields that a run returns.
"""

from collections import namedtuple
from dataclasses import replace

import numpy as np
import scipy.special

from . import fluids
from .aquifer import MD_M2, MT_PER_YEAR, Fluids, aquifer_of
from .grid import BAR, DAY_S, Grid
from .simulator import Case, simulate

FLAT = fluids.Curves(np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.zeros(2), 1.0)
STIFF = Fluids(brine_per_pa=0.0, rock_per_pa=0.0)
ONE = Fluids(1000.0, 5e-4, 1000.0, 5e-4, co2_per_pa=4e-10, brine_per_pa=4e-10, curves=FLAT)
POROSITY = 0.2


# A simulated and an exact curve over radius (R,), and one number for their distance.
Profile = namedtuple("Profile", "radius_m simulated exact error")


def one_row(rings=100, reach_m=3000.0, days=(1000.0,), row_m=20.0, ratio=1.04):
    """A `Grid` of one row for radial tests, rings widening by `ratio`."""
    edges = reach_m * (ratio ** np.arange(rings + 1) - 1) / (ratio**rings - 1)
    return Grid(tuple(edges.tolist()), 1, row_m, tuple(days))


def plain_case(grid, millidarcy=100.0, rate_mt=0.1, thickness_m=None, open_from=0.0):
    """A `Case` of uniform rock 1,500 m down, the well open from a share of its height down."""
    height = thickness_m or grid.rows * grid.row_m
    uniform = np.ones(grid.shape)
    opening = (open_from * height, height)
    return Case(millidarcy * uniform, POROSITY * uniform, height, 1500.0, rate_mt, opening)


def buckley_leverett(grid=None, step_fraction=0.02, **options):
    """`Profile` of saturation at the last report time; `error` is the mean distance from the
    exact one, averaged over each ring, as a share of its mean (L1)."""
    grid = grid or one_row()
    case = plain_case(grid)
    options = {"fluid": STIFF, "step_fraction": step_fraction} | options
    found = simulate(case, grid, **options).saturation_TZR[-1, 0].numpy()
    seconds = grid.times_days[-1] * DAY_S
    volume = case.rate_mt * MT_PER_YEAR / STIFF.co2_density * seconds
    pores = grid.areas_m2 * grid.row_m * POROSITY / volume
    edges = np.concatenate([[0.0], np.cumsum(pores)])  # ξ = π r² h φ / W
    exact = np.diff(_flooded(edges, case)) / pores
    error = np.abs(found - exact) @ pores / (exact @ pores)
    return Profile(grid.centres_m, found, exact, float(error))


def _flooded(edges, case, points=20001):
    """∫₀^ξ S dξ' of the exact solution at each ξ of `edges`."""
    curve = fluids.curves(case.irreducible, case.lam)
    s = np.linspace(0, curve.largest_saturation, points)
    nodes = np.linspace(0, curve.largest_saturation, len(curve.co2))
    brine = np.interp(s, nodes, curve.brine) / STIFF.brine_viscosity
    co2 = np.interp(s, nodes, curve.co2) / STIFF.co2_viscosity
    # by parts it is ξ S(ξ) + 1 − f(S(ξ)), and S(ξ) is where f(S) − ξ S is largest: taking
    # the largest over all S draws Welge's tangent by itself
    return np.array([1 - (co2 / (co2 + brine) - x * s).max() for x in edges])


def theis(grid=None, millidarcy=50.0, **options):
    """`Profile` of the build-up in bar at the last report time; `error` is the largest
    difference from the second ring on, as a share of the exact build-up in the second ring."""
    grid = grid or replace(Grid.reduced(1, 96), row_m=20.0)
    case = plain_case(grid, millidarcy, rate_mt=0.02)
    result = simulate(case, grid, **({"fluid": ONE} | options))
    found = result.pressure_buildup_TZR[-1, 0].numpy()
    k, storage = millidarcy * MD_M2, POROSITY * (ONE.brine_per_pa + ONE.rock_per_pa)
    volume = case.rate_mt * MT_PER_YEAR / ONE.brine_density
    seconds = grid.times_days[-1] * DAY_S
    u = grid.centres_m**2 * storage * ONE.brine_viscosity / (4 * k * seconds)
    scale = volume * ONE.brine_viscosity / (4 * np.pi * k * grid.row_m) / BAR
    exact = scale * scipy.special.exp1(u)
    error = np.abs(found - exact)[1:].max() / exact[1]
    return Profile(grid.centres_m, found, exact, float(error))


def co2_in_place_mt(case, grid, saturation_TZR, pressure_buildup_TZR):
    """(T,) Mt of CO₂ in the aquifer at each report time, summed from fields of a simulator or
    of a network: Σ φ ρ S V."""
    rows = grid.active_rows(case.thickness_m)
    aquifer = aquifer_of([case], grid, rows)
    start, table = aquifer.start[0, :, None].numpy(), aquifer.co2_density[0].numpy()
    built = np.asarray(pressure_buildup_TZR, float)[:, :rows] * BAR
    nodes, there = fluids.PRESSURES_PA, start + built
    density = np.stack([np.interp(there[:, z], nodes, table[z]) for z in range(rows)], 1)
    pores = np.asarray(case.porosity_ZR)[:rows] * grid.areas_m2 * grid.row_m
    saturation = np.asarray(saturation_TZR, float)[:, :rows]
    swollen = 1 + fluids.ROCK_PER_PA * built
    return (pores * swollen * density * saturation).sum((1, 2)) / 1e9
