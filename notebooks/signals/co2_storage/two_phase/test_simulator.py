"""The simulator: CO₂ rises and nothing of it is lost, a batch is its cases one by one, and
sites that cannot be are refused with the reason."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from . import equations, fluids, newton
from .aquifer import Fluids, aquifer_of, hydrostatic_bar
from .estimate import estimated_buildup_bar
from .grid import Grid
from .simulator import Case, simulate, simulate_batch
from .validation import co2_in_place_mt, plain_case

GRID, SMALL = Grid.reduced(6, 16, reports=4), Grid.reduced(3, 8, reports=1)
QUICK = {"step_fraction": 1.0}  # long steps: what these tests ask does not depend on them


def rough_case(seed=0, thickness=200.0, opening=(60.0, 170.0), rate=0.8, **other):
    rng = np.random.default_rng(seed)
    k = 100 * np.exp(0.8 * rng.standard_normal(GRID.shape))
    porosity = rng.uniform(0.1, 0.3, GRID.shape)
    return Case(k, porosity, thickness, 1500.0, rate, opening, **({"kv_kh": 0.2} | other))


def saturation(result):
    return result.saturation_TZR


@pytest.fixture(scope="module")
def rough():
    """The run of `rough_case()` that several tests look at."""
    return simulate(rough_case(), GRID, **QUICK)


def test_a_batch_is_its_cases_one_by_one():
    cases = [rough_case(1), rough_case(2, 100.0, (0.0, 90.0), 0.3)]
    together = simulate_batch(cases, GRID, **QUICK)
    for case, found in zip(cases, together, strict=True):
        alone = simulate(case, GRID, **QUICK)
        # rounding differs, and Newton stops within a millionth of the pore volume
        torch.testing.assert_close(saturation(found), saturation(alone), rtol=0, atol=1e-5)
        torch.testing.assert_close(
            found.pressure_buildup_TZR, alone.pressure_buildup_TZR, rtol=1e-5, atol=1e-4
        )
        assert found.steps == alone.steps


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 1.0), st.floats(70, 200), st.floats(0.01, 1.0))
def test_no_mass_is_lost(seed, rate, thickness, kv_kh):
    case = rough_case(seed, thickness, (0.0, 66.0), rate, kv_kh=kv_kh)
    result = simulate(case, GRID, **QUICK)
    assert result.mass_balance_error < 1e-6
    # summed again from the fields, at every report time
    injected = rate * np.array(GRID.times_days) / 365
    np.testing.assert_allclose(co2_in_place_mt(case, GRID, *result[:2]), injected, rtol=1e-6)


def test_co2_rises_to_the_cap_and_spreads_below_it():
    last = saturation(simulate(plain_case(GRID, 300, 0.5, open_from=0.5), GRID, **QUICK))[-1]
    reach = (last > 0.01).sum(1)
    assert reach[0] == reach.max() and reach[0] >= reach[-1] + 3
    assert last[0, 2] > last[-1, 2]


def test_without_gravity_a_plume_is_a_cylinder():
    heavy = Fluids(gravity=0.0)
    last = saturation(simulate(plain_case(GRID), GRID, fluid=heavy, **QUICK))[-1]
    torch.testing.assert_close(last, last[:1].expand_as(last), rtol=0, atol=1e-9)


def test_a_tight_layer_holds_co2_back():
    case = plain_case(GRID, 200, 0.3, open_from=0.7)
    k = case.permeability_ZR.copy()
    k[2] = 1e-3
    case = replace(case, permeability_ZR=k)
    last = saturation(simulate(case, GRID, **QUICK))[-1]
    assert last[3:].max() > 0.3 and last[:2].max() < 0.01


def test_a_plume_grows_and_the_pressure_falls_off_outwards(rough):
    covered = (saturation(rough) > 0.01).sum((1, 2))
    assert (covered.diff() > 0).all()
    built = rough.pressure_buildup_TZR[-1].mean(0)
    assert (built[4:].diff() < 0).all() and built.min() > -1e-6
    assert rough.bottom_hole_bar[-1] > built[0]


def test_saturation_stays_between_nothing_and_what_brine_leaves():
    found = saturation(simulate(rough_case(irreducible=0.3, rate=1.5), GRID, **QUICK))
    assert found.min() >= 0 and found.max() <= 0.7


@pytest.mark.parametrize(
    "start, wanted, found",
    [(0.1, 9.0, 0.3), (0.6, 9.0, 0.7), (0.6, -9.0, 0.4), (0.1, -9.0, 0.0)],
)
def test_an_iteration_moves_a_little_and_to_what_is_possible(start, wanted, found, monkeypatch):
    def solve(matrix, right):
        return torch.stack([0 * right[:, 0] - 1e9, 0 * right[:, 1] + wanted], 1)

    aquifer = aquifer_of([rough_case(irreducible=0.3)], GRID, 6)
    monkeypatch.setattr(newton, "solve_banded", solve)
    run = newton.Run(aquifer, GRID, 0.1)
    run.saturation += start
    before = run.pressure.clone()
    system = equations.assemble(aquifer, run.pressure, run.saturation, run.before, run.dt)
    run.newton(torch.tensor([0]), system)
    torch.testing.assert_close(run.saturation, torch.full_like(before, found))
    torch.testing.assert_close(run.pressure, before - 5e6)


def test_no_step_is_longer_than_its_share_of_the_time_passed(monkeypatch):
    steps, accept = [], newton.Run.accept

    def seen(run, good, system):
        steps.append((run.now.item(), run.dt.item()))
        accept(run, good, system)

    monkeypatch.setattr(newton.Run, "accept", seen)
    simulate(plain_case(SMALL), SMALL, step_fraction=0.4)
    for now, dt in steps:
        assert dt <= max(0.05 * 86_400, 0.4 * now) * (1 + 1e-9)
    assert sum(dt for _, dt in steps) == pytest.approx(SMALL.times_days[-1] * 86_400)


def test_rows_below_the_aquifer_are_zero_and_what_lies_there_does_not_matter():
    case = rough_case(thickness=100.0, opening=(0.0, 100.0))
    broken = case.permeability_ZR.copy()
    broken[3:] = np.nan
    result, again = (
        simulate(one, GRID, **QUICK) for one in (case, replace(case, permeability_ZR=broken))
    )
    assert saturation(result)[:, 3:].abs().max() == 0
    assert result.pressure_buildup_TZR[:, 3:].abs().max() == 0
    assert saturation(result).shape == (4, 6, 16)
    assert torch.equal(saturation(again), saturation(result))


def test_twice_the_rate_is_twice_the_pressure_of_brine_far_away():
    slow, fast = (simulate(plain_case(GRID, 200, rate), GRID, **QUICK) for rate in (0.1, 0.2))
    far = np.searchsorted(GRID.edges_m, 20_000)
    ratio = fast.pressure_buildup_TZR[-1, :, far] / slow.pressure_buildup_TZR[-1, :, far]
    # not exactly 2: more pressure compresses CO₂
    torch.testing.assert_close(ratio, torch.full_like(ratio, 2.0), rtol=0.03, atol=0)


def test_shorter_steps_converge_at_first_order():
    case = plain_case(SMALL, 100, 0.8, open_from=0.3)
    runs = [saturation(simulate(case, SMALL, step_fraction=f)) for f in (0.48, 0.24, 0.12)]
    apart, nearer = ((coarse - fine).abs().mean() for coarse, fine in pairwise(runs))
    assert 1.6 < apart / nearer < 2.5  # half the step, half the error


def test_a_single_cell_and_a_single_report_work():
    grid = Grid.reduced(1, 2, reports=1)
    result = simulate(plain_case(grid), grid, **QUICK)
    assert saturation(result).shape == (1, 1, 2) and result.mass_balance_error < 1e-6


def test_a_step_that_fails_is_cut_and_the_plume_stays_the_same(monkeypatch, rough):
    monkeypatch.setattr(newton, "NEWTON_LIMIT", 4)
    found = simulate(rough_case(), GRID, **QUICK)
    assert found.steps > rough.steps and found.mass_balance_error < 1e-6
    assert (saturation(found) - saturation(rough)).abs().mean() < 5e-3


def test_a_run_that_cannot_converge_says_so(monkeypatch):
    monkeypatch.setattr(newton, "TOLERANCE", 0.0)
    with pytest.raises(ArithmeticError, match="Newton"):
        simulate(plain_case(SMALL), SMALL, **QUICK)


NAN = float("nan")


@pytest.mark.parametrize(
    "change, words",
    [({"porosity_ZR": np.full(GRID.shape, -0.1)}, "porosity from -0.1"),
     ({"porosity_ZR": np.full(GRID.shape, 0.9)}, "porosity"),
     ({"porosity_ZR": np.full(GRID.shape, NAN)}, "porosity: 96 values"),
     ({"permeability_ZR": np.zeros(GRID.shape)}, "permeability from 0"),
     ({"permeability_ZR": np.full(GRID.shape, np.inf)}, "permeability: 96 values"),
     ({"permeability_ZR": np.ones((6, 5))}, r"permeability has the shape \(6, 5\)"),
     ({"permeability_ZR": np.ones((5, 16))}, "permeability has the shape"),
     ({"thickness_m": 500.0}, "thickness"), ({"thickness_m": NAN}, "thickness"),
     ({"depth_m": 300.0}, "depth_m"), ({"depth_m": NAN}, "depth_m"),
     ({"rate_mt": 0.0}, "rate_mt"), ({"rate_mt": -1.0}, "rate_mt"),
     ({"rate_mt": NAN}, "rate_mt"), ({"kv_kh": 0.0}, "kv_kh"), ({"kv_kh": 3.0}, "kv_kh"),
     ({"perforation_m": (150.0, 260.0)}, "perforation"),
     ({"perforation_m": (90.0, 80.0)}, "perforation"), ({"irreducible": 1.0}, "irreducible"),
     ({"lam": 0.0}, "lambda"), ({"lam": NAN}, "lambda"),
     ({"permeability_ZR": np.full(GRID.shape, 0.5)}, "break the rock")],
)  # fmt: skip
def test_a_site_that_cannot_be_is_refused_with_the_reason(change, words):
    with pytest.raises(ValueError, match=words):
        simulate(replace(rough_case(), **change), GRID)


@pytest.mark.parametrize(
    "cases, options, words",
    [([], {}, "0 cases"), ([rough_case()], {"step_fraction": 0.0}, "step_fraction"),
     ([rough_case()], {"step_fraction": NAN}, "step_fraction")],
)  # fmt: skip
def test_a_run_that_cannot_be_is_refused(cases, options, words):
    with pytest.raises(ValueError, match=words):
        simulate_batch(cases, GRID, **options)


def test_the_estimate_has_the_size_of_the_pressure_in_the_well():
    case = plain_case(GRID, 100, 0.5)
    estimate = estimated_buildup_bar(case, GRID)
    found = simulate(case, GRID, **QUICK).bottom_hole_bar.max().item()
    assert found / 3 < estimate < found * 3


def test_in_even_rock_the_estimate_is_that_of_radial_flow():
    even = {name: np.full(GRID.shape, value) for name, value in (("k", 100.0), ("phi", 0.2))}
    case = Case(even["k"], even["phi"], 200.0, 1500.0, 0.5, (0.0, 200.0))
    start, celsius = hydrostatic_bar(1500.0) * 1e5, fluids.temperature_c(1500.0)
    viscosity = fluids.brine_viscosity(celsius)
    spring = fluids.ROCK_PER_PA + fluids.brine_compressibility(start, celsius)
    k, seconds = 100 * 9.869233e-16, GRID.times_days[-1] * 86_400
    reach = np.sqrt(2.25 * k * seconds / (0.2 * viscosity * spring))
    volume = 0.5e9 / (365 * 86_400) / fluids.co2_density(start, celsius + 273.15)
    wanted = volume * viscosity / (2 * np.pi * k * 200.0) * np.log(reach / 0.1) / 1e5
    assert estimated_buildup_bar(case, GRID) == pytest.approx(wanted, rel=1e-6)


def test_the_well_s_pressure_is_told_against_rest_at_its_own_top_row():
    result = simulate(plain_case(GRID, 100, 0.05, open_from=0.55), GRID, **QUICK)
    excess = result.bottom_hole_bar - result.pressure_buildup_TZR[:, 3, 0]
    assert (excess > 0).all() and (excess < 8).all(), "brine weighs 10 bar a hundred metres"


def test_two_threads_give_what_one_gives():
    cases = [plain_case(SMALL, rate_mt=rate) for rate in (0.1, 0.2, 0.3)]
    one = simulate_batch(cases, SMALL, **QUICK)
    torch.set_num_threads(2)
    two = simulate_batch(cases, SMALL, **QUICK)
    torch.set_num_threads(1)
    assert all(torch.equal(saturation(a), saturation(b)) for a, b in zip(one, two, strict=True))
