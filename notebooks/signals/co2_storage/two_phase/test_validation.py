"""The simulator against exact solutions and refinement, with the error stated in each test."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import torch

from . import equations, validation
from .aquifer import MT_PER_YEAR, aquifer_of
from .grid import DAY_S, Grid
from .newton import Run
from .simulator import simulate
from .validation import FLAT, POROSITY, STIFF, one_row, plain_case


def front_radius_m(profile):
    """(simulated, exact) radius in m where saturation falls through half of what stands
    behind the exact front."""
    behind = profile.exact[np.flatnonzero(profile.exact > 0.02)[-3]]
    radii = []
    for curve in (profile.simulated, profile.exact):
        last = np.flatnonzero(curve >= behind / 2)[-1]
        share = (curve[last] - behind / 2) / (curve[last] - curve[last + 1])
        radii.append(profile.radius_m[last : last + 2] @ [1 - share, share])
    return tuple(map(float, radii))


class Level(NamedTuple):
    """One grid of a refinement: the share of the CO₂ that lies elsewhere than on the finest
    grid, the relative error of the build-up beyond 5 km, the seconds it took."""

    rows: int
    rings: int
    co2_misplaced: float
    pressure_error: float
    seconds: float


def grid_convergence(
    sizes=((6, 12), (12, 24), (24, 48), (48, 96)), thickness_m=100.0, step_fraction=0.1
):
    """A `Level` for each grid but the finest, coarse to fine: uniform rock, 0.5 Mt a year
    through the lower half, real fluids, after 30 years. Each size must divide the last
    one."""
    runs = []
    for rows, rings in sizes:
        grid = Grid.reduced(rows, rings)
        case = validation.plain_case(grid, rate_mt=0.5, thickness_m=thickness_m, open_from=0.5)
        result = simulate(case, grid, step_fraction=step_fraction)
        volume = grid.areas_m2 * grid.row_m
        fields = (result.saturation_TZR, result.pressure_buildup_TZR)
        runs.append((grid, *(field[-1].numpy() * volume for field in fields), result.seconds))
    return [_level(run, runs[-1]) for run in runs[:-1]]


def _level(run, finest):
    grid, held, pressure, seconds = run
    best, best_pressure = (_onto(field, grid.shape) for field in finest[1:3])
    far = np.array(grid.edges_m[:-1]) > 5000
    misplaced = np.abs(held - best).sum() / 2 / best.sum()
    error = np.abs(pressure - best_pressure)[:, far].sum() / best_pressure[:, far].sum()
    return Level(*grid.shape, float(misplaced), float(error), seconds)


def _onto(field_ZR, shape):
    """A fine field of sums, summed onto a coarser grid that it refines."""
    rows, rings = (fine // coarse for fine, coarse in zip(field_ZR.shape, shape, strict=True))
    return field_ZR.reshape(shape[0], rows, shape[1], rings).sum((1, 3))


@pytest.fixture(scope="module")
def fronts():
    """Buckley and Leverett's problem with rings and steps twice as fine each time."""
    return [
        validation.buckley_leverett(
            validation.one_row(rings, ratio=1.08 ** (50 / rings)), step_fraction=step
        )
        for rings, step in ((25, 0.2), (50, 0.1), (100, 0.05))
    ]


def test_the_front_stands_where_buckley_and_leverett_put_it(fronts):
    simulated, exact = front_radius_m(fronts[-1])
    assert simulated == pytest.approx(exact, rel=0.035)
    assert fronts[-1].error < 0.11  # upstream weighting smears the front over some rings


def test_the_front_sharpens_as_rings_and_steps_get_finer(fronts):
    errors = [front.error for front in fronts]
    assert errors[0] > 1.25 * errors[1] > 1.25**2 * errors[2]


def test_the_exact_front_holds_the_injected_volume():
    grid = validation.one_row(60, days=(400.0,))
    profile = validation.buckley_leverett(grid, step_fraction=0.5)
    volume = 0.1 * 1e9 / 365 / validation.STIFF.co2_density * 400
    held = profile.exact @ (grid.areas_m2 * grid.row_m * validation.POROSITY)
    assert held == pytest.approx(volume, rel=1e-6)


@pytest.fixture(scope="module")
def pressures():
    """Theis' problem in short and in long steps."""
    grid = replace(Grid.reduced(1, 48, 1), row_m=20.0)
    return [validation.theis(grid, step_fraction=step) for step in (0.1, 0.4)]


def test_pressure_is_theis_within_two_tenths_of_a_percent(pressures):
    assert pressures[0].error < 0.002
    assert pressures[0].exact[1] > 1.0  # bar; the check would be empty on a flat field


def test_theis_error_is_that_of_the_time_steps(pressures):
    assert pressures[1].error > 1.5 * pressures[0].error


def test_fields_converge_as_the_grid_is_refined():
    levels = grid_convergence(((4, 8), (8, 16), (16, 32)), step_fraction=1.0)
    coarse, fine = levels
    assert (coarse.rows, coarse.rings) == (4, 8)
    assert fine.co2_misplaced < 0.6 * coarse.co2_misplaced < 0.09
    assert fine.pressure_error < 0.4 * coarse.pressure_error < 0.05


