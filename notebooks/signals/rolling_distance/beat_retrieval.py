"""Judge ranked matches against the cardiologists' beat labels: precision and recall of finding
one kind of beat.

A match counts as a hit when a beat of the wanted kind is marked within 150 ms of its centre,
the window that the standard for ECG algorithms uses (ANSI/AAMI EC57). As there, the first five
minutes of a record may be used to adapt to the patient: here they set the one free number, the
largest distance that still counts as a match.
"""

from typing import NamedTuple

import numpy as np

TOLERANCE_S = 0.15
LEARNING_S = 300.0


class Retrieval(NamedTuple):
    """Scores of one record after the learning period: shares between 0 and 1, NaN where
    nothing was found or wanted."""

    precision: float
    recall: float
    average_precision: float
    wanted: int
    threshold: float


def labels_at(positions, record):
    """The label of the beat within 150 ms of each position, "" where there is none: (P,) of
    one letter each.

    positions (P,): sample numbers, at least 0.3 s apart so that no beat serves two of them.
    """
    beats = record.beat_samples
    nearest = np.abs(beats[:, None] - positions).argmin(0)
    close = np.abs(beats[nearest] - positions) <= TOLERANCE_S * record.rate_hz
    return np.where(close, record.beat_labels[nearest], "")


def score(matches, length, record, kind="V"):
    """`Retrieval` of the beats `kind` by ranked matches whose windows have `length` points."""
    centres = matches.positions + length // 2
    hits = labels_at(centres, record) == kind
    border = LEARNING_S * record.rate_hz
    learning = centres < border
    early, wanted = record.beat_samples < border, record.beat_labels == kind
    wanted_early, wanted_late = np.sum(wanted & early), np.sum(wanted & ~early)
    threshold = best_threshold(hits[learning], matches.distances[learning], wanted_early)
    found = ~learning & (matches.distances <= threshold)
    with np.errstate(invalid="ignore"):
        shares = hits[found].sum() / np.array([found.sum(), wanted_late])
        average = average_precision(hits[~learning], wanted_late)
    return Retrieval(*shares.tolist(), float(average), int(wanted_late), threshold)


def paired(before, after, slack=0.0):
    """How many of the same items are larger in `after` than in `before`, equal, smaller.

    >>> paired(np.array([0.5, 0.9, 0.7]), np.array([0.6, 0.9, 0.1]))
    (1, 1, 1)

    Changes of at most `slack` count as equal.
    """
    better, worse = (int(np.sum(change > slack)) for change in (after - before, before - after))
    return better, len(before) - better - worse, worse


def shape_correlations(distances, length, record, kind="V"):
    """How alike each beat `kind` and the query are, (B,): the best correlation within 150 ms
    of its mark.

    distances (W,): the `zdist`, 2 M (1 - r), of a query of `length` points to every window.
    Only beats after the learning period count, and not one cut off by the record's end.
    """
    reach = int(TOLERANCE_S * record.rate_hz)
    starts = record.beat_samples[record.beat_labels == kind] - length // 2
    starts = starts[(starts >= LEARNING_S * record.rate_hz) & (starts + reach < len(distances))]
    return 1 - np.array([distances[at - reach : at + reach + 1].min() for at in starts]) / (
        2 * length
    )


def precision_recall(hits, wanted):
    """Precision and recall after each ranked match, two arrays (P,): hits is boolean, wanted
    the number to find."""
    found = np.cumsum(hits)
    return found / np.arange(1, len(hits) + 1), found / np.float64(wanted)


def average_precision(hits, wanted):
    """The mean of the precision at each hit, with 0 for every beat never found."""
    return np.sum(precision_recall(hits, wanted)[0][hits]) / np.float64(wanted)


def best_threshold(hits, distances, wanted):
    """The distance at which the harmonic mean of precision and recall (F1) is best; -inf when
    nothing hits."""
    if not hits.any():
        return -np.inf
    f1 = 2 * np.cumsum(hits) / (np.arange(1, len(hits) + 1) + wanted)
    return float(distances[f1.argmax()])
