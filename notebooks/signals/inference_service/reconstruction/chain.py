"""The chain from waves to a labelled event, each stage timed, its network handed in.

`infer` is any function from patches (H, 48, 48) to ((H, 3), (H, 1)): the network in this
process or a service. Nothing here knows which: that is the article's "no disruption".
"""

import time
from collections import namedtuple

import numpy as np
import torch

from .clusters import cluster, kinds_of, match_planes
from .waveforms import cut_patches, deconvolve, find_hits, image_of, remove_shared_noise

# What was found in each plane (lists, three of each assembly), then points (M, 3), {stage: s}
FIELDS = "images hits emtrk michel kinds clusters points seconds"
Reconstructed = namedtuple("Reconstructed", FIELDS)


def prepare(event, clock=None):
    """(images, hits, patches (H, 48, 48) of all planes): the chain before its network."""
    clock = clock or _Clock()
    quiet = clock("noise", lambda: [remove_shared_noise(w) for w in event.waves])
    charge = clock("deconvolution", lambda: [deconvolve(w, i % 3) for i, w in enumerate(quiet)])
    images = [image_of(c) for c in charge]
    hits = clock("hits", lambda: [find_hits(c) for c in charge])
    patches = clock("patches", lambda: torch.cat(list(map(cut_patches, images, hits))))
    return images, hits, patches


def reconstruct(event, infer):
    """The Reconstructed event."""
    clock, depth_cm = _Clock(), event.detector.size_cm[2]
    images, hits, patches = prepare(event, clock)
    emtrk, michel = clock("network", lambda: infer(patches))
    ends = np.cumsum([len(h.wire) for h in hits])[:-1]
    emtrk, michel = np.split(emtrk, ends), np.split(michel, ends)
    kinds = list(map(kinds_of, emtrk, michel))
    planes = range(len(hits))
    clusters = clock("clusters", lambda: [cluster(hits[i], kinds[i], i % 3) for i in planes])

    def matched():
        near = [match_planes(hits[i : i + 3], event.detector)[0] for i in planes[::3]]
        return np.concatenate([one + [0, 0, i * depth_cm] for i, one in enumerate(near)])

    found = images, hits, emtrk, michel, kinds, clusters, clock("matching", matched)
    return Reconstructed(*found, clock.seconds)


def amdahl(share, gain):
    """How many times as fast the whole is if a `share` of its time becomes `gain` times faster.

    >>> round(amdahl(0.65, 17), 2)
    2.58
    """
    if not 0 <= share <= 1 or not gain > 0:
        raise ValueError(f"share {share}, gain {gain}: 0 to 1 and above 0 are needed")
    return 1 / (1 - share + share / gain)


class _Clock:
    def __init__(self):
        self.seconds = {}

    def __call__(self, stage, work):
        began = time.perf_counter()
        found = work()
        self.seconds[stage] = time.perf_counter() - began
        return found
