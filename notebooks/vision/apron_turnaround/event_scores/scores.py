"""How well events and identities were found.

`event_f1` pairs times of one kind of event; `idf1` pairs whole tracks (Ristani et al. 2016).
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment


def event_f1(
    true_times: Sequence[float], predicted_times: Sequence[float], tolerance: float
) -> float:
    """F1 of the predicted times of one kind of event, each paired with at most one true time,
    at most `tolerance` seconds away (that far still counts). 1.0 where both lists are empty.

    >>> event_f1([10, 60], [12, 300], 5)
    0.5

    As many pairs as can be are made. On a line the earliest two that fit belong together: that
    takes from the later ones nothing that they could use better. ValueError for a tolerance
    that is negative or no number, and for times that are not finite.
    """
    if not tolerance >= 0:
        raise ValueError(f"a tolerance of {tolerance} s: 0 or more is allowed")
    true, predicted = sorted(map(float, true_times)), sorted(map(float, predicted_times))
    if not all(map(math.isfinite, true + predicted)):
        raise ValueError(
            "times must be finite numbers of seconds; leave out what did not happen"
        )
    if not true and not predicted:
        return 1.0
    pairs = at = 0
    for time in predicted:
        while at < len(true) and true[at] < time and time - true[at] > tolerance:
            at += 1
        if at < len(true) and abs(true[at] - time) <= tolerance:
            pairs, at = pairs + 1, at + 1
    return 2 * pairs / (len(true) + len(predicted))


def iou(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(N, M) overlaps of (N, 4) and (M, 4) boxes."""
    one, other = np.reshape(one, (-1, 1, 4)), np.reshape(other, (1, -1, 4))
    low, high = np.maximum(one, other)[..., :2], np.minimum(one, other)[..., 2:]
    both = np.clip(high - low, 0, None).prod(2)
    areas = [(boxes[..., 2:] - boxes[..., :2]).prod(2) for boxes in (one, other)]
    return both / np.maximum(areas[0] + areas[1] - both, 1e-9)


def idf1(true: Sequence, predicted: Sequence, least: float = 0.5) -> float:
    """The share of boxes whose thing keeps one number: F1 after each true number is paired with
    at most one predicted number, over all frames at once.

    Both hold, for each frame, (numbers, boxes (N, 4)). A pair counts where boxes overlap by at
    least `least`.
    """
    shared, boxes = {}, 0
    for (ids, mine), (others, its) in zip(true, predicted, strict=True):
        boxes += len(ids) + len(others)
        if len(ids) and len(others):
            for i, j in np.argwhere(iou(mine, its) >= least):
                pair = (ids[i], others[j])
                shared[pair] = shared.get(pair, 0) + 1
    if not boxes:
        return 1.0
    rows = {one: at for at, one in enumerate({i for i, _ in shared})}
    columns = {one: at for at, one in enumerate({j for _, j in shared})}
    table = np.zeros((len(rows), len(columns)))
    for (i, j), count in shared.items():
        table[rows[i], columns[j]] = count
    return float(2 * table[linear_sum_assignment(-table)].sum() / boxes)
