"""The race's truth: the same rock on every grid, and averages that weigh a ring by its area;
what is recorded of each way."""

from types import SimpleNamespace

import numpy as np
import pytest
import storage_sites
import torch
from helpers import bench, receipts
from helpers.device import Tier

from . import bench_accuracy as race

GRIDS = {"same": race.GRID, "finer": race.FINE, "wider": race.WIDE}


@pytest.mark.parametrize("name", GRIDS)
def test_a_site_has_the_same_rock_on_every_grid(name):
    case, grid = storage_sites.draw(1, 500, race.GRID), GRIDS[name]
    found = race.regridded(case, grid)
    for field, wanted in (
        (np.log(found.permeability_ZR), np.log(case.permeability_ZR)),
        (found.porosity_ZR, np.asarray(case.porosity_ZR)),
    ):
        assert field.shape == grid.shape
        rows, rings = (max(a, b) for a, b in zip(grid.shape, race.GRID.shape, strict=True))
        field = spread(field, rows, rings)
        wanted = spread(wanted, rows, rings)
        if name == "wider":  # pairs of rings, by their mean
            wanted = spread(wanted.reshape(rows, -1, 2).mean(2), rows, rings)
        np.testing.assert_allclose(field, wanted, rtol=1e-6)


def spread(field_ZR, rows, rings):
    """The field with each cell repeated until it has so many rows and rings."""
    Z, R = field_ZR.shape
    return np.repeat(np.repeat(field_ZR, rows // Z, 0), rings // R, 1)


def test_what_a_finer_grid_holds_is_kept():
    drawn = torch.Generator().manual_seed(0)
    fine = torch.rand(2, 3, *race.FINE.shape, generator=drawn, dtype=torch.float64)
    found = race.onto(fine, race.FINE)
    areas, wide = (torch.as_tensor(grid.areas_m2) for grid in (race.FINE, race.GRID))
    assert found.shape == (2, 3, *race.GRID.shape)
    before = (fine * areas).sum((2, 3)) * race.FINE.row_m
    after = (found * wide).sum((2, 3)) * race.GRID.row_m
    torch.testing.assert_close(after, before)
    inner, outer = areas[:2] / areas[:2].sum()
    alone = torch.zeros_like(fine)
    alone[:, :, :2, 0] = 1.0
    torch.testing.assert_close(race.onto(alone, race.FINE)[0, 0, 0, 0], inner)
    assert inner < 0.9 * outer


def test_a_wider_grids_field_is_the_same_in_both_rings():
    wide = torch.rand(1, 2, *race.WIDE.shape)
    found = race.onto(wide, race.WIDE)
    assert found.shape[2:] == race.GRID.shape
    assert torch.equal(found[..., ::2], wide) and torch.equal(found[..., 1::2], wide)


def test_each_way_has_its_own_time_and_its_own_error(monkeypatch):
    """A way's fields are its name here, which tells how long it takes and how far it is off."""
    names = [*race.WAYS, "network", "compiled"]
    seconds = {name: float(place) for place, name in enumerate(names, 1)}

    def raced(contestants, repeats, warmup, reference):
        results = {}
        for name, call in contestants.items():
            s = seconds[call()]
            results[name] = bench.Measurement(s, s, s, (s,) * repeats, None, "cpu")
        ratios = {name: bench.ratio(results[reference], one) for name, one in results.items()}
        return bench.Race(results, ratios, reference)

    def network(name):
        return SimpleNamespace(predict=lambda sites: name)

    receipt = receipts.start("co2_storage", "cpu", 1)
    monkeypatch.setattr(receipt, "write", lambda name: name)
    monkeypatch.setattr(race.receipts, "start", lambda *given: receipt)
    monkeypatch.setattr(race.device, "tier", lambda: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(race.torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(race, "simulated", lambda cases, way: way)
    monkeypatch.setattr(race, "truth", lambda cases: "fine")
    monkeypatch.setattr(race, "load_shipped", lambda grid: [network("network")])
    monkeypatch.setattr(race, "Compiled", lambda member, sites: network("compiled"))
    off = lambda found, wanted, sites: {"plume": seconds[found] / seconds[wanted]}  # noqa: E731
    monkeypatch.setattr(race, "accuracy", off)
    monkeypatch.setattr(race.bench, "race", raced)
    race.main(["--rounds", "6", "--threads", "1"])
    found = {name: one["value"] for name, one in receipt.metrics.items()}
    wanted = {f"{name}_s_1_threads": seconds[name] for name in names[1:]}
    wanted |= {f"{name}_plume_1_threads": seconds[name] for name in names[1:-1]}
    assert found == wanted
