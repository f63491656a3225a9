"""CO₂ pushed into a brine aquifer for 30 years: gas saturation and pressure build-up around one well.

This is the simulator that the article's network stands in for: two phases, finite volumes on rings around the well,
fully implicit in time. `two_phase_equations` holds the equations and their source, `two_phase_fluids` the fluids and
curves, `two_phase_linear` the linear solver. Here each time step is solved by Newton's method, and many cases run side
by side, each at its own time with its own step: whoever has converged moves on while the others iterate.

A step is at most a tenth of the time already passed, because everything spreads about as √t; it is cut to a third when
Newton fails. Changes of saturation are limited to 0.2 an iteration (Appleyard's chop).

Where we differ from the article's simulator (Schlumberger ECLIPSE e300): CO₂ and brine do not dissolve in each other, no
salt falls out, the temperature does not change, the relative permeabilities have no hysteresis.

Legend: B cases, Z rows downwards, R rings outwards, T report times.
"""

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import two_phase_equations as equations
import two_phase_fluids as fluids
from two_phase_grid import DAY_S, WELL_RADIUS_M, YEAR_DAYS, Grid
from two_phase_linear import solve_blocks, solve_sparse

__all__ = ["Case", "Fluids", "Grid", "Result", "aquifer_of", "simulate", "simulate_batch"]

MD_M2 = 9.869233e-16  # one millidarcy
MT_PER_YEAR = 1e9 / (YEAR_DAYS * DAY_S)  # in kg/s
BAR = 1e5
ATMOSPHERE_PA = 1.013e5
CHOP = 0.2  # largest change of saturation in one Newton iteration
PRESSURE_CHOP_PA = 5e6
NEWTON_LIMIT = 12
TOLERANCE = 1e-5  # largest residual, as a share of the mass that fills a cell's pores
BALANCE_TOLERANCE = (
    1e-7  # residuals summed over all cells, as a share of the CO2 injected in the step
)
FIRST_STEP_S = 0.05 * DAY_S
SMALLEST_STEP_S = 1.0
STEP_FRACTION = 0.1
SOLVERS = {"blocks": solve_blocks, "scipy": solve_sparse}


