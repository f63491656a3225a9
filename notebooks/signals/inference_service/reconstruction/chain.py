"""The chain from waves to a labelled event, each stage timed, its network handed in.

`infer` is any function from patches (H, 48, 48) to ((H, 3), (H, 1)): the network in this
process or a service. Nothing here knows which: that is the article's "no disruption".
"""

import time
from typing import NamedTuple

import numpy as np
import torch

from .clusters import cluster, kinds_of, match_planes
from .waveforms import cut_patches, deconvolve, find_hits, image_of, remove_shared_noise

__all__ = ["Reconstructed", "amdahl", "prepare", "reconstruct"]


class Reconstructed(NamedTuple):
    """What was found in each plane (lists of three), the points in space, seconds by stage."""

    images: list
    hits: list
    emtrk: list
    michel: list
    kinds: list
    clusters: list
    points: np.ndarray
    rows: np.ndarray
    seconds: dict


def prepare(event, clock=None):
    """(images, hits, patches (H, 48, 48) of all planes): the chain before its network."""
    clock = clock or _Clock()
    quiet = clock("noise", lambda: [remove_shared_noise(w) for w in event.waves])
    charge = clock("deconvolution", lambda: [deconvolve(w, i) for i, w in enumerate(quiet)])
    images = [image_of(c) for c in charge]
    hits = clock("hits", lambda: [find_hits(c) for c in charge])
    cut = clock("patches", lambda: list(map(cut_patches, images, hits)))
    return images, hits, torch.cat(cut)


def reconstruct(event, infer):
    """The Reconstructed event."""
    clock = _Clock()
    images, hits, patches = prepare(event, clock)
    emtrk, michel = clock("network", lambda: infer(patches))
    ends = np.cumsum([len(h.wire) for h in hits])[:-1]
    emtrk, michel = np.split(emtrk, ends), np.split(michel, ends)
    kinds = list(map(kinds_of, emtrk, michel))
    clusters = clock("clusters", lambda: list(map(cluster, hits, kinds, range(3))))
    points, rows = clock("matching", lambda: match_planes(hits, event.detector))
    whole = images, hits, emtrk, michel, kinds, clusters
    return Reconstructed(*whole, points, rows, clock.seconds)


def amdahl(share, gain):
    """How many times as fast the whole is if a `share` of its time becomes `gain` times as
    fast.

    >>> round(amdahl(0.65, 17), 2)
    2.58
    """
    if not 0 <= share <= 1 or not gain > 0:
        needed = "a share of 0 to 1 and a gain above 0 are needed"
        raise ValueError(f"share {share}, gain {gain}: {needed}")
    return 1 / (1 - share + share / gain)


class _Clock:
    def __init__(self):
        self.seconds = {}

    def __call__(self, stage, work):
        began = time.perf_counter()
        found = work()
        self.seconds[stage] = time.perf_counter() - began
        return found
