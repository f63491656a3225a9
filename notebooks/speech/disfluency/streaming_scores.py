"""Five scores for a labeller that reads a growing sentence.

`predictions` of one utterance is a list of label lists, one for each prefix: predictions[i][j]
is what is said of word j when i + 1 words are known: 1 disfluent, 0 fluent, None for "wait".
`gold` has one label, 0 or 1, for each word. Definitions after Chen et al. (2022, arXiv
2205.00620), all counted over every prefix i and every word j <= i:

    P, R, F1     waits fall out of all counts, so waiting raises F1: read it beside the coverage
    edit overhead            labels changed after they were given, per word
    time to detection        words from k until k is first called disfluent (detected k only)
    average waiting time     words from k until k first gets any label (labelled k only)
    first-time detection     words from the repair's onset until its edit is first noticed

Choices that the paper leaves open: a first label after waiting is no edit, one that is taken
back to "wait" is; an edit noticed before its repair begins has first-time detection 0."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from disfl_labels import Utterance, runs

Label = int | None
Predictions = Sequence[Sequence[Label]]


def checked(predictions: Predictions, gold: Sequence[int]) -> int:
    """The number of words; ValueError unless each prefix has its list of labels, 0, 1 or None
    (in `gold` 0 or 1)."""
    size, lengths = len(gold), [len(row) for row in predictions]
    if lengths != list(range(1, size + 1)):
        raise ValueError(
            f"{size} gold labels need prefixes of 1, 2 ... {size} labels, got lengths "
            f"{lengths[:8]}: one list for each word that arrives"
        )
    bad = [x for row in predictions for x in row if x not in (0, 1, None)]
    if bad := bad + [x for x in gold if x not in (0, 1)]:
        why = "0 and 1 are allowed, and None for wait in predictions"
        raise ValueError(f"label {bad[0]!r}: {why}")
    return size


def counts(predictions: Predictions, gold: Sequence[int]) -> tuple[int, int, int, int, int]:
    """(both disfluent, wrongly so called, missed, labels given, possible) over all (i, j)."""
    size = checked(predictions, gold)
    pairs = [(x, gold[j]) for row in predictions for j, x in enumerate(row) if x is not None]
    hit = sum(1 for x, y in pairs if x == y == 1)
    wrong = sum(1 for x, y in pairs if x > y)
    missed = sum(1 for x, y in pairs if x < y)
    return hit, wrong, missed, len(pairs), size * (size + 1) // 2


def _f1(hit: float, wrong: float, missed: float) -> tuple[float, float, float]:
    precision = hit / (hit + wrong) if hit + wrong else math.nan
    recall = hit / (hit + missed) if hit + missed else math.nan
    f1 = 2 * hit / (2 * hit + wrong + missed) if hit + wrong + missed else math.nan
    return precision, recall, f1


def streaming_f1(predictions: Predictions, gold: Sequence[int]) -> float:
    """F1 of the disfluent words over all prefixes, waits left out; NaN where none is counted:
    `streaming_f1([[0], [None, 1]], [0, 1])` is 1.0."""
    return _f1(*counts(predictions, gold)[:3])[2]


def edit_overhead(predictions: Predictions, gold: Sequence[int]) -> float:
    """Labels changed after they were given, per word: `edit_overhead([[0], [1, 0]], [1, 0])` is
    0.5."""
    size = checked(predictions, gold)
    changed = sum(
        1
        for before, after in zip(predictions, predictions[1:], strict=False)
        for x, y in zip(before, after, strict=False)
        if x is not None and x != y
    )
    return changed / size if size else math.nan


def detection_times(predictions: Predictions, gold: Sequence[int]) -> list[int]:
    """For each disfluent word that is ever detected: how many words later that is."""
    size, found = checked(predictions, gold), []
    for k in range(size):
        at = [i for i in range(k, size) if predictions[i][k] == 1]
        if gold[k] and at:
            found.append(at[0] - k)
    return found


def waiting_times(predictions: Predictions, gold: Sequence[int]) -> list[int | None]:
    """For each word: how many words later it first gets a label; None if it never does."""
    size = checked(predictions, gold)
    waited = []
    for k in range(size):
        at = [i for i in range(k, size) if predictions[i][k] is not None]
        waited.append(at[0] - k if at else None)
    return waited


def onset_times(predictions: Predictions, gold: Sequence[int]) -> list[int]:
    """For each noticed run of disfluent words with a word behind it: how many words after that
    one (the repair's onset) any word of the run is first called disfluent, at least 0."""
    size, found = checked(predictions, gold), []
    for first, onset in runs(gold):
        at = [i for i in range(first, size) if 1 in predictions[i][first:onset]]
        if at and onset < size:
            found.append(max(0, at[0] - onset))
    return found


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def time_to_detection(predictions: Predictions, gold: Sequence[int]) -> float:
    """The mean of `detection_times`, in words; NaN where no disfluent word is detected."""
    return _mean(detection_times(predictions, gold))


def average_waiting_time(predictions: Predictions, gold: Sequence[int]) -> float:
    """The mean of `waiting_times` over labelled words, in words; NaN where none is."""
    return _mean([t for t in waiting_times(predictions, gold) if t is not None])


def first_time_detection(predictions: Predictions, gold: Sequence[int]) -> float:
    """The mean of `onset_times`, in words; NaN where nothing is noticed."""
    return _mean(onset_times(predictions, gold))


@dataclass(frozen=True)
class Scores:
    """The scores of many utterances: words pooled, edit overhead as mean over utterances.

    `final_f1` is that of the last prefix alone; `strict_f1` counts waits on disfluent words as
    misses; `waits` has the mean wait by kind of word. Times are in words."""

    f1: float
    precision: float
    recall: float
    edit_overhead: float
    time_to_detection: float
    waiting: float
    first_time: float
    coverage: float
    final_f1: float
    strict_f1: float
    waits: dict[str, float]


def score(predictions: Sequence[Predictions], gold: Sequence[Utterance]) -> Scores:
    """The `Scores` of a labeller over utterances; ValueError unless there is one of each."""
    if not gold or len(predictions) != len(gold):
        raise ValueError(f"{len(predictions)} predictions for {len(gold)} utterances: one each")
    pairs = [(p, u.labels) for p, u in zip(predictions, gold, strict=True)]
    table = np.array([counts(p, y) for p, y in pairs])
    hit, wrong, missed, given, possible = table.sum(0).tolist()
    should = sum(len(y) - k for _, y in pairs for k in range(len(y)) if y[k])
    last = [(x, y) for p, labels in pairs for x, y in zip(p[-1], labels, strict=True)]
    final = [sum(1 for pair in last if pair == wanted) for wanted in ((1, 1), (1, 0))]
    final.append(sum(1 for x, y in last if y == 1 and x != 1))
    waits, by_kind = [waiting_times(p, y) for p, y in pairs], defaultdict(list)
    for row, utterance in zip(waits, gold, strict=True):
        for wait, kind in zip(row, utterance.kinds, strict=True):
            if wait is not None:
                by_kind[kind].append(wait)
    precision, recall, f1 = _f1(hit, wrong, missed)
    return Scores(
        f1=f1,
        precision=precision,
        recall=recall,
        edit_overhead=_mean([edit_overhead(p, y) for p, y in pairs]),
        time_to_detection=_mean([t for p, y in pairs for t in detection_times(p, y)]),
        waiting=_mean([t for row in waits for t in row if t is not None]),
        first_time=_mean([t for p, y in pairs for t in onset_times(p, y)]),
        coverage=given / possible,
        final_f1=_f1(*final)[2],
        strict_f1=_f1(hit, wrong, should - hit)[2],
        waits={kind: _mean(times) for kind, times in by_kind.items()},
    )


def f1_interval(
    predictions: Sequence[Predictions],
    gold: Sequence[Utterance],
    draws: int = 300,
    seed: int = 0,
) -> tuple[float, float]:
    """95 % bootstrap interval of the streaming F1, whole utterances drawn with replacement."""
    table = np.array([counts(p, u.labels)[:3] for p, u in zip(predictions, gold, strict=True)])
    rows = np.random.default_rng(seed).integers(len(table), size=(draws, len(table)))
    hit, wrong, missed = table[rows].sum(1).T
    low, high = np.quantile(2 * hit / np.maximum(1, 2 * hit + wrong + missed), (0.025, 0.975))
    return float(low), float(high)
