"""Ranked matches from distances: the nearest, then the nearest that does not overlap it, and
so on.

Greedy selection with an exclusion zone, as `match` of stumpy does it (Law 2019). A match
closes the 2 E - 1 positions less than E from it. So before the k-th choice at most (k - 1) (2
E - 1) positions are closed, and the choice is among the (k - 1) (2 E - 1) + 1 smallest
distances: nothing else need be kept, however long the stream.
"""

from typing import NamedTuple

import numpy as np
from stream_inputs import as_tensor


class Matches(NamedTuple):
    """Ranked matches: `positions` (k,) int64 and `distances` (k,), nearest first."""

    positions: np.ndarray
    distances: np.ndarray


def top_matches(distances, k, exclusion):
    """The k smallest distances, ranked, no two closer than `exclusion` positions: `Matches`.

    >>> top_matches(np.array([5.0, 1.0, 2.0, 9.0, 3.0]), k=2, exclusion=2)
    Matches(positions=array([1, 4]), distances=array([1., 3.]))

    distances (W,), as `zdist` returns them; fewer than k come back when no room is left.
    Infinite and NaN distances never match; of equal ones the first position wins. Raises
    ValueError for k < 0 or exclusion < 1.
    """
    values_W = as_tensor(distances, "distances")[0].cpu().numpy()
    return apart(nearest(values_W, enough(k, exclusion)), k, exclusion)


def enough(k, exclusion):
    """How many of the smallest distances suffice to choose k matches, by the count above."""
    if k < 0:
        raise ValueError(f"k must be 0 or more, the number of matches wanted, got {k}")
    if exclusion < 1:
        raise ValueError(
            f"exclusion must be 1 or more (1: neighbours may match), got {exclusion}"
        )
    return max(k - 1, 0) * (2 * exclusion - 1) + 1


def nearest(distances, count, first=0, known=None):
    """The `count` smallest finite distances as `Matches`, ranked, neighbours included.

    distances (W,), NumPy, from position `first` on; known: those of the windows before.
    """
    known = known or Matches(np.empty(0, np.int64), distances[:0])
    full = len(known.positions) == count
    few = np.flatnonzero(distances < (known.distances[-1] if full else np.inf))
    if count < len(few):
        few = few[distances[few] <= np.partition(distances[few], count)[count]]
    positions = np.concatenate([known.positions, few + first])
    values = np.concatenate([known.distances, distances[few]])
    order = np.argsort(values, kind="stable")[:count]  # of equal ones the first stays first
    return Matches(positions[order], values[order])


def apart(candidates, k, exclusion):
    """The first k of ranked `Matches`, none closer than `exclusion` to one chosen before."""
    picked, closed = [], set()
    for rank, at in enumerate(candidates.positions.tolist()):
        if len(picked) < k and at not in closed:
            picked.append(rank)
            closed.update(range(at - exclusion + 1, at + exclusion))
    return Matches(candidates.positions[picked], candidates.distances[picked])
