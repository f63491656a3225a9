"""Ranked matches from a row of distances: the nearest, then the nearest that does not
overlap it, and so on.

Greedy selection with an exclusion zone, as `match` of stumpy does it (Law 2019), in one
pass over the distances and a heap over buckets instead of one pass a match.
"""

import heapq
from typing import NamedTuple

import numpy as np
from stream_inputs import as_tensor


class Matches(NamedTuple):
    """Ranked matches: `positions` (k,) int64 and `distances` (k,), nearest first."""

    positions: np.ndarray
    distances: np.ndarray


def top_matches(distances, k, exclusion):
    """The k smallest distances, ranked, no two closer than `exclusion` positions:
    `Matches`.

    >>> top_matches(np.array([5.0, 1.0, 2.0, 9.0, 3.0]), k=2, exclusion=2)
    Matches(positions=array([1, 4]), distances=array([1., 3.]))

    distances (W,), as the functions above return them; fewer than k come back when no room
    is left. Infinite and NaN distances never match; of equal ones the first position wins.
    Exact greedy selection in O(W + k exclusion). Raises ValueError for k < 0 or exclusion <
    1.
    """
    if k < 0:
        raise ValueError(f"k must be 0 or more, the number of matches wanted, got {k}")
    ranking, picked = Ranking(distances, exclusion), []
    while len(picked) < k and (best := ranking.best())[0] < np.inf:
        picked.append(best)
        ranking.close(best[1])
    found = np.array([value for value, _ in picked], dtype=ranking.dtype)
    return Matches(np.array([at for _, at in picked], dtype=np.int64), found)


class Ranking:
    """The smallest distance still free, again and again, while zones around earlier picks
    are closed.

    Positions lie in buckets of `exclusion`, and a heap holds the best of each. Closing a
    zone touches at most three buckets; their heap entries are corrected when they come up.
    """

    def __init__(self, distances, exclusion):
        if exclusion < 1:
            raise ValueError(
                f"exclusion must be 1 or more (1: neighbours may match), got {exclusion}"
            )
        values_W = as_tensor(distances, "distances")[0].cpu().numpy()
        self.dtype, self._size = values_W.dtype, exclusion
        spare = -len(values_W) % exclusion
        self._left = np.pad(
            values_W.astype(np.float64), (0, spare), constant_values=np.inf
        ).reshape(-1, exclusion)
        self._left[np.isnan(self._left)] = np.inf
        best = self._left.argmin(1)
        values = np.take_along_axis(self._left, best[:, None], 1)[:, 0]
        self._heap = list(
            zip(
                values.tolist(),
                (best + np.arange(len(best)) * exclusion).tolist(),
                strict=True,
            )
        )
        heapq.heapify(self._heap)

    def best(self):
        """(distance, position) of the nearest free one, the first of equals; (inf, -1) when
        none is free."""
        while self._heap and self._heap[0][0] < np.inf:
            value, at = self._heap[0]
            if self._left.flat[at] == value:
                return value, at
            bucket = at // self._size
            inside = int(self._left[bucket].argmin())
            heapq.heapreplace(
                self._heap,
                (float(self._left[bucket, inside]), bucket * self._size + inside),
            )
        return np.inf, -1

    def close(self, position):
        """Take `position`, which may lie outside, and all less than `exclusion` from it out
        of the ranking."""
        self._left.reshape(-1)[
            max(0, position - self._size + 1) : max(0, position + self._size)
        ] = np.inf
