"""How well predicted scores follow ratings: correlations, overlaps of words, intervals over
anchors, calibration.

The article judges by Pearson's correlation r = Σ(x - x̄)(y - ȳ) / sqrt(Σ(x - x̄)² Σ(y - ȳ)²).
Spearman's is the same of the ranks, equal values sharing their mean rank. Pairs of one anchor
are alike, so an interval draws whole anchors anew (a bootstrap over clusters; Field and Welsh
2007): drawn as single pairs it would come out too narrow.

Shapes: `N` pairs, `A` anchors, `R` draws.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from patent_pairs import SCORES as LEVELS


class Interval(NamedTuple):
    """A value with the bounds between which 95 % of the draws lie."""

    value: float
    low: float
    high: float


def pearson(first: Sequence[float], second: Sequence[float]) -> float:
    """Pearson's correlation, between -1 and 1, in float64.

    >>> pearson([0, 0.5, 1], [1, 2, 4])
    0.9819805060619657

    Raises ValueError for unequal lengths, fewer than two values, NaN or infinity, and for a
    constant side: its spread is zero and the correlation undefined.
    """
    x, y = _checked(first, second)
    x, y = x - x.mean(), y - y.mean()
    return float(np.clip((x / np.linalg.norm(x)) @ (y / np.linalg.norm(y)), -1, 1))


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's rank correlation; equal values share their mean rank. Raises ValueError as
    `pearson` does.

    >>> spearman([1, 2, 3], [1, 10, 100])
    1.0
    """
    x, y = _checked(first, second)
    return pearson(_ranks(x), _ranks(y))


