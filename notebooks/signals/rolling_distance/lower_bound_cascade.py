"""The single nearest window by a cascade of lower bounds: most windows are given up after a
few points.

A sum of squares only grows, so the differences at a few query points bound the whole
distance from below. Compare the points where the z-normalised query is largest first, drop
every window whose partial sum already exceeds the best distance known, and go on with the
rest (early abandoning with reordering, Rakthanmanon et al. 2012). The original does this
one window at a time; here a whole group of windows goes through each step together, so that
it runs on tensors.

This answers one question, "where is the best match?". `rolling_distance.zdist` gives the
distance of every window.

Legend: N stream length, M query length, W windows still alive.
"""

from typing import NamedTuple

import torch
from rolling_distance import rolling_mean_std, zdist

WINDOWS_AT_ONCE = 1 << 17
FIRST_STEP = 4  # query points compared with every window; each step then doubles them


class Nearest(NamedTuple):
    """The best match: its position, its squared z-normalised distance, and how many point
    pairs were compared."""

    position: int
    distance: float
    compared: int


def nearest(query, stream, skip=range(0)):
    """The window with the smallest `zdist`, without computing the others in full:
    `Nearest`.

    >>> nearest(torch.tensor([1.0, 2, 1]), torch.tensor([10.0, 30, 10, 10])).position
    0

    query (M,) and stream (N,): torch tensors on one device; windows that start in the range
    `skip` are left out (the query's own place). Position -1 and an infinite distance when
    no window is left. Cost: from about 4 N (a close match early on) to N M comparisons
    (nothing like the query anywhere). Raises ValueError as `zdist`.
    """
    mean_N, std_N = (x.double() for x in rolling_mean_std(stream, len(query)))
    scale_N = torch.where(std_N > 0, 1 / std_N, 0.0)  # a flat window normalises to zeros
    query_M = query.double()
    query_M = (query_M - query_M.mean()) / (query_M.std(correction=0) or 1.0)
    order = query_M.abs().argsort(descending=True).tolist()
    best = Nearest(-1, float("inf"), 0)
    for first in range(0, len(mean_N), WINDOWS_AT_ONCE):
        group = slice(first, min(first + WINDOWS_AT_ONCE, len(mean_N)))
        # the first step takes every window of the group, so it reads slices instead of
        # gathering single points
        partial_W = torch.zeros_like(mean_N[group])
        for i in order[:FIRST_STEP]:
            shifted_W = stream[group.start + i : group.stop + i] - mean_N[group]
            partial_W += shifted_W.mul_(scale_N[group]).sub_(query_M[i]).square_()
        at_W = torch.arange(group.start, group.stop, device=stream.device)
        allowed = std_N[group].isfinite() & ((at_W < skip.start) | (at_W >= skip.stop))
        best = best._replace(compared=best.compared + len(at_W) * len(order[:FIRST_STEP]))
        alive = _Alive(at_W, partial_W, mean_N[group], scale_N[group]).keep(
            allowed & (partial_W < best.distance)
        )
        best = _cascade(query, query_M, order, stream, alive, best)
    return best


class _Alive(NamedTuple):
    at_W: torch.Tensor
    partial_W: torch.Tensor
    mean_W: torch.Tensor
    scale_W: torch.Tensor

    def keep(self, mask_W):
        chosen = mask_W.nonzero().view(-1)
        return _Alive(*(values.index_select(0, chosen) for values in self))


def _cascade(query, query_M, order, stream, alive, best):
    """Tighten `best` with the windows of one group, whose first FIRST_STEP points are
    already compared."""
    done = min(FIRST_STEP, len(order))
    while True:
        alive = alive.keep(alive.partial_W < best.distance)
        if len(alive.at_W) == 0:
            return best
        # the most promising window, computed in full, tightens the bound for all the others
        likely = int(alive.at_W[alive.partial_W.argmin()])
        distance = float(zdist(query, stream[likely : likely + len(query)], mode="naive"))
        best = best._replace(compared=best.compared + len(order))
        if distance < best.distance:
            best = best._replace(position=likely, distance=distance)
        alive = alive.keep((alive.partial_W < best.distance) & (alive.at_W != likely))
        for i in order[done : 2 * done]:
            alive.partial_W.add_(
                (stream[alive.at_W + i] - alive.mean_W)
                .mul_(alive.scale_W)
                .sub_(query_M[i])
                .square_()
            )
        best = best._replace(
            compared=best.compared + len(alive.at_W) * len(order[done : 2 * done])
        )
        done = min(2 * done, len(order))
