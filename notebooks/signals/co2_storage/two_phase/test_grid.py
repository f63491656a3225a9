"""The grid: the published one, its coarser kin, and conductances that are exact where they can
be."""

from dataclasses import replace

import numpy as np
import pytest

from .grid import WELL_RADIUS_M, Grid


def test_the_published_grid_has_the_published_widths_steps_and_reach():
    grid = Grid.published()
    widths, times = np.diff(grid.edges_m), np.array(grid.times_days)
    assert grid.shape == (96, 200) and len(times) == 24
    np.testing.assert_allclose(widths[[0, 1]], [3.5938, 3.5938 * 1.035012])
    np.testing.assert_allclose(np.diff(times)[:2], [1.421245, 1.421245**2])
    assert grid.edges_m[-1] == pytest.approx(1e5, rel=1e-3)
    assert times[-1] == pytest.approx(10_950, rel=1e-3)
    assert grid.rows * grid.row_m == 200


def test_the_reduced_grid_reaches_as_far_and_reports_at_every_second_time():
    grid, published = Grid.reduced(), Grid.published()
    assert grid.shape == (24, 48)
    assert grid.edges_m[-1] == pytest.approx(published.edges_m[-1])
    assert grid.times_days == published.times_days[1::2]


def test_twice_as_many_rings_split_each_ring_in_two():
    np.testing.assert_allclose(
        Grid.reduced(12, 48).edges_m, Grid.reduced(12, 96).edges_m[::2], rtol=1e-12
    )


def test_steady_flow_through_uniform_rock_is_exact():
    grid = Grid.reduced(1, 30)
    k = 1e-13
    between = 1 / grid.radial_conductance(np.full(grid.shape, k))[0]
    well = 1 / grid.well_index(np.array([k]))[0]
    thiem = np.log(grid.edges_m[-1] / WELL_RADIUS_M) / (2 * np.pi * k * grid.row_m)
    assert well + between.sum() == pytest.approx(thiem, rel=1e-12)


def test_a_ring_ten_times_tighter_holds_the_flow_in_series():
    grid = Grid.reduced(1, 4)
    k = np.array([[1e-13, 1e-14, 1e-13, 1e-13]])
    edge, centre = np.array(grid.edges_m)[1], grid.centres_m
    wanted = np.log(edge / centre[0]) / 1e-13 + np.log(centre[1] / edge) / 1e-14
    assert 2 * np.pi * grid.row_m / grid.radial_conductance(k)[0, 0] == pytest.approx(wanted)


def test_vertical_conductance_is_the_harmonic_mean():
    grid = Grid.reduced(2, 3)
    k = np.array([[1e-13] * 3, [3e-13] * 3])
    np.testing.assert_allclose(
        grid.vertical_conductance(k)[0], grid.areas_m2 / grid.row_m * 1.5e-13
    )


def test_centres_lie_within_their_rings():
    grid = Grid.published()
    edges = np.array(grid.edges_m)
    assert (grid.centres_m > edges[:-1]).all() and (grid.centres_m < edges[1:]).all()


@pytest.mark.parametrize("thickness, rows", [(200, 24), (100, 12), (4.2, 1), (99, 12)])
def test_a_thickness_is_rounded_to_whole_rows(thickness, rows):
    assert Grid.reduced().active_rows(thickness) == rows


@pytest.mark.parametrize("thickness", [0, -5, 4, 205, float("nan"), float("inf")])
def test_a_thickness_that_does_not_fit_is_refused(thickness):
    with pytest.raises(ValueError, match="thickness"):
        Grid.reduced().active_rows(thickness)


@pytest.mark.parametrize(
    "interval, rows",
    [((0, 200), range(24)), ((0, 9), [0]), ((100, 101), [12]), ((191, 200), [23])],
)
def test_perforated_rows_have_their_centre_in_the_interval_or_are_nearest(interval, rows):
    assert np.flatnonzero(Grid.reduced().perforated_rows(interval, 200)).tolist() == list(rows)


@pytest.mark.parametrize(
    "interval", [(50, 50), (60, 50), (-1, 50), (50, 101), (float("nan"), 50)]
)
def test_a_well_outside_the_aquifer_is_refused(interval):
    with pytest.raises(ValueError, match="perforation"):
        Grid.reduced().perforated_rows(interval, 100)


@pytest.mark.parametrize(
    "change, words",
    [({"edges_m": (0.0, 2.0, 1.0)}, "edges_m"), ({"edges_m": (1.0, 2.0)}, "first ring"),
     ({"edges_m": (0.0, 0.05, 2.0)}, "first ring"),
     ({"edges_m": (0.0, WELL_RADIUS_M, 2.0)}, "from 0.0 to 0.1"),
     ({"edges_m": (0.0, float("nan"))}, "edges_m"),
     ({"times_days": ()}, "times_days"), ({"times_days": (2.0, 1.0)}, "times_days"),
     ({"rows": 0}, "rows"), ({"row_m": 0.0}, "rows")],
)  # fmt: skip
def test_a_broken_grid_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        replace(Grid.reduced(2, 2), **change)


@pytest.mark.parametrize("reports", [0, 5, 48])
def test_report_times_are_thinned_evenly_or_not_at_all(reports):
    with pytest.raises(ValueError, match="reports"):
        Grid.reduced(reports=reports)