def test_left_alone_gas_and_brine_rest_where_gravity_and_capillarity_balance():
    """A closed column, a third of its pores gas. At rest neither potential changes from row to
    row, so capillary pressure rises upwards by the difference of the two weights."""
    grid = Grid((0.0, 100.0), 12, 1.0, (1e5,))
    case = validation.plain_case(grid, 500.0, rate_mt=1e-6)  # a well must give something
    aquifer = aquifer_of([case], grid, 12)._replace(radial=torch.zeros(1, 12, 1).double())
    run = Run(aquifer, grid, 1.0)
    run.saturation += 0.3
    state = equations.phases(aquifer, run.pressure, run.saturation)
    run.before = equations.masses(aquifer, state, run.pressure, run.saturation)[0]
    run.began, run.kept = (
        run.before.sum((2, 3)).T,
        (run.pressure.clone(), run.saturation.clone()),
    )
    with torch.no_grad():
        while len(run.cases):
            run.iterate()
    s, p = run.saturation_out[0, 0], aquifer.start.T + run.pressure_out[0, 0] * 1e5
    rest = equations.phases(aquifer, p[None], s[None])
    weights = (rest.density[:, 0, :-1] + rest.density[:, 0, 1:]) / 2 * equations.GRAVITY
    entry = rest.potential[1, 0].diff(dim=0)
    both = ((s > 0.02) & (s < 0.7))[:, 0]  # beyond, one of the two does not move
    between = both[:-1] & both[1:]
    assert between.sum() >= 3
    wanted = (weights[1] - weights[0])[between]
    torch.testing.assert_close(entry[between], wanted, rtol=0.02, atol=0)
    torch.testing.assert_close(p.diff(dim=0), weights[0], rtol=2e-3, atol=0)
    assert s.mean().item() == pytest.approx(0.3, abs=0.01) and (s.diff(dim=0) <= 1e-9).all()


def test_the_mass_in_place_notices_a_lost_share():
    grid = Grid.reduced(4, 12, reports=2)
    case = validation.plain_case(grid, rate_mt=0.4)
    result = simulate(case, grid, step_fraction=0.5)
    thinner = result._replace(saturation_TZR=result.saturation_TZR * (1 - 1e-4))
    injected = 0.4 * np.array(grid.times_days) / 365
    np.testing.assert_allclose(
        validation.co2_in_place_mt(case, grid, *result[:2]), injected, rtol=1e-6
    )
    lost = 1 - validation.co2_in_place_mt(case, grid, *thinner[:2]) / injected
    np.testing.assert_allclose(lost, 1e-4, rtol=0.01)


def test_a_row_of_rings_reaches_as_far_as_asked():
    grid = validation.one_row(rings=50, reach_m=700.0, ratio=1.1)
    widths = np.diff(grid.edges_m)
    assert grid.edges_m[-1] == 700.0 and len(widths) == 50
    np.testing.assert_allclose(widths[1:] / widths[:-1], 1.1)


def nordbotten_celia(rings, step_fraction):
    """The mean distance of simulated and exact depth-averaged saturation, as a share of that.

    A lighter and thinner fluid lies under a roof, sharply above the other (Nordbotten and
    Celia, 2006): with z = π r² h φ / W and the ratio a of the mobilities its share of the
    height is (√(a/z) − 1)/(a − 1), for 1/a < z < a."""
    line = one_row(rings, row_m=10.0)
    grid = Grid(line.edges_m, 2, line.row_m, line.times_days)
    fluid = STIFF._replace(curves=FLAT, gravity=0.1)  # enough to part them, not to drive them
    case = replace(plain_case(grid), kv_kh=1.0)
    found = simulate(case, grid, fluid=fluid, step_fraction=step_fraction).saturation_TZR[-1]
    assert (found[0] - found[1]).max() > 0.5, "the lighter fluid must lie above"
    ratio = fluid.brine_viscosity / fluid.co2_viscosity
    volume = case.rate_mt * MT_PER_YEAR / fluid.co2_density * grid.times_days[-1] * DAY_S
    pores = grid.areas_m2 * 20.0 * POROSITY / volume
    edges = np.concatenate([[0.0], np.cumsum(pores)])
    inner, upto = np.minimum(edges, 1 / ratio), np.clip(edges, 1 / ratio, ratio)
    thin = 2 * np.sqrt(ratio * upto) - 2 - (upto - 1 / ratio)
    exact = np.diff(inner + thin / (ratio - 1))
    return np.abs(found.mean(0).numpy() * pores - exact).sum() / exact.sum()


def test_a_lighter_fluid_under_a_roof_spreads_as_nordbotten_and_celia_say():
    coarse, fine = nordbotten_celia(30, 0.2), nordbotten_celia(60, 0.1)
    assert fine < 0.11 and fine < 0.7 * coarse
