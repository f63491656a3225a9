"""CO₂ pushed into a brine aquifer for 30 years: two phases, finite volumes on rings around one
well, fully implicit in time, many cases side by side.

Where we differ from the article's simulator (Schlumberger ECLIPSE e300): CO₂ and brine do not
dissolve in each other, no salt falls out, the temperature does not change, and the relative
permeabilities have no hysteresis.

Legend: B cases, Z rows downwards, R rings outwards, T report times.
"""

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from . import fluids
from .aquifer import aquifer_of, hydrostatic_bar
from .estimate import estimated_buildup_bar
from .newton import STEP_FRACTION, Run

FIELDS = (("permeability", 1e-4, 1e5, "mD"), ("porosity", 0.005, 0.6, "of the volume"))
NUMBERS = (
    ("depth_m", 800, 4000, "m: shallower CO₂ is no dense fluid, deeper the correlations end"),
    ("rate_mt", 1e-6, 10, "Mt a year into one well"),
    ("kv_kh", 1e-4, 1, "because layers hinder the flow across them"),
)
BREAKING = 1.2  # build-up over resting pressure that lifts the rock above


@dataclass(frozen=True)
class Case:
    """One storage site: rock on a `Grid`, the aquifer's place, and what the well does.

    permeability_ZR  horizontal, in millidarcy; rows below the thickness are ignored
    porosity_ZR      share of the volume
    thickness_m      of the aquifer, rounded to whole rows
    depth_m          of the aquifer's top; sets pressure and temperature
    rate_mt          CO₂ injected, in Mt (1e9 kg) a year of 365 days
    perforation_m    (top, bottom) of the well's open part, in m below the aquifer's top
    kv_kh            vertical over horizontal permeability
    irreducible      brine saturation that never flows (S_wi)
    lam              van Genuchten's λ of capillary pressure and brine permeability
    """

    permeability_ZR: np.ndarray
    porosity_ZR: np.ndarray
    thickness_m: float
    depth_m: float
    rate_mt: float
    perforation_m: tuple
    kv_kh: float = 0.1
    irreducible: float = 0.2
    lam: float = 0.5


class Result(NamedTuple):
    """What a case did. Fields are (T, Z, R) float64, zero below the aquifer; the build-up is
    that of brine over its resting pressure. `bottom_hole_bar` (T,) is the build-up in the well
    at its top open row. `mass_balance_error`: the worse of the two fluids', as a share of the
    CO₂ injected. `seconds`: the time of its batch, divided by the cases."""

    saturation_TZR: torch.Tensor
    pressure_buildup_TZR: torch.Tensor
    bottom_hole_bar: torch.Tensor
    mass_balance_error: float
    steps: int
    iterations: int
    seconds: float


def simulate(case, grid, **options):
    """`Result` of one case: `simulate_batch` with a batch of one."""
    return simulate_batch([case], grid, **options)[0]


def simulate_batch(cases, grid, step_fraction=STEP_FRACTION, fluid=None):
    """A `Result` for each case, advanced together on the CPU; equal to one at a time up to
    rounding.

    `step_fraction`: the longest step as a share of the time passed; halving it halves the error
    of time stepping. `fluid`: a `Fluids` in place of the real ones. Costs about 32 Z³ R
    operations an iteration and case, Z the batch's thickest aquifer in rows, so cases of about
    equal thickness go well together. Raises ValueError for an unphysical case (see `check`) or
    an empty batch, ArithmeticError where Newton's method fails even in steps of a second.
    """
    cases = list(cases)
    if not cases:
        raise ValueError("0 cases: at least one is needed")
    if not 0 < step_fraction <= 1:
        raise ValueError(f"step_fraction={step_fraction}: a share of the time passed, up to 1")
    for case in cases:
        check(case, grid)
    began = time.perf_counter()
    rows = max(grid.active_rows(case.thickness_m) for case in cases)
    run = Run(aquifer_of(cases, grid, rows, fluid), grid, step_fraction)
    with torch.no_grad():
        while len(run.cases):
            run.iterate()
    seconds = (time.perf_counter() - began) / len(cases)
    below = (0, 0, 0, grid.rows - rows)
    saturation, pressure = (
        torch.nn.functional.pad(field, below)
        for field in (run.saturation_out, run.pressure_out)
    )
    balance, steps, iterations = (
        x.tolist() for x in (run.balance.amax(1), run.steps, run.iterations)
    )
    parts = (saturation, pressure, run.bottom_out, balance, steps, iterations)
    return [Result(*(part[b] for part in parts), seconds) for b in range(len(cases))]


def check(case, grid):
    """None; ValueError saying what about a case is unphysical or does not fit the grid."""
    rows = grid.active_rows(case.thickness_m)
    for name, low, high, unit in FIELDS:
        field = np.asarray(getattr(case, f"{name}_ZR"))
        if field.shape != grid.shape:
            raise ValueError(
                f"{name} has the shape {field.shape}; this grid has {grid.shape} rows and rings"
            )
        found = field[:rows]
        broken = (~np.isfinite(found)).sum()
        if broken:
            raise ValueError(f"{name}: {broken} values in the aquifer are NaN or infinite")
        if found.min() < low or found.max() > high:
            raise ValueError(
                f"{name} from {found.min():.4g} to {found.max():.4g}: "
                f"{low:g} to {high:g} {unit} is what rock can have"
            )
    for name, low, high, why in NUMBERS:
        value = getattr(case, name)
        if not low <= value <= high:  # also refuses NaN
            raise ValueError(f"{name} = {value}: allowed is {low:g} to {high:g} {why}")
    fluids.check_curve(case.irreducible, case.lam)
    estimate, start = estimated_buildup_bar(case, grid), hydrostatic_bar(case.depth_m)
    if estimate > BREAKING * start:
        raise ValueError(
            f"this well would raise the pressure by about {estimate:.0f} bar where {start:.0f} "
            "bar rest, and break the rock: inject less, open more rows, or choose better rock"
        )
