"""The race's truth: the same rock on every grid, and averages that weigh a ring by its area."""

import numpy as np
import pytest
import storage_sites
import torch

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
