"""Answers hold the gas that was injected, and are the nearest ones that do."""

from pathlib import Path

import numpy as np
import pytest
import storage_sites
import torch
import two_phase
from two_phase import Grid

from . import mass
from .mass import GAS, MassBalance, check_held, reach_m
from .runtime import Compiled
from .shipped import load_shipped
from .surrogate import pick

GRID = Grid.reduced()
BALANCE = MassBalance(GRID)
ALLOWED = 0.003  # the table of densities, and the resting pressure


@pytest.fixture(scope="module")
def sites():
    return pick(storage_sites.load(Path(__file__).parents[1] / "sample_cases"), slice(0, 6))


@pytest.fixture(scope="module")
def shipped():
    return load_shipped(GRID)[0]


def ratios(cases, saturation, pressure):
    """(N, T): gas in place over gas injected, summed as the simulator does."""
    made = [storage_sites.to_case(cases, i) for i in range(len(cases["mask"]))]
    held = [
        two_phase.co2_in_place_mt(case, GRID, saturation[i], pressure[i])
        for i, case in enumerate(made)
    ]
    return np.array(held) * 365 / cases["rate"][:, None].numpy() / np.array(GRID.times_days)


def test_a_network_alone_makes_gas_and_its_answer_does_not(sites, shipped):
    with torch.inference_mode():
        saturation, pressure = shipped.unbalanced(sites)
    alone = ratios(sites, saturation, pressure)
    assert np.median(alone[:, -1]) > 2, "if networks conserve mass, why hold them to it?"
    np.testing.assert_allclose(ratios(sites, *shipped.predict(sites)), 1, atol=ALLOWED)


def test_the_deployed_graph_holds_the_gas_too(sites, shipped):
    answer = Compiled(shipped, sites).predict(sites)
    np.testing.assert_allclose(ratios(sites, *answer), 1, atol=ALLOWED)


def test_what_a_cell_can_hold_is_what_the_simulator_says(sites):
    held = BALANCE.capacity(sites, sites["pressure"]) * sites["saturation"]
    injected = sites["rate"][:, None] * BALANCE.years_T
    np.testing.assert_allclose((held.sum((2, 3)) / injected).numpy(), 1, atol=ALLOWED)


def test_co2_gets_no_denser_beyond_the_table(sites):
    high = torch.full_like(sites["pressure"], mass.HIGHEST_BAR)
    pores = [1 + 4.5e-5 * bar for bar in (mass.HIGHEST_BAR, 2 * mass.HIGHEST_BAR)]
    found = BALANCE.capacity(sites, 2 * high) / pores[1]
    torch.testing.assert_close(found, BALANCE.capacity(sites, high) / pores[0])


def test_what_the_simulator_gives_stays_as_it_is(sites):
    found, held = BALANCE(sites, sites["saturation"], sites["pressure"])
    check_held(held)
    kept = sites["saturation"] > 2 * GAS  # thin traces beyond the plume's edge are cut
    assert (found - sites["saturation"])[kept].abs().max() < GAS


@pytest.mark.parametrize("at", [0, 6, -1])
def test_it_is_the_nearest_field_that_holds_the_gas(sites, at):
    one = pick(sites, [2])
    noise = 0.01 * torch.randn(one["saturation"].shape, generator=torch.manual_seed(0))
    rough = (one["saturation"] + noise) * (one["saturation"] > 5 * GAS)  # no ring dries up
    found = BALANCE(one, rough, one["pressure"])[0][0, at].double().numpy()
    full = BALANCE.capacity(one, one["pressure"])[0, at].double().numpy()
    most, brought = 1 - one["swi"].item(), one["rate"].item() * BALANCE.years_T[at].item()
    wanted = nearest_reference(rough[0, at].double().numpy(), full, brought, most)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def nearest_reference(saturation, full, brought, most):
    """The least Σ m (S' − S)² with Σ m S' = brought and 0 <= S' <= most where S > 0: its shift
    halved into its place."""
    low, high = -1.0, 1.0
    for _ in range(60):
        shift = (low + high) / 2
        found = np.where(saturation > 0, np.clip(saturation - shift, 0, most), 0.0)
        low, high = (shift, high) if (full * found).sum() > brought else (low, shift)
    return found