@dataclass(frozen=True)
class Case:
    """One storage site: rock on a `Grid`, the aquifer's place, and what the well does.

    permeability_ZR  horizontal, in millidarcy; porosity_ZR a share; rows below the thickness are ignored
    kv_kh            vertical over horizontal permeability
    thickness_m, depth_m   of the aquifer and of its top; the depth sets pressure and temperature
    rate_mt          CO₂ injected, in Mt (1e9 kg) a year of 365 days
    perforation_m    (top, bottom) of the open part of the well, in m below the aquifer's top
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


class Fluids(NamedTuple):
    """Replaces the real fluids, for validation: constant density and viscosity at the starting pressure, linear
    compressibility; `capillary` and `gravity` scale those two effects (0 switches off)."""

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


class Result(NamedTuple):
    """What a case did. Saturation and pressure build-up (bar, brine's, over hydrostatic) are (T, Z, R) float64 with
    zeros below the aquifer; `bottom_hole_bar` (T,) is the well's own build-up at its top open row;
    `mass_balance_error` the worse of the two fluids' errors, as a share of the CO₂ injected; `seconds` the time of the
    batch it was in, divided by the cases."""

    saturation_TZR: torch.Tensor
    pressure_buildup_TZR: torch.Tensor
    bottom_hole_bar: torch.Tensor
    mass_balance_error: float
    steps: int
    iterations: int
    seconds: float


def simulate(case, grid, **options):
    """`Result` of one case: `simulate_batch` with a batch of one.

    >>> grid = Grid.reduced(rows=6, rings=12, reports=3)
    >>> case = Case(np.full(grid.shape, 100.0), np.full(grid.shape, 0.2), 200.0, 1500.0, 1.0, (100.0, 200.0))
    >>> simulate(case, grid).saturation_TZR.shape
    torch.Size([3, 6, 12])
    """
    return simulate_batch([case], grid, **options)[0]


def simulate_batch(
    cases, grid, device="cpu", solver="blocks", step_fraction=STEP_FRACTION, fluid=None
):
    """A `Result` for each case, all advanced together on `device`; equal to one at a time up to rounding.

    `solver`: "blocks" (torch, any device) or "scipy" (SuperLU on the CPU). `step_fraction`: the longest step as a share
    of the time passed; halving it halves the error of time stepping. `fluid`: a `Fluids` in place of the real ones.
    Cost: about 16 Z³ R operations a Newton iteration and case, a few hundred iterations. Batches do best with cases of
    about equal thickness, because rows below the thickest are left out. Raises ValueError for an unphysical case
    (see `check`), an empty batch or an unknown solver, ArithmeticError where the step falls below a second.
    """
    if not cases or solver not in SOLVERS:
        raise ValueError(
            f"{len(cases)} cases, solver {solver!r}: at least one case, and a solver of {sorted(SOLVERS)}"
        )
    if not 0 < step_fraction <= 1:
        raise ValueError(
            f"step_fraction={step_fraction}: a share of the time passed, above 0 and up to 1"
        )
    for case in cases:
        check(case, grid)
    began = time.perf_counter()
    rows = max(grid.active_rows(case.thickness_m) for case in cases)
    aquifer = aquifer_of(cases, grid, rows, device, fluid)
    run = _Run(aquifer, grid, SOLVERS[solver], step_fraction)
    with torch.no_grad():
        while len(run.cases):
            run.iterate()
    return run.results((time.perf_counter() - began) / len(cases), grid.rows)


def check(case, grid):
    """None; ValueError saying what is unphysical about a case, or does not fit the grid."""
    rows = grid.active_rows(case.thickness_m)
    for name, low, high, unit in (
        ("permeability", 1e-4, 1e5, "mD"),
        ("porosity", 0.005, 0.6, "of the volume"),
    ):
        field = np.asarray(getattr(case, f"{name}_ZR"))
        if field.shape != grid.shape:
            raise ValueError(
                f"{name} has shape {field.shape}; this grid is {grid.shape} (rows, rings)"
            )
        found = field[:rows]
        if not np.isfinite(found).all():
            raise ValueError(
                f"{name} has {(~np.isfinite(found)).sum()} values in the aquifer that are no numbers"
            )
        if found.min() < low or found.max() > high:
            raise ValueError(
                f"{name} from {found.min():.4g} to {found.max():.4g}: {low:g} to {high:g} {unit} is physical"
            )
    for name, low, high, why in (
        (
            "depth_m",
            800,
            4000,
            "shallower CO₂ is no dense fluid, and the fluid correlations end below",
        ),
        ("rate_mt", 1e-6, 10, "Mt a year into one well"),
        ("kv_kh", 1e-4, 1, "layers hinder flow across them"),
    ):
        value = getattr(case, name)
        if not low <= value <= high:  # also refuses NaN
            raise ValueError(f"{name} = {value}: {low:g} to {high:g} is allowed ({why})")
    fluids.curves(case.irreducible, case.lam)
    grid.perforated_rows(case.perforation_m, case.thickness_m)
    estimate, start = estimated_buildup_bar(case, grid), hydrostatic_bar(case.depth_m)
    if estimate > 1.2 * start:  # about the weight of the rock above
        raise ValueError(f"this well would raise the pressure by about {estimate:.0f} bar, with {start:.0f} bar "
                         "resting there; the rock would break: inject less, or into thicker or more permeable rock")  # fmt: skip


def hydrostatic_bar(depth_m):
    """The brine pressure that rests at a depth, in bar."""
    return (ATMOSPHERE_PA + 1020 * equations.GRAVITY * depth_m) / BAR


def estimated_buildup_bar(case, grid):
    """An estimate before any simulation: bar of build-up in the well after 30 years, if it pushed brine.

    Radial flow through the open rows up to a distance of one thickness, through the whole aquifer from there to
    √(2.25 η t), where Theis' solution has fallen to nothing: Q μ / (2π ρ) · (ln(h / r_w) / Σ_open k Δz + ln(√(2.25 η t) / h) / Σ k Δz).
    """
    rows = grid.active_rows(case.thickness_m)
    k = np.asarray(case.permeability_ZR, float)[:rows] * MD_M2
    celsius, start = fluids.temperature_c(case.depth_m), hydrostatic_bar(case.depth_m) * BAR
    viscosity, density = (
        fluids.brine_viscosity(celsius),
        fluids.co2_density(start, celsius + 273.15),
    )
    storage = np.asarray(case.porosity_ZR, float)[:rows].mean() * (
        fluids.ROCK_PER_PA + fluids.brine_compressibility(start, celsius))  # fmt: skip
    far = (
        np.sqrt(2.25 * k.mean() / (storage * viscosity) * grid.times_days[-1] * DAY_S)
        / case.thickness_m
    )
    open_k = k[grid.perforated_rows(case.perforation_m, case.thickness_m)[:rows], 0].sum()
    near = (
        np.log(case.thickness_m / WELL_RADIUS_M) / open_k
        + np.log(max(far, 1.0)) / k.mean(1).sum()
    )
    return float(
        case.rate_mt * MT_PER_YEAR / density * viscosity / (2 * np.pi * grid.row_m) * near / BAR
    )


def aquifer_of(cases, grid, rows, device="cpu", fluid=None):
    """The `two_phase_equations.Aquifer` of a batch of cases with `rows` rows; rows below a case's own are sealed."""
    parts = [_aquifer_arrays(case, grid, rows, fluid) for case in cases]
    stacked = {
        name: torch.as_tensor(np.stack([part[name] for part in parts]), device=device)
        for name in parts[0]
    }
    stacked["curves"] = stacked["curves"].transpose(0, 1).contiguous()
    gravity = equations.GRAVITY if fluid is None else equations.GRAVITY * fluid.gravity
    nodes = torch.as_tensor(fluids.PRESSURES_PA, device=device)
    return equations.Aquifer(**stacked, pressures=nodes, row_m=grid.row_m, gravity=gravity)


def _aquifer_arrays(case, grid, rows, fluid):
    """One case's part of the Aquifer, NumPy float64."""
    active = grid.active_rows(case.thickness_m)
    inside = np.arange(grid.rows)[:, None] < active
    k = np.where(inside, np.asarray(case.permeability_ZR, float) * MD_M2, 0.0)
    porosity = np.where(inside, np.asarray(case.porosity_ZR, float), 0.1)
    sealed = np.where(inside, 1.0, 0.0)
    perforated = grid.perforated_rows(case.perforation_m, case.thickness_m)
    curve = (
        fluids.curves(case.irreducible, case.lam)
        if fluid is None or fluid.curves is None
        else fluid.curves
    )
    leverett = np.sqrt(
        fluids.ROCK_M2 / fluids.ROCK_POROSITY * porosity / np.where(inside, k, fluids.ROCK_M2)
    )
    liquid = _liquids(case, grid, fluid)
    head = (
        equations.GRAVITY * (1 if fluid is None else fluid.gravity) * liquid.pop("well_density")
    )
    depths = grid.depths_m - grid.depths_m[perforated.argmax()]
    arrays = {
        "pore_volume": porosity * grid.areas_m2 * grid.row_m,
        "radial": grid.radial_conductance(k) * sealed,
        "vertical": (grid.vertical_conductance(k * case.kv_kh) * sealed[1:])[: rows - 1],
        "well_index": np.where(perforated, grid.well_index(k[:, 0]), 0.0),
        "well_head": np.where(perforated, head * depths, 0.0),
        "entry": leverett * (1.0 if fluid is None else fluid.capillary),
        **liquid,
    }
    arrays = {name: value[:rows] for name, value in arrays.items()}
    rate = np.float64(case.rate_mt * MT_PER_YEAR)
    spring = fluids.ROCK_PER_PA if fluid is None else fluid.rock_per_pa
    curve_stack = np.stack([curve.brine, curve.co2, curve.capillary_pa])
    return arrays | {"rate": rate, "rock_per_pa": np.float64(spring), "curves": curve_stack,
                     "largest": np.float64(curve.largest_saturation)}  # fmt: skip


def _liquids(case, grid, fluid):
    """Per row: hydrostatic pressure, brine's properties, and CO₂'s tables over pressure at the row's temperature."""
    depths = case.depth_m + grid.depths_m
    celsius = fluids.temperature_c(depths)
    guess = ATMOSPHERE_PA + 1020 * equations.GRAVITY * depths
    nodes, ones = fluids.PRESSURES_PA, np.ones(grid.rows)
    if fluid is None:
        brine, gravity = fluids.brine_density(guess, celsius), equations.GRAVITY
        density = fluids.co2_density(nodes, celsius[:, None] + 273.15)
        found = {
            "brine_viscosity": fluids.brine_viscosity(celsius),
            "brine_per_pa": fluids.brine_compressibility(guess, celsius),
            "co2_viscosity": fluids.co2_viscosity(density, celsius[:, None] + 273.15),
        }
    else:
        brine, gravity = fluid.brine_density * ones, equations.GRAVITY * fluid.gravity
        density = fluid.co2_density * (1 + fluid.co2_per_pa * (nodes - guess[:, None]))
        found = {
            "brine_viscosity": fluid.brine_viscosity * ones,
            "brine_per_pa": fluid.brine_per_pa * ones,
            "co2_viscosity": np.full_like(density, fluid.co2_viscosity),
        }
    # the discrete equilibrium: neighbouring rows differ by the weight of their mean density
    steps = gravity * grid.row_m * (brine[1:] + brine[:-1]) / 2
    start = guess[0] + np.concatenate([[0.0], np.cumsum(steps)])
    well = np.array(
        [np.interp(p, nodes, table) for p, table in zip(start, density, strict=True)]
    )
    return found | {
        "brine_density": brine,
        "co2_density": density,
        "start": start,
        "well_density": well,
    }


class _Run:
    """The state of a batch under way; `cases` are the ones not yet at the end."""

    def __init__(self, aquifer, grid, solve, step_fraction):
        batch, rows, rings = aquifer.pore_volume.shape
        self.aquifer, self.solve, self.step_fraction = aquifer, solve, step_fraction
        new, device = aquifer.pore_volume.new_zeros, aquifer.pore_volume.device
        self.reports = torch.tensor(grid.times_days, dtype=torch.float64, device=device) * DAY_S
        self.saturation_out, self.pressure_out = (
            new(batch, len(self.reports), rows, rings) for _ in range(2)
        )
        self.bottom_out, self.balance = new(batch, len(self.reports)), new(batch, 2)
        self.steps, self.iterations = (
            torch.zeros(batch, dtype=torch.long, device=device) for _ in range(2)
        )
        self.cases = torch.arange(batch, device=device)
        self.now, self.next_report = (
            new(batch),
            torch.zeros(batch, dtype=torch.long, device=device),
        )
        self.dt = torch.full_like(self.now, FIRST_STEP_S)
        self.tried = torch.zeros_like(self.next_report)
        self.pressure = aquifer.start[..., None].expand(-1, -1, rings).clone()
        self.saturation = torch.zeros_like(self.pressure)
        state = equations.phases(aquifer, self.pressure, self.saturation)
        self.before = equations.masses(aquifer, state, self.pressure, self.saturation)[0]
        self.began = self.before.sum((2, 3)).T  # (B, P) kg
        self.left = torch.zeros_like(self.began)
        self.kept = (self.pressure.clone(), self.saturation.clone())

    def iterate(self):
        """One Newton iteration of every case still under way; those converged take their step instead."""
        system = equations.assemble(
            self.aquifer, self.pressure, self.saturation, self.before, self.dt
        )
        full = self.aquifer.pore_volume[:, None] * torch.stack(
            [self.aquifer.brine_density, self.aquifer.brine_density], 1)[..., None]  # fmt: skip
        worst = (system.residual / full).abs().amax((1, 2, 3))
        astray = system.residual.sum((2, 3)).abs().amax(1) / (self.aquifer.rate * self.dt)
        good = (worst < TOLERANCE) & (astray < BALANCE_TOLERANCE) & (self.tried > 0)
        failed = ~good & ((self.tried >= NEWTON_LIMIT) | ~worst.isfinite())
        onward = (~good & ~failed).nonzero()[:, 0]
        if len(onward):
            self._newton(onward, system)
        if failed.any():
            self._cut(failed)
        if good.any():
            self._advance(good, system)

    def _newton(self, onward, system):
        change = self.solve(
            system.matrix.take(onward), -system.residual.index_select(0, onward)
        )
        limit = self.aquifer.largest[onward].view(-1, 1, 1)
        pressure = self.pressure[onward] + change[:, 0].clamp(
            -PRESSURE_CHOP_PA, PRESSURE_CHOP_PA
        )
        saturation = self.saturation[onward] + change[:, 1].clamp(-CHOP, CHOP)
        self.pressure[onward] = pressure
        self.saturation[onward] = torch.minimum(saturation.clamp_(min=0), limit)
        self.tried[onward] += 1
        self.iterations[self.cases[onward]] += 1

    def _cut(self, failed):
        """Back to the last accepted state with a third of the step."""
        self.dt = torch.where(failed, self.dt / 3, self.dt)
        self.pressure = torch.where(failed.view(-1, 1, 1), self.kept[0], self.pressure)
        self.saturation = torch.where(failed.view(-1, 1, 1), self.kept[1], self.saturation)
        self.tried[failed] = 0
        if (self.dt < SMALLEST_STEP_S).any():
            worst = int(self.cases[self.dt.argmin()])
            raise ArithmeticError(f"case {worst}: Newton does not converge even in steps of {SMALLEST_STEP_S} s; is the "
                                  "rate too large for this rock?")  # fmt: skip

    def _advance(self, good, system):
        """Accept the step of the cases `good`, keep reports, choose the next step, drop cases that are done."""
        self.now = torch.where(good, self.now + self.dt, self.now)
        self.left += torch.where(good[:, None], system.left, 0.0)
        self.before = torch.where(good.view(1, -1, 1, 1), system.held, self.before)
        self.kept = tuple(torch.where(good.view(-1, 1, 1), new, old)
                          for new, old in zip((self.pressure, self.saturation), self.kept, strict=True))  # fmt: skip
        self.steps[self.cases[good]] += 1
        due = self.reports[self.next_report]
        reached = (good & (self.now >= due * (1 - 1e-12))).nonzero()[:, 0]
        if len(reached):
            self._report(reached, system)
        easy = torch.where(self.tried <= 8, 2.0, 1.0)
        self.tried[good] = 0
        due = self.reports[self.next_report.clamp(max=len(self.reports) - 1)]
        longest = torch.minimum(
            self.dt * easy, torch.clamp(self.now * self.step_fraction, min=FIRST_STEP_S)
        )
        whole = ((due - self.now) / longest).ceil().clamp(min=1)  # equal steps up to the report
        self.dt = torch.where(good, (due - self.now) / whole, self.dt)
        self._drop((self.next_report >= len(self.reports)))

    def _report(self, reached, system):
        cases, at = self.cases[reached], self.next_report[reached]
        self.saturation_out[cases, at] = self.saturation[reached]
        self.pressure_out[cases, at] = (self.pressure - self.aquifer.start[..., None])[
            reached
        ] / BAR
        row = (self.aquifer.well_index > 0).int().argmax(1, keepdim=True)
        self.bottom_out[cases, at] = (
            (system.bottom - self.aquifer.start.gather(1, row)[:, 0]) / BAR
        )[reached]
        self.next_report[reached] += 1

    def _drop(self, done):
        """Leave out the cases that are done, and keep their mass balance."""
        if not done.any():
            return
        held = self.before.sum((2, 3)).T
        injected = self.aquifer.rate * self.now
        gained = held - self.began + self.left
        gained[:, 1] -= injected
        self.balance[self.cases[done]] = (gained.abs() / injected[:, None])[done]
        stay = (~done).nonzero()[:, 0]
        self.aquifer, self.before = self.aquifer.take(stay), self.before[:, stay]
        self.kept = tuple(kept[stay] for kept in self.kept)
        for name in (
            "cases",
            "now",
            "next_report",
            "dt",
            "tried",
            "pressure",
            "saturation",
            "began",
            "left",
        ):
            setattr(self, name, getattr(self, name)[stay])

    def results(self, seconds, rows):
        """A `Result` for each case, fields padded with zeros to the grid's rows."""
        missing = rows - self.saturation_out.shape[2]
        fields = [
            torch.nn.functional.pad(x, (0, 0, 0, missing))
            for x in (self.saturation_out, self.pressure_out)
        ]
        return [
            Result(fields[0][b], fields[1][b], self.bottom_out[b], float(self.balance[b].max()),
                   int(self.steps[b]), int(self.iterations[b]), seconds)
            for b in range(len(self.steps))
        ]  # fmt: skip
