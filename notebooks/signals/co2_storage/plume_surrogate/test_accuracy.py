"""The race of accuracy: the same rock on every grid, and averages that weigh cells by size."""

import numpy as np
import pytest
import storage_sites
import torch

from .bench_accuracy import FINE, GRID, WIDE, onto, regridded


@pytest.fixture(scope="module")
def case():
    return storage_sites.draw(1, 500, GRID)


@pytest.mark.parametrize("grid", [FINE, GRID, WIDE], ids=["fine", "own", "wide"])
def test_what_a_field_holds_is_kept_when_it_is_averaged(grid):
    field = torch.rand(2, 3, *grid.shape, generator=torch.Generator().manual_seed(0)).double()
    found = onto(field, grid)
    assert found.shape == (2, 3, *GRID.shape)
    held = (field * torch.as_tensor(grid.areas_m2)).sum((2, 3)) * grid.row_m
    again = (found * torch.as_tensor(GRID.areas_m2)).sum((2, 3)) * GRID.row_m
    torch.testing.assert_close(again, held, rtol=1e-12, atol=0)


def test_a_cell_s_mean_weighs_its_finer_cells_by_their_ground():
    field = torch.zeros(1, 1, *FINE.shape, dtype=torch.float64)
    field[..., 1] = 1.0  # the outer half of the first ring, in all rows
    share = FINE.areas_m2[1] / FINE.areas_m2[:2].sum()
    assert share > 0.6, "an outer half holds more than half"
    assert onto(field, FINE)[0, 0, 0, 0].item() == pytest.approx(share)
    assert onto(field, FINE)[..., 1:].abs().max() == 0


def test_a_wider_ring_is_seen_by_both_rings_that_it_covers():
    field = torch.arange(float(np.prod(WIDE.shape))).view(1, 1, *WIDE.shape)
    found = onto(field, WIDE)
    assert torch.equal(found[..., ::2], field) and torch.equal(found[..., 1::2], field)


def test_the_rock_is_the_same_on_every_grid(case):
    own, fine, wide = (regridded(case, grid) for grid in (GRID, FINE, WIDE))
    for name in ("permeability_ZR", "porosity_ZR"):
        field = np.asarray(getattr(case, name))
        np.testing.assert_allclose(getattr(own, name), field)
        for rows in (slice(0, None, 2), slice(1, None, 2)):
            for rings in (slice(0, None, 2), slice(1, None, 2)):
                np.testing.assert_allclose(getattr(fine, name)[rows, rings], field)
    pairs = np.asarray(case.porosity_ZR).reshape(GRID.shape[0], -1, 2)
    np.testing.assert_allclose(wide.porosity_ZR, pairs.mean(2))
    pairs = np.asarray(case.permeability_ZR).reshape(GRID.shape[0], -1, 2)
    np.testing.assert_allclose(wide.permeability_ZR, np.sqrt(pairs.prod(2)))
    assert fine.thickness_m == wide.thickness_m == case.thickness_m
