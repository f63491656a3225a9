"""The proof: known answers of both rules, and laws of the tuner's list."""

import pytest
import work_groups
from hypothesis import given
from hypothesis import strategies as st

SIZES = st.tuples(*[st.integers(1, 130)] * 3)
LIMITS = st.integers(1, 1024)


@pytest.mark.parametrize(
    ("grid", "limit", "group"),
    [
        ((56, 56, 6), 256, (28, 4, 2)),
        ((112, 112, 8), 256, (32, 1, 8)),
        ((7, 7, 12), 1024, (4, 7, 4)),  # 12 has the divisor 6, but 4 is preferred
        ((7, 7, 9), 1024, (4, 7, 3)),  # nothing preferred divides 9
        ((1, 1, 1), 256, (1, 1, 1)),
    ],
)
def test_fast_prefers_eight_four_and_two(grid, limit, group):
    assert work_groups.fast(grid, limit) == group


@pytest.mark.parametrize(
    ("grid", "limit", "group"),
    [
        ((7, 7, 12), 1024, (7, 3, 12)),
        ((4, 8, 1), 1024, (4, 4, 1)),  # y would be the whole of an even grid
        ((4, 7, 1), 1024, (4, 7, 1)),  # an odd one stays
        ((300, 2, 1), 1024, (256, 1, 1)),  # 256 is the most, whatever the device allows
        ((56, 56, 17), 256, (56, 4, 1)),
    ],
)
def test_conv_fast_halves_an_even_height(grid, limit, group):
    assert work_groups.conv_fast(grid, limit) == group


def test_newer_adreno_takes_a_deeper_group():
    assert work_groups.conv_fast((7, 7, 32), 256, max_z=64) == (7, 1, 32)


@given(SIZES, LIMITS)
def test_both_rules_stay_within_the_limit(grid, limit):
    assert work_groups.items(work_groups.fast(grid, limit)) <= limit
    assert work_groups.items(work_groups.conv_fast(grid, limit)) <= limit


@given(SIZES, LIMITS)
def test_candidates_divide_the_grid_and_fit(grid, limit):
    found = work_groups.candidates(grid, limit)
    assert found and len(set(found)) == len(found)
    for group in found:
        assert work_groups.aligned(grid, group) == grid
        assert work_groups.items(group) <= limit


def test_candidates_are_all_triples_of_divisors():
    grid, limit = (6, 10, 4), 100
    triples = [(x, y, z) for x in range(1, 7) for y in range(1, 11) for z in range(1, 5)]
    whole = [t for t in triples if not (6 % t[0] or 10 % t[1] or 4 % t[2])]
    assert work_groups.candidates(grid, limit) == [
        t for t in whole if 32 <= t[0] * t[1] * t[2] <= limit
    ]


def test_an_axis_keeps_the_limit_of_the_device():
    assert (
        max(z for _, _, z in work_groups.candidates((8, 8, 64), 1024, (1024, 1024, 16))) == 16
    )


def test_the_launched_grid_is_rounded_up():
    assert work_groups.aligned((7, 7, 3), (4, 4, 1)) == (8, 8, 3)


@pytest.mark.parametrize(
    "rule", [work_groups.fast, work_groups.conv_fast, work_groups.candidates]
)
@pytest.mark.parametrize(
    ("grid", "limit"), [((0, 1, 1), 8), ((1, 1, 1), 0), ((1.5, 1, 1), 8), ((True, 1, 1), 8)]
)
def test_sizes_below_one_are_refused(rule, grid, limit):
    with pytest.raises(ValueError, match="a whole number from 1 on is allowed"):
        rule(grid, limit)


def test_a_grid_of_two_axes_is_refused():
    with pytest.raises(ValueError, match="three sizes"):
        work_groups.fast((8, 8), 64)


def test_a_grid_without_32_items_takes_few_or_small_groups():
    # One to four groups an axis, or one to four items an axis, that divide the grid.
    assert work_groups.candidates((25, 1, 1), 24) == [(1, 1, 1)]
    assert work_groups.candidates((26, 1, 1), 1024) == [
        (1, 1, 1),
        (2, 1, 1),
        (13, 1, 1),
        (26, 1, 1),
    ]


@given(SIZES, LIMITS)
def test_the_shortlist_fits_and_holds_both_rules(grid, limit):
    found = work_groups.shortlist(grid, limit)
    assert found and len(set(found)) == len(found)
    assert all(work_groups.items(one) <= limit for one in found)
    assert {work_groups.fast(grid, limit), work_groups.conv_fast(grid, limit)} <= {*found}
