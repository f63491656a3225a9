"""Answers hold the gas that was injected, and are the nearest ones that do."""

from pathlib import Path

import numpy as np
import pytest
import storage_sites
import torch
import two_phase
from two_phase import Grid

from .mass import GAS, MassBalance, reach_m
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


def test_what_the_simulator_gives_stays_as_it_is(sites):
    found = BALANCE(sites, sites["saturation"], sites["pressure"])
    kept = sites["saturation"] > 2 * GAS  # thin traces beyond the plume's edge are cut
    assert (found - sites["saturation"])[kept].abs().max() < GAS


def test_it_is_the_nearest_field_that_holds_the_gas(sites):
    one = pick(sites, [2])
    noise = 0.05 * torch.randn(one["saturation"].shape, generator=torch.manual_seed(0))
    rough = one["saturation"] + noise * (one["saturation"] > 2 * GAS)
    found = BALANCE(one, rough, one["pressure"])[0, -1].double().numpy()
    full = BALANCE.capacity(one, one["pressure"])[0, -1].double().numpy()
    most, brought = 1 - one["swi"].item(), one["rate"].item() * BALANCE.years_T[-1].item()
    wanted = nearest_reference(rough[0, -1].double().numpy(), full, brought, most)
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
    found = BALANCE(sites, torn, sites["pressure"])
    assert not found[..., 5:].any() and found[..., :5].any()
    most = (1 - sites["swi"]).view(-1, 1, 1, 1)
    assert (found >= 0).all() and (found <= most + 1e-6).all()
    assert not found[~sites["mask"][:, None].expand_as(found)].any()


def test_the_reach_is_the_outer_edge_of_the_last_ring_with_gas():
    field = torch.zeros(2, 1, *GRID.shape)
    field[0, 0, 3, 7] = 0.2
    assert reach_m(field, GRID).tolist() == [[pytest.approx(GRID.edges_m[8])], [0.0]]
