"""The page's knobs give the case that the simulator gets, within what training has drawn."""

import numpy as np
import pytest
import storage_sites
import torch
import two_phase
from two_phase import Grid

from .scene import Scene, knobs, rocks

GRID = Grid.reduced()
SCENE = Scene(GRID)


def drawn(seed, **fixed):
    """Values of the knobs, drawn within their ranges, two rows of the well open at least."""
    rng = np.random.default_rng(seed)
    values = {knob.name: rng.uniform(knob.min, knob.max) for knob in knobs(GRID)}
    rows = round(values["thickness"] / GRID.row_m)
    values["thickness"] = rows * GRID.row_m
    length = rng.integers(2, rows + 1)
    top = rng.integers(0, rows - length + 1)
    values |= {"top": top / rows, "bottom": (top + length) / rows} | fixed
    return values


def scene(values, pattern=None):
    """(case dict, pressed) of a scene."""
    pattern = rocks(GRID)["rough"] if pattern is None else pattern
    case = SCENE(pattern, torch.tensor([values[knob.name] for knob in knobs(GRID)]).float())
    return case, float(SCENE.pressed(case))


def simulated(values, pattern):
    """The same as a `two_phase.Case`, by NumPy."""
    k = (10 ** values["permeability"] * np.exp(pattern[0].double().numpy())).clip(0.01, 1e4)
    porosity = (0.2 + 0.05 * np.log10(k / 100) + 0.01 * pattern[1].double().numpy()).clip(
        0.05, 0.35
    )
    thick = values["thickness"]
    interval = (values["top"] * thick, values["bottom"] * thick)
    return two_phase.Case(k, porosity, thick, values["depth"], values["rate"], interval)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rock", ["even", "layered", "rough", "smooth", "sand and shale"])
def test_the_case_is_the_one_that_a_data_set_would_hold(seed, rock):
    values, pattern = drawn(seed), rocks(GRID)[rock]
    found, _ = scene(values, pattern)
    expected = storage_sites.to_arrays([simulated(values, pattern)], GRID)
    for name, tensor in found.items():
        np.testing.assert_allclose(tensor.numpy(), expected[name], rtol=2e-5, err_msg=name)


@pytest.mark.parametrize("seed", range(12))
def test_the_share_is_the_simulator_s_own_estimate(seed):
    values, pattern = drawn(seed), rocks(GRID)["rough"]
    case = simulated(values, pattern)
    share = two_phase.estimated_buildup_bar(case, GRID) / two_phase.hydrostatic_bar(
        case.depth_m
    )
    assert scene(values, pattern)[1] == pytest.approx(share, rel=2e-3), (
        "a table every 10 m of depth"
    )


def test_a_well_that_would_press_too_hard_is_seen_and_an_easy_one_is_not():
    hard = drawn(0, thickness=25.0, permeability=1.3, rate=2.0, top=0.0, bottom=1.0)
    easy = drawn(0, thickness=200.0, permeability=2.7, rate=0.2, top=0.0, bottom=1.0)
    limit = storage_sites.BUILD_UP_SHARE
    assert scene(hard)[1] > limit > scene(easy)[1]


def test_an_interval_between_two_rows_opens_one_row():
    values = drawn(0, thickness=100.0, top=0.46, bottom=0.47)
    assert scene(values)[0]["perforation_mask"].sum() == 1


def test_the_knobs_stay_within_what_was_drawn_for_training():
    ranges = storage_sites.TRAINING
    for name, span in {
        "depth": ranges.depth_m,
        "thickness": ranges.thickness_m,
        "permeability": ranges.log10_mean_md,
        "rate": ranges.rate_mt,
    }.items():
        (knob,) = [knob for knob in knobs(GRID) if knob.name == name]
        assert span[0] <= knob.min < knob.value < knob.max <= span[1] + 1e-9
        steps = (knob.value - knob.min) / knob.step
        assert steps == pytest.approx(round(steps)), "or the browser would move the first value"


def test_each_slider_reaches_its_end():
    for knob in knobs(GRID):  # a browser goes in whole steps from the least value
        steps = (knob.max - knob.min) / knob.step
        assert steps >= round(steps), f"{knob.name}: the last step would pass the end"


def test_the_knobs_start_at_a_case_that_is_not_refused():
    values = {knob.name: knob.value for knob in knobs(GRID)}
    for pattern in rocks(GRID).values():
        assert scene(values, pattern)[1] < storage_sites.BUILD_UP_SHARE


def test_rocks_are_the_same_each_time_and_differ():
    first, again = rocks(GRID), rocks(GRID)
    assert all(torch.equal(first[name], again[name]) for name in first)
    flat = torch.stack([field.flatten() for field in first.values()])
    assert len(flat.unique(dim=0)) == len(first) and flat.isfinite().all()
    assert first["layered"][0].std(1).max() == 0
    assert len(first["sand and shale"][0].unique()) == 2
