"""The race of accuracy: the same rock on every grid, averages that weigh a ring by its ground,
a speed-up read off a curve, and what is recorded of each way."""

from types import SimpleNamespace

import numpy as np
import pytest
import storage_sites
import torch
from helpers import bench, receipts
from helpers.device import Tier

from . import bench_accuracy as race

GRIDS = {
    way: grid for way, (grid, _) in race.WAYS.items() if way not in ("steps_3", "steps_10")
}
WIDE = {way: grid for way, grid in GRIDS.items() if way.startswith("rings")}
FINE = GRIDS["fine"]


@pytest.fixture(scope="module")
def case():
    return storage_sites.draw(1, 500, race.GRID)


def pores(case, grid):
    """(Z, R): the pore volume of each cell."""
    return np.asarray(case.porosity_ZR) * grid.areas_m2 * grid.row_m


def test_the_ways_are_longer_steps_and_wider_rings_of_the_same_aquifer():
    steps = {way: step for way, (_, step) in race.WAYS.items()}
    assert (steps["fine"], steps["simulator"]) == (0.05, 0.1)
    assert (steps["steps_3"], steps["steps_10"]) == (0.3, 1.0)
    assert {steps[way] for way in WIDE} == {1.0} and len(WIDE) == 5
    for way, grid in WIDE.items():
        assert grid.shape == (24, int(way.removeprefix("rings_")))
        every = race.GRID.edges_m[:: 48 // grid.shape[1]]
        np.testing.assert_allclose(grid.edges_m, every, rtol=1e-12)
    np.testing.assert_allclose(FINE.edges_m[::2], race.GRID.edges_m, rtol=1e-12)
    assert FINE.shape == (48, 96)


@pytest.mark.parametrize("way", GRIDS)
def test_a_site_has_the_same_pores_and_rock_on_every_grid(case, way):
    grid = GRIDS[way]
    found = race.regridded(case, grid)
    own, other = pores(case, race.GRID), pores(found, grid)
    assert found.porosity_ZR.shape == found.permeability_ZR.shape == grid.shape
    if way == "fine":
        other = other.reshape(24, 2, 48, 2).sum((1, 3))
        for rows in (slice(0, None, 2), slice(1, None, 2)):
            for rings in (slice(0, None, 2), slice(1, None, 2)):
                quarter = np.asarray(found.permeability_ZR)[rows, rings]
                np.testing.assert_allclose(quarter, case.permeability_ZR)
    else:
        own = own.reshape(24, grid.shape[1], -1).sum(2)
        logs = np.log(case.permeability_ZR).reshape(*own.shape, -1).mean(2)
        np.testing.assert_allclose(found.permeability_ZR, np.exp(logs))
    np.testing.assert_allclose(other, own, rtol=1e-12)
    assert (found.thickness_m, found.rate_mt) == (case.thickness_m, case.rate_mt)


@pytest.mark.parametrize("way", GRIDS)
def test_what_a_field_holds_is_kept_when_it_is_averaged(way):
    grid, drawn = GRIDS[way], torch.Generator().manual_seed(0)
    field = torch.rand(2, 3, *grid.shape, generator=drawn, dtype=torch.float64)
    found = race.onto(field, grid)
    assert found.shape == (2, 3, *race.GRID.shape)
    before = (field * torch.as_tensor(grid.areas_m2)).sum((2, 3)) * grid.row_m
    after = (found * torch.as_tensor(race.GRID.areas_m2)).sum((2, 3)) * race.GRID.row_m
    torch.testing.assert_close(after, before, rtol=1e-12, atol=0)


def test_a_cells_mean_weighs_its_finer_cells_by_their_ground():
    field = torch.zeros(1, 1, *FINE.shape, dtype=torch.float64)
    field[..., 1] = 1.0  # the outer half of the first ring, in all rows
    share = FINE.areas_m2[1] / FINE.areas_m2[:2].sum()
    assert share > 0.6, "an outer half holds more than half"
    assert race.onto(field, FINE)[0, 0, 0, 0].item() == pytest.approx(share)
    assert race.onto(field, FINE)[..., 1:].abs().max() == 0


@pytest.mark.parametrize("way", WIDE)
def test_a_wider_rings_field_is_seen_by_all_rings_that_it_covers(way):
    grid = WIDE[way]
    field = torch.arange(float(np.prod(grid.shape))).view(1, 1, *grid.shape)
    found = race.onto(field, grid).unflatten(3, (grid.shape[1], -1))
    assert torch.equal(found, field[..., None].expand_as(found))


def test_a_way_is_simulated_on_its_own_grid_in_its_own_steps(monkeypatch, case):
    asked = []

    def simulate(site, grid, step_fraction):
        asked.append((site, grid, step_fraction))
        fields = (torch.full((12, *grid.shape), value) for value in (step_fraction, 7.0))
        return (*(field.double() for field in fields), "not asked for")

    monkeypatch.setattr(race, "simulate", simulate)
    for way, (grid, step) in race.WAYS.items():
        gas, pressure = race.simulated([case], way)
        (site, *given) = asked.pop()
        assert given == [grid, step] and not asked
        wanted = race.regridded(case, grid).porosity_ZR
        np.testing.assert_array_equal(site.porosity_ZR, wanted)
        assert gas.shape == pressure.shape == (1, 12, *race.GRID.shape)
        torch.testing.assert_close(gas, torch.full_like(gas, step))
        torch.testing.assert_close(pressure, torch.full_like(gas, 7.0))


def test_the_truth_is_the_finest_way_and_is_made_once(monkeypatch, tmp_path):
    made = []

    def simulated(cases, way):
        made.append((cases, way))
        return torch.zeros(1, 12, *race.GRID.shape), torch.ones(1, 12, *race.GRID.shape)

    monkeypatch.setattr(race, "BUILD", tmp_path)
    monkeypatch.setattr(race, "simulated", simulated)
    for gas, pressure in (race.truth("cases"), race.truth("cases")):
        assert not gas.any() and pressure.all()
    assert made == [("cases", "fine")]


def test_gas_that_would_have_to_move_is_counted_once():
    """All gas in a ring too far out: as much is missing here as there is too much there."""
    sites = storage_sites.to_arrays([storage_sites.draw(1, 500, race.GRID)], race.GRID)
    sites = {name: torch.tensor(values) for name, values in sites.items()}
    pressure = torch.zeros(1, 12, *race.GRID.shape)
    true, found = (torch.zeros_like(pressure) for _ in range(2))
    full = race.MassBalance(race.GRID).capacity(sites, pressure)
    true[..., 0, 5], found[..., 0, 9] = (0.1 / full[:, :, 0, ring] for ring in (5, 9))
    told = race.accuracy((found, pressure), (true, pressure), sites)
    assert told["misplaced"] == pytest.approx(100, rel=1e-5) and told["pressure"] == 0
    half = race.accuracy(((found + true) / 2, pressure), (true, pressure), sites)
    assert half["misplaced"] == pytest.approx(50, rel=1e-5)
    assert race.accuracy((true, pressure), (true, pressure), sites)["misplaced"] == 0


# The speed-up at equal accuracy

ERRORS = {"slow": 1.0, "useless": 5.0, "middle": 4.0, "fast": 16.0}
SECONDS = {"slow": 8.0, "useless": 4.0, "middle": 2.0, "fast": 1.0}


@pytest.mark.parametrize(
    "wanted, found",
    [
        (2.0, ("middle", "slow", 0.5)),
        (8.0, ("fast", "middle", 0.5)),
        (4.0, ("middle", "slow", 0.0)),
        (32.0, ("fast", "middle", 0.0)),
        (0.5, ("middle", "slow", 1.0)),
    ],
)
def test_an_error_lies_between_two_ways_that_no_other_beats(wanted, found):
    *ways, share = race.between(wanted, ERRORS, SECONDS)
    assert tuple(ways) == found[:2] and share == pytest.approx(found[2])


def test_a_way_as_exact_and_slower_is_no_point_of_the_curve():
    errors, seconds = {"a": 2.0, "b": 2.0, "c": 1.0}, {"a": 1.0, "b": 2.0, "c": 4.0}
    assert race.between(1.5, errors, seconds)[:2] == ("a", "c")
    assert race.between(1.5, {"a": 2.0}, seconds) == ("a", "a", 0)


def timed(*seconds):
    return bench.Measurement(*bench.spread(seconds)[:3], seconds, None, "cpu")


def test_the_ratio_is_taken_round_by_round_at_the_networks_error():
    results = {way: timed(*[s * k for k in (1, 2, 3)]) for way, s in SECONDS.items()}
    results["compiled"] = timed(0.01, 0.02, 0.06)
    ratio, told = race.equal(results, ERRORS, 2.0)
    assert told == "middle to slow" and isinstance(ratio, bench.Ratio)
    # √(2 · 8) = 4 s in the first round, 8 and 12 in the others
    assert (ratio.low, ratio.median, ratio.high) == pytest.approx((200, 400, 400))
    for errors, wanted in ((ERRORS, 0.9), (ERRORS, 17.0), (ERRORS | {"useless": 20.0}, 17.0)):
        assert race.equal(results, errors, wanted)[1] == "the simulator's curve ends before"


@pytest.mark.parametrize("there", [True, False])
def test_each_way_has_its_own_time_and_error_and_the_smaller_ratio_counts(monkeypatch, there):
    """A way's fields are its name here, which tells how long it takes and how far it is off."""
    names = [*race.WAYS, "network", "compiled"]
    flow, places, threads, asked, judged = [], iter(range(8)), [1], [], []
    seconds = {name: float(place) for place, name in enumerate(names[::-1], 1)} | {"flow": 99.0}

    def raced(contestants, repeats, warmup, reference):
        assert warmup >= 1
        judged.extend(asked)
        asked.clear()
        results = {
            name: timed(*[seconds[call()]] * repeats) for name, call in contestants.items()
        }
        ratios = {name: bench.ratio(results[reference], one) for name, one in results.items()}
        return bench.Race(results, ratios, reference)

    def network(name):
        """It notes the thickness of each site that it is asked about, and its threads."""
        began, tell = threads[-1], asked.append

        def predict(sites):
            tell((sites["thickness"].tolist(), began))
            return name

        return SimpleNamespace(predict=predict)

    def simulated(cases, way):
        asked.append(([case.thickness_m for case in cases], threads[-1]))
        return way

    def off(found, wanted, sites):
        """The network's plume is as far off as `steps_3`, its pressure as `rings_8`."""
        assert wanted == "fine"
        as_far = {"plume": "steps_3", "pressure": "rings_8"}
        known = {field: as_far[field] if found == "network" else found for field in as_far}
        return {field: 100.0 / seconds[way] for field, way in known.items()} | {
            "misplaced": 7.0
        }

    def simulated_in_flow(case, grid, threads):
        assert grid == race.GRID
        flow.append((case.thickness_m, threads))
        return "flow"

    def apart(case, ours, peer, grid):
        assert (ours, peer, flow[-1][0]) == ("si", "flow", case.thickness_m)
        return {"radius_off": next(places), "held": 98.0}

    receipt, started = receipts.start("co2_storage", "cpu", 3), []
    monkeypatch.setattr(race, "simulate", lambda case, grid: "simulator")
    monkeypatch.setattr(race.opm_flow, "installed", lambda: there)
    monkeypatch.setattr(race.opm_flow, "simulate_in_flow", simulated_in_flow)
    monkeypatch.setattr(race.opm_flow, "apart", apart)
    monkeypatch.setattr(receipt, "write", lambda name: name)
    monkeypatch.setattr(race.receipts, "start", lambda *given: started.append(given) or receipt)
    monkeypatch.setattr(race.device, "tier", lambda: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(race.torch, "set_num_threads", threads.append)
    monkeypatch.setattr(race, "simulated", simulated)
    monkeypatch.setattr(race, "truth", lambda cases: "fine")
    monkeypatch.setattr(race, "load_shipped", lambda grid: [network("network")])
    monkeypatch.setattr(race, "Compiled", lambda member, sites: network("compiled"))
    monkeypatch.setattr(race, "accuracy", off)
    monkeypatch.setattr(race.bench, "race", raced)
    race.main(["--rounds", "6", "--threads", "3"])
    found = {name: one["value"] for name, one in receipt.metrics.items()}
    wanted = {f"{name}_s": seconds[name] for name in names[1:]}
    for field, way in (("plume", "steps_3"), ("pressure", "rings_8")):
        wanted |= {f"{name}_{field}": 100 / seconds[name] for name in names[1:-2]}
        wanted[f"network_{field}"] = 100 / seconds[way]
        wanted[f"speedup_equal_{field}"] = seconds[way] / seconds["compiled"]
    wanted |= {f"{name}_misplaced": 7.0 for name in names[1:-1]}
    wanted["speedup_equal_accuracy"] = seconds["rings_8"] / seconds["compiled"]
    if there:
        wanted |= {"flow_radius_off": 3.5, "flow_held": 98.0, "flow_s": 99.0}
        off = receipt.metrics["flow_radius_off"]
        assert (off["low"], off["high"], off["repeats"], off["interval"]) == (0, 7, 8, "range")
    assert found == pytest.approx(wanted)
    # each is judged on all sites, and timed on the one of middling thickness, on three threads
    drawn = [storage_sites.draw(race.SEED, number, race.GRID) for number in race.SITES]
    middle = sorted(one.thickness_m for one in drawn)[4]
    ways = len(race.WAYS) - 1
    assert asked == [([middle], 3)] * (ways + 2)
    assert judged == [([one.thickness_m for one in drawn], 3)] * (ways + 1)
    assert (threads, started[0][2]) == ([1, 3], 3)
    assert flow == [(one.thickness_m, 3) for one in drawn] * there + [(middle, 3)] * there
    told = receipt.metrics["speedup_equal_accuracy"]
    assert (told["unit"], told["interval"], told["repeats"]) == ("×", "95 %", 6)
    assert "rings_8" in told["note"]
