"""The single nearest window by a cascade of lower bounds: most windows are given up after a
few points.

A sum of squares only grows, so the differences at a few query points bound the whole distance
from below. Compare the points where the z-normalised query is largest first, drop every window
whose partial sum already exceeds the best distance known, and go on with the rest (early
abandoning with reordering, Rakthanmanon et al. 2012). The original does this one window at a
time; here all windows still alive go through each step together, so that it runs on tensors.

Legend: N stream length, M query length, W windows still alive.
"""

from typing import NamedTuple

import torch
from rolling_distance import rolling_mean_std, zdist

FIRST_STEP = 4  # query points compared with every window; each step then doubles them


class Nearest(NamedTuple):
    """The best match: position, squared z-normalised distance, and point pairs compared."""

    position: int
    distance: float
    compared: int


def nearest(query, stream, skip=range(0)):
    """The window with the smallest `zdist`, without computing the others in full: `Nearest`.

    >>> nearest(torch.tensor([1.0, 2, 1]), torch.tensor([10.0, 30, 10, 10])).position
    0

    query (M,) and stream (N,): torch tensors on one device; windows that start in the range
    `skip` are left out (the query's own place). Position -1 and an infinite distance when no
    window is left. From about 4 N comparisons (a close match early on) to N M.
    """
    mean_W, std_W = (x.double() for x in rolling_mean_std(stream, len(query)))
    scale_W = torch.where(std_W > 0, 1 / std_W, 0.0)  # a flat window normalises to zeros
    query_M = query.double()
    query_M = (query_M - query_M.mean()) / (query_M.std(correction=0) or 1.0)
    order = query_M.abs().argsort(descending=True).tolist()
    at_W = torch.arange(len(mean_W), device=stream.device)
    allowed_W = std_W.isfinite() & ((at_W < skip.start) | (at_W >= skip.stop))
    partial_W = torch.where(allowed_W, mean_W.new_zeros(()), torch.inf)
    best, done = Nearest(-1, float("inf"), 0), 0
    while True:
        if done:
            # the most promising, computed in full, tightens the bound for all the others
            partial_W.nan_to_num_(nan=torch.inf)
            likely = int(partial_W.argmin())
            if partial_W[likely] >= best.distance:
                return best
            at, partial_W[likely] = int(at_W[likely]), torch.inf
            distance = float(zdist(query, stream[at : at + len(query)], mode="naive"))
            best = best._replace(compared=best.compared + len(order))
            if distance < best.distance:
                best = best._replace(position=at, distance=distance)
            chosen = (partial_W < best.distance).nonzero().view(-1)
            alive = (x.index_select(0, chosen) for x in (at_W, partial_W, mean_W, scale_W))
            at_W, partial_W, mean_W, scale_W = alive
            if len(at_W) == 0:
                return best
        step = order[done : 2 * done or FIRST_STEP]
        for i in step:
            # the first step takes every window: slices, where the later ones gather
            points_W = stream.index_select(0, at_W + i) if done else stream[i : i + len(at_W)]
            shifted_W = points_W - mean_W
            partial_W += shifted_W.mul_(scale_W).sub_(query_M[i]).square_()
        best = best._replace(compared=best.compared + len(at_W) * len(step))
        done = min(done + len(step), len(order))
