"""Where in a window a network errs, and how wrong each way of adding windows up is.

A voxel at a window's face has neighbours on one side only: beyond it the convolution sees
zeros. So its error is larger, and that is why windows overlap and why their middles count more.
`by_distance` measures it; `ways` compares weights and overlaps on a case.

D, H, W: depth, height and width; S: side of a window.
"""

import math
import time
from typing import NamedTuple

import dice
import numpy as np
import sliding_windows as sw
import torch

# name: (overlap, root of the Gaussian); the benchmark's is "gaussian, half"
WAYS = {
    "side by side": (0.0, math.inf),
    "constant, half": (0.5, math.inf),
    "gaussian, half": (0.5, 3.0),
    "plain gaussian, half": (0.5, 1.0),
    "gaussian, three quarters": (0.75, 3.0),
}


class Way(NamedTuple):
    """How one way of adding windows up did: Dice, number of windows, seconds, the classes."""

    dice: dice.Dice
    windows: int
    seconds: float
    classes: torch.Tensor


def distances(start, shape, window: int) -> np.ndarray:
    """(S, S, S) int: voxels from each voxel of a window to its nearest face *inside* the
    volume; a face where the volume ends is no face. `window` where there is none at all.
    """
    lines = []
    for at, size in zip(start, shape, strict=True):
        here = np.arange(window)
        low = here if at > 0 else np.full(window, window)
        high = window - 1 - here if at + window < size else np.full(window, window)
        lines.append(np.minimum(low, high))
    deep, high, wide = lines
    return np.minimum(np.minimum(deep[:, None, None], high[:, None]), wide)


@torch.no_grad()
def by_distance(scan_DHW, labels_DHW, network, window: int, overlap: float = 0.5):
    """(wrong, counted): two arrays of S / 2 numbers, by distance to a window's face. A voxel is
    counted where it is an organ or is called one, and wrong where its class differs; each
    window answers alone.
    """
    wrong, counted = np.zeros(window // 2, int), np.zeros(window // 2, int)
    step = sw.step_of(window, overlap)
    starts = sw.starts_of(scan_DHW.shape, window, step)
    boxes = [tuple(slice(at, at + window) for at in start) for start in starts]
    answers = [
        one
        for at in range(0, len(boxes), 4)
        for one in network(
            torch.stack([scan_DHW[here] for here in boxes[at : at + 4]])[:, None]
        )
    ]
    for start, here, scores in zip(starts, boxes, answers, strict=True):
        true, found = labels_DHW[here].numpy(), scores.argmax(0).numpy()
        away, of = distances(start, scan_DHW.shape, window), (true > 0) | (found > 0)
        inside = of & (away < window // 2)
        counted += np.bincount(away[inside], minlength=window // 2)
        wrong += np.bincount(away[inside & (true != found)], minlength=window // 2)
    return wrong, counted


def way(scan_DHW, labels_DHW, network, window: int, overlap: float, root: float) -> Way:
    """One way on one case, prepared for steps of `window / 4` or larger."""
    began = time.perf_counter()
    found = sw.segment(scan_DHW, network, window, overlap=overlap, root=root)
    seconds = time.perf_counter() - began
    count = len(sw.starts_of(scan_DHW.shape, window, sw.step_of(window, overlap)))
    return Way(dice.by_class(found, labels_DHW), count, seconds, found)


def ways(scan_DHW, labels_DHW, network, window: int, names=tuple(WAYS)) -> dict[str, Way]:
    """{name: Way}: each of `WAYS` on the same volume, whose sides are multiples of the
    window."""
    return {name: way(scan_DHW, labels_DHW, network, window, *WAYS[name]) for name in names}
