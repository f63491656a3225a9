"""From a site to arrays: every number against the formula it stands for, written anew here."""

import math

import numpy as np
import pytest

from . import fluids
from .aquifer import Fluids, aquifer_of, hydrostatic_bar
from .grid import Grid
from .simulator import Case

GRID = Grid.reduced(6, 7)
THICKNESS_M, ROWS = 135.0, 4  # of 33.3 m
MD = 9.869233e-16  # m²


@pytest.fixture
def site():
    rng = np.random.default_rng(4)
    k = 100 * np.exp(rng.standard_normal(GRID.shape))
    porosity = rng.uniform(0.1, 0.3, GRID.shape)
    return Case(k, porosity, THICKNESS_M, 1500.0, 0.5, (40.0, 90.0), 0.2, 0.15, 0.4)


@pytest.fixture
def arrays(site):
    found = aquifer_of([site], GRID, 6)._asdict()
    return {
        name: np.asarray(value)[:, 0] if name == "curves" else np.asarray(value)[0]
        for name, value in found.items()
        if name not in ("row_m", "gravity", "pressures")
    }


def test_capillary_entry_follows_leverett_in_each_cell(site, arrays):
    reference = fluids.ROCK_POROSITY / fluids.ROCK_M2
    wanted = np.sqrt(site.porosity_ZR / (site.permeability_ZR * MD) / reference)
    np.testing.assert_allclose(arrays["entry"][:ROWS, :-1], wanted[:ROWS], rtol=1e-12)
    np.testing.assert_array_equal(arrays["entry"][:, -1], arrays["entry"][:, -2])


def test_pores_are_the_porosity_of_each_ring(site, arrays):
    edges = np.asarray(GRID.edges_m)
    volume = math.pi * (edges[1:] ** 2 - edges[:-1] ** 2) * GRID.row_m
    np.testing.assert_allclose(
        arrays["pore_volume"][:ROWS], site.porosity_ZR[:ROWS] * volume, rtol=1e-12
    )


def test_faces_conduct_as_their_two_cells_in_series(site, arrays):
    k = site.permeability_ZR * MD
    edges, middle = np.asarray(GRID.edges_m), np.asarray(GRID.centres_m)
    for z in range(ROWS):
        for r in range(6):
            halves = math.log(edges[r + 1] / middle[r]) / k[z, r]
            halves += math.log(middle[r + 1] / edges[r + 1]) / k[z, r + 1]
            wanted = 2 * math.pi * GRID.row_m / halves
            assert arrays["radial"][z, r] == pytest.approx(wanted, rel=1e-9)
    area = math.pi * (edges[1:] ** 2 - edges[:-1] ** 2)
    for z in range(ROWS - 1):
        halves = GRID.row_m / 2 * (1 / k[z] + 1 / k[z + 1]) / site.kv_kh
        np.testing.assert_allclose(arrays["vertical"][z], area / halves, rtol=1e-9)


def test_rows_below_the_thickness_touch_nothing(arrays):
    assert not arrays["radial"][ROWS:].any() and not arrays["vertical"][ROWS - 1 :].any()
    assert not arrays["well_index"][ROWS:].any()
    assert arrays["radial"][:ROWS].all() and arrays["vertical"][: ROWS - 1].all()


def test_the_well_is_open_over_its_interval_alone(site, arrays):
    wanted = GRID.well_index(site.permeability_ZR[:, 0] * MD)
    np.testing.assert_allclose(arrays["well_index"][1:3], wanted[1:3], rtol=1e-12)
    assert (arrays["well_index"] > 0).tolist() == [False, True, True, False, False, False]
    assert not arrays["well_head"][[0, 1, 3, 4, 5]].any() and arrays["well_head"][2] > 0


def test_the_well_s_column_weighs_what_co2_weighs_at_rest(site, arrays):
    pressure, kelvin = (
        arrays["start"][2],
        273.15 + fluids.temperature_c(1500 + 2.5 * GRID.row_m),
    )
    density = float(np.squeeze(fluids.co2_density(np.array([pressure]), np.array([[kelvin]]))))
    wanted = 9.80665 * density * GRID.row_m
    assert arrays["well_head"][2] == pytest.approx(wanted, rel=2e-3)  # the table is coarse


def test_a_megaton_a_year_is_thirty_two_kilograms_a_second(arrays):
    assert arrays["rate"] == pytest.approx(0.5e9 / (365 * 86_400))


def test_brine_at_rest_bears_the_brine_above(arrays):
    depth = 1500 + np.asarray(GRID.depths_m)
    assert arrays["start"][0] == pytest.approx(101_300 + 1020 * 9.80665 * depth[0], rel=1e-6)
    assert hydrostatic_bar(1000.0) == pytest.approx(101.04, abs=0.01)
    density = arrays["brine_density"]
    steps = 9.80665 * GRID.row_m * (density[1:] + density[:-1]) / 2
    np.testing.assert_allclose(np.diff(arrays["start"]), steps, rtol=1e-9)


def test_deeper_rows_are_warmer(site, arrays):
    warm = fluids.temperature_c(1500 + np.asarray(GRID.depths_m))
    np.testing.assert_allclose(arrays["brine_viscosity"], fluids.brine_viscosity(warm))
    assert (np.diff(arrays["brine_viscosity"]) < 0).all()
    nodes = fluids.PRESSURES_PA
    for z in (0, 5):
        wanted = fluids.co2_density(nodes, np.array([[warm[z] + 273.15]]))[0]
        np.testing.assert_allclose(arrays["co2_density"][z], wanted)
        wanted = fluids.co2_viscosity(arrays["co2_density"][z], warm[z] + 273.15)
        np.testing.assert_allclose(arrays["co2_viscosity"][z], wanted)


def test_plain_fluids_are_what_they_say(site):
    plain = Fluids(co2_per_pa=1e-8, brine_viscosity=4e-4)
    found = aquifer_of([site], GRID, 6, fluid=plain)
    first = hydrostatic_bar(1500 + GRID.depths_m[0]) * 1e5
    wanted = 700 * (1 + 1e-8 * (fluids.PRESSURES_PA - first))
    for z in range(6):
        np.testing.assert_allclose(found.co2_density[0, z], wanted, rtol=1e-12)
    assert (found.co2_viscosity == 6e-5).all() and (found.brine_viscosity == 4e-4).all()
    assert (found.brine_density == 1020).all() and (found.brine_per_pa == 4e-10).all()
    assert not found.entry.any() and not found.well_head.any() and found.gravity == 0
    assert (found.start == found.start[0, 0]).all(), "without gravity nothing rests on anything"


def test_curves_end_at_the_largest_saturation(site, arrays):
    curve = fluids.curves(0.15, 0.4)
    np.testing.assert_array_equal(arrays["curves"][0], curve.brine)
    np.testing.assert_array_equal(arrays["curves"][1], curve.co2)
    np.testing.assert_array_equal(arrays["curves"][2], curve.capillary_pa)
    assert arrays["largest"] == curve.largest_saturation


def test_rows_may_be_cut(site, arrays):
    cut = aquifer_of([site], GRID, ROWS)
    assert cut.pore_volume.shape == (1, ROWS, 7) and cut.vertical.shape == (1, ROWS - 1, 7)
    np.testing.assert_array_equal(cut.radial[0], arrays["radial"][:ROWS])
    np.testing.assert_array_equal(cut.start[0], arrays["start"][:ROWS])