def _checked(first: Sequence[float], second: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    x, y = (np.asarray(values, dtype=np.float64) for values in (first, second))
    if x.ndim != 1 or x.shape != y.shape or len(x) < 2:
        raise ValueError(
            f"shapes {x.shape} and {y.shape}; a correlation needs two lists of equal length, "
            "two values at least"
        )
    for name, values in (("first", x), ("second", y)):
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            what = f"{len(bad)} values that are no number, one at {bad[0]}"
            raise ValueError(f"the {name} list has {what}; each pair needs a number")
        if np.ptp(values) == 0:
            what = f"all {len(values)} values of the {name} list are {values[0]}"
            raise ValueError(f"{what}: a constant correlates with nothing")
    return x, y


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, float64; equal values get the mean of their places."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def token_jaccard(first: str, second: str) -> float:
    """Shared words over all words of two phrases, between 0 and 1; two phrases without words
    raise ValueError.

    >>> token_jaccard("acid absorption", "absorption of acid")
    0.6666666666666666
    """
    return _jaccard(set(first.split()), set(second.split()), first, second)


def ngram_jaccard(first: str, second: str, length: int = 3, padding: int = 2) -> float:
    """Shared pieces of `length` letters over all such pieces, each phrase padded with `padding`
    spaces at both ends.

    >>> ngram_jaccard("lifting", "lifter", padding=0)  # lif, ift, and five that one of them has
    0.2857142857142857

    The padding gives beginnings and ends of a phrase pieces of their own. Raises ValueError
    where neither has a piece.
    """
    ends = " " * padding
    padded = (ends + phrase + ends for phrase in (first, second))
    parts = ({one[at : at + length] for at in range(len(one) - length + 1)} for one in padded)
    return _jaccard(*parts, first, second)


def _jaccard(one: set[str], other: set[str], first: str, second: str) -> float:
    if not one | other:
        raise ValueError(f"neither {first!r} nor {second!r} has a part to compare")
    return len(one & other) / len(one | other)


def pearson_interval(
    predicted: np.ndarray, rated: np.ndarray, anchors: Sequence[str], draws: int = 2000
) -> Interval:
    """Pearson's correlation with 95 % of `draws` bootstrap samples of whole anchors.

    Sums for each anchor suffice, so a draw is one row of a matrix product (R, A) @ (A, 6).
    ValueError as in `pearson`.
    """
    found = _drawn(predicted, rated, anchors, draws)
    return Interval(pearson(predicted, rated), *np.quantile(found, (0.025, 0.975)).tolist())


def gain_interval(
    better: np.ndarray, base: np.ndarray, rated: np.ndarray, anchors: Sequence[str]
) -> Interval:
    """How much higher the correlation of `better` is than that of `base`, both on the same
    draws of anchors."""
    found = _drawn(better, rated, anchors) - _drawn(base, rated, anchors)
    value = pearson(better, rated) - pearson(base, rated)
    return Interval(value, *np.quantile(found, (0.025, 0.975)).tolist())


def share_interval(hits: np.ndarray, anchors: Sequence[str]) -> Interval:
    """The mean of `hits` (N,), from 0 to 1, with 95 % of bootstrap samples of whole anchors."""
    of, weights_RA = _weights(anchors, 2000)
    found = weights_RA @ np.bincount(of, hits) / (weights_RA @ np.bincount(of))
    return Interval(float(np.mean(hits)), *np.quantile(found, (0.025, 0.975)).tolist())


def _weights(anchors: Sequence[str], draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Each pair's anchor as a number (N,), and how often each anchor is in each draw (R, A)."""
    names, of = np.unique(np.asarray(anchors, dtype=str), return_inverse=True)
    if len(names) < 2:
        raise ValueError(f"{len(names)} anchors; an interval needs two or more")
    chance = np.full(len(names), 1 / len(names))
    return of, np.random.default_rng(0).multinomial(len(names), chance, size=draws)


def _drawn(
    predicted: np.ndarray, rated: np.ndarray, anchors: Sequence[str], draws: int = 2000
) -> np.ndarray:
    """The correlation in each draw, (R,); a draw without spread raises ValueError."""
    x, y = _checked(predicted, rated)
    x, y = x - x.mean(), y - y.mean()  # small numbers, so that the sums below lose no digits
    of, weights_RA = _weights(anchors, draws)
    if len(of) != len(x):
        raise ValueError(f"{len(of)} anchors for {len(x)} pairs; each pair has one")
    columns = (np.ones_like(x), x, y, x * x, y * y, x * y)
    sums_A6 = np.stack([np.bincount(of, column) for column in columns], axis=1)
    n, sx, sy, sxx, syy, sxy = (weights_RA @ sums_A6).T
    spread = (sxx - sx * sx / n) * (syy - sy * sy / n)
    if not (spread > 0).all():
        raise ValueError("too few anchors: in some draws all values are equal")
    return (sxy - sx * sy / n) / np.sqrt(spread)


def calibration(predicted: np.ndarray, rated: np.ndarray, bins: int = 10) -> np.ndarray:
    """Rows (mean prediction, mean rating, count) of `bins` groups with about equally many
    pairs, lowest first."""
    x, y = _checked(predicted, rated)
    groups = np.array_split(np.argsort(x, kind="stable"), min(bins, len(x)))
    return np.array([(x[group].mean(), y[group].mean(), len(group)) for group in groups])


def kappa(first: Sequence[float], second: Sequence[float]) -> float:
    """Cohen's kappa with quadratic weights: agreement of two raters beyond that of their habits
    alone, 1 at most.

    Disagreements count by their squared distance. Raises ValueError for a value that is none of
    the five levels, and where both raters gave one and the same value throughout.
    """
    given, values = np.array([first, second], dtype=np.float64), np.array(LEVELS)
    place = np.abs(given[..., None] - values).argmin(-1)
    odd = given[values[place] != given]
    if len(odd):
        raise ValueError(f"rating {odd[0]}; allowed are {', '.join(map(str, LEVELS))}")
    table = np.zeros((len(values), len(values)))
    np.add.at(table, tuple(place), 1)
    cost = np.subtract.outer(values, values) ** 2
    by_chance = (np.outer(table.sum(1), table.sum(0)) / table.sum() * cost).sum()
    if by_chance == 0:
        raise ValueError(
            "both raters gave one value only: agreement beyond chance is undefined"
        )
    return float(1 - (table * cost).sum() / by_chance)
