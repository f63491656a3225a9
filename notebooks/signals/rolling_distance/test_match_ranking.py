"""Ranked matches: the greedy choice of the definition, whatever the buckets do."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from match_ranking import enough, nearest, top_matches


def top_matches_reference(distances, k, exclusion):
    left, picked = np.array(distances, dtype=float), []
    left[np.isnan(left)] = np.inf
    while len(picked) < k and len(left) and left.min() < np.inf:
        at = int(left.argmin())
        picked.append(at)
        left[max(0, at - exclusion + 1) : at + exclusion] = np.inf
    return picked


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(st.integers(0, 6).map(float), st.sampled_from([np.inf, np.nan])), max_size=60
    ),
    st.integers(0, 12),
    st.integers(1, 70),
)
def test_equals_greedy_selection_with_ties(distances, k, exclusion):
    got = top_matches(np.array(distances, dtype=float), k, exclusion)
    assert got.positions.tolist() == top_matches_reference(distances, k, exclusion)


def test_ranks_by_distance_and_keeps_apart():
    distances = np.random.default_rng(0).random(10_000).astype(np.float32)
    got = top_matches(torch.from_numpy(distances), 50, 100)
    assert got.distances.dtype == np.float32 and (np.diff(got.distances) >= 0).all()
    assert (np.diff(np.sort(got.positions)) >= 100).all()
    np.testing.assert_array_equal(distances[got.positions], got.distances)


def test_stops_when_no_room_is_left():
    assert len(top_matches(np.zeros(10), k=5, exclusion=10).positions) == 1
    assert len(top_matches(np.zeros(0), k=5, exclusion=10).positions) == 0


def test_leaves_the_distances_alone():
    distances = np.arange(5.0)
    top_matches(distances, 3, 2)
    assert distances.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "k, exclusion, said",
    [(-1, 1, "k must be 0 or more"), (1, 0, "exclusion must be 1 or more")],
)
def test_refuses_with_a_reason(k, exclusion, said):
    with pytest.raises(ValueError, match=said):
        top_matches(np.zeros(3), k, exclusion)


def test_refuses_what_is_not_one_row():
    with pytest.raises(ValueError, match="1 axis"):
        top_matches(np.zeros((2, 2)), 1, 1)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 3).map(float), max_size=60), st.integers(1, 9), st.integers(1, 25)
)
def test_pieces_keep_the_nearest_of_all(distances, count, step):
    known, whole = nearest(np.empty(0), count), np.array(distances, dtype=float)
    for first in range(0, len(whole), step):
        known = nearest(whole[first : first + step], count, first, known)
    want = sorted(range(len(whole)), key=lambda j: (whole[j], j))[:count]
    assert known.positions.tolist() == want


def test_the_last_choice_may_need_the_last_candidate():
    distances = np.full(50, 9.0)
    distances[8:13], distances[40] = 1.0, 2.0  # the first match and all that it closes, 3 wide
    distances[10] = 0.0
    assert enough(2, 3) == 6
    assert top_matches(distances, 2, 3).positions.tolist() == [10, 40]