def test_gas_stops_at_the_first_ring_without_any(sites):
    torn = sites["saturation"].clone()
    torn[..., 5] = 0.0
    torn[..., 20:] = 0.3
    torn = torn * sites["mask"][:, None]
    found, _ = BALANCE(sites, torn, sites["pressure"])
    assert not found[..., 5:].any() and found[..., :5].any()
    most = (1 - sites["swi"]).view(-1, 1, 1, 1)
    assert (found >= 0).all() and (found <= most + 1e-6).all()
    assert not found[~sites["mask"][:, None].expand_as(found)].any()


def test_a_share_is_told_with_every_answer(sites, shipped):
    with torch.inference_mode():
        saturation, pressure, held = shipped(sites)
    np.testing.assert_allclose(held, ratios(sites, saturation, pressure), rtol=ALLOWED)
    thin, told = BALANCE(sites, 0 * saturation, pressure)
    assert not thin.any() and not told.any()


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_field_that_can_hold_no_such_mass_is_refused(sites, value):
    """All dry, there is no plume; all wet, single precision cannot be thinned so far."""
    field = value * sites["mask"][:, None].float().expand_as(sites["saturation"])
    with pytest.raises(ArithmeticError, match="times the injected gas at report time"):
        check_held(BALANCE(sites, field, sites["pressure"])[1])


@pytest.mark.parametrize("height", [0.05, 0.3, 0.8])
def test_a_plume_of_any_height_is_lifted_or_thinned_until_it_holds_the_gas(sites, height):
    slope = height * torch.linspace(1, 0, 48) * sites["mask"][:, None]
    check_held(BALANCE(sites, slope.expand_as(sites["saturation"]), sites["pressure"])[1])


def test_a_full_plume_holds_what_was_injected_as_long_as_there_is_room(sites):
    """No cell of it lies inside its range, where Newton's method had no slope to follow."""
    full = (torch.arange(48) < 4) * sites["mask"][:, None]
    _, held = BALANCE(sites, full.float().expand_as(sites["saturation"]), sites["pressure"])
    np.testing.assert_allclose(held[:, 0], 1, atol=1e-4)
    assert (held[:, -1] < 0.5).all()


def test_what_is_refused_is_named():
    held = torch.ones(3, 4)
    check_held(held)
    check_held(held + 0.9 * mass.LEAK)
    held[1, 2] = 0.44
    with pytest.raises(ArithmeticError, match=r"answer 1 holds 0\.44 .* time 2"):
        check_held(held)
    held[2, 0] = torch.nan
    with pytest.raises(ArithmeticError, match="answer 2 holds nan"):
        check_held(held)


def test_an_answer_whose_halving_ended_early_is_refused(sites, shipped, monkeypatch):
    monkeypatch.setattr(mass, "PASSES", 3)
    for asked in (shipped, Compiled(shipped, sites)):
        with pytest.raises(ArithmeticError, match="times the injected gas"):
            asked.predict(sites)


@pytest.mark.parametrize(
    "factors",
    [{"rate": 1e-3}, {"rate": 3.0}, {"permeability": 0.01}, {"porosity": 0.2}],
    ids=str,
)
def test_far_outside_of_the_training_an_answer_holds_the_gas_or_is_refused(
    sites, shipped, factors
):
    for number in range(3):
        one = pick(sites, [number])
        one = one | {name: one[name] * by for name, by in factors.items()}
        try:
            answer = shipped.predict(one, trained=False)
        except ArithmeticError:
            continue
        if answer[1].max() <= mass.HIGHEST_BAR:  # else the table of densities ends before
            np.testing.assert_allclose(ratios(one, *answer), 1, atol=0.01)


def test_the_reach_is_the_outer_edge_of_the_last_ring_with_gas():
    field = torch.zeros(2, 1, *GRID.shape)
    field[0, 0, 3, 7] = 0.2
    assert reach_m(field, GRID).tolist() == [[pytest.approx(GRID.edges_m[8])], [0.0]]
