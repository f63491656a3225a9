"""How well predicted scores follow ratings: correlations, overlaps, intervals, calibration.

The article judges by Pearson's correlation r = Σ(x - x̄)(y - ȳ) / sqrt(Σ(x - x̄)² Σ(y - ȳ)²).
Spearman's is the same of the ranks, equal values sharing their mean rank. Pairs of one anchor
are alike, so an interval draws whole anchors anew (a bootstrap over clusters; Field and Welsh
2007): drawn as single pairs it would come out too narrow. Of a model that was trained with
several seeds each draw has one: the interval is that of one training, on other anchors.

Shapes: `N` pairs, `A` anchors, `R` draws, `S` seeds.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from patent_pairs import SCORES as LEVELS
from scipy.stats import rankdata


class Interval(NamedTuple):
    """A value with the bounds between which 95 % of the draws lie."""

    value: float
    low: float
    high: float


def pearson(first: Sequence[float], second: Sequence[float]) -> float:
    """Pearson's correlation, between -1 and 1, in float64.

    >>> pearson([0, 0.5, 1], [1, 2, 4])
    0.9819805060619657

    ValueError for unequal lengths, fewer than two values, NaN, infinity, and a constant side.
    """
    x, y = _checked(first, second)
    x, y = x - x.mean(), y - y.mean()
    return float(np.clip((x / np.linalg.norm(x)) @ (y / np.linalg.norm(y)), -1, 1))


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's rank correlation; ValueError as in `pearson`.

    >>> spearman([1, 2, 3], [1, 10, 100])
    1.0
    """
    x, y = _checked(first, second)
    return pearson(rankdata(x), rankdata(y))


def _checked(first: Sequence[float], second: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    x, y = (np.asarray(values, dtype=np.float64) for values in (first, second))
    if x.ndim != 1 or x.shape != y.shape or len(x) < 2:
        needs = "a correlation needs two lists of equal length, two values at least"
        raise ValueError(f"shapes {x.shape} and {y.shape}; {needs}")
    for name, values in (("first", x), ("second", y)):
        if len(bad := np.flatnonzero(~np.isfinite(values))):
            what = f"{len(bad)} values that are no number, one at {bad[0]}"
            raise ValueError(f"the {name} list has {what}; each pair needs a number")
        if np.ptp(values) == 0:
            raise ValueError(f"the {name} list is constant, {values[0]}: nothing correlates")
    return x, y


def token_jaccard(first: str, second: str) -> float:
    """Shared words over all words of two phrases; ValueError where there are none.

    >>> token_jaccard("acid absorption", "absorption of acid")
    0.6666666666666666
    """
    return _jaccard(set(first.split()), set(second.split()), first, second)


def ngram_jaccard(first: str, second: str, length: int = 3, padding: int = 2) -> float:
    """Shared pieces of `length` letters over all such pieces, with `padding` spaces at both
    ends of a phrase; ValueError where neither has a piece.

    >>> ngram_jaccard("lifting", "lifter", padding=0)  # lif, ift, and five that one of them has
    0.2857142857142857
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
    """Pearson's correlation with 95 % of `draws` bootstrap samples of whole anchors, for
    `predicted` (N,) or (S, N).

    Sums for each anchor suffice: a draw is a row of a matrix product (R, A) @ (A, 6).
    """
    runs = np.atleast_2d(predicted)
    drawn = [_drawn(one, rated, anchors, draws) for one in runs]
    return _interval([pearson(one, rated) for one in runs], drawn)


def gain_interval(
    better: np.ndarray, base: np.ndarray, rated: np.ndarray, anchors: Sequence[str]
) -> Interval:
    """How much higher the correlation of `better` is than that of `base`, both with the same
    seeds and on the same draws of anchors."""
    sides = list(zip(np.atleast_2d(better), np.atleast_2d(base), strict=True))
    drawn = [_drawn(one, rated, anchors) - _drawn(two, rated, anchors) for one, two in sides]
    return _interval([pearson(one, rated) - pearson(two, rated) for one, two in sides], drawn)


def share_interval(hits: np.ndarray, anchors: Sequence[str]) -> Interval:
    """The mean of `hits`, (N,) or (S, N), with 95 % of bootstrap samples of whole anchors."""
    (of, weights_RA), runs = _weights(anchors, 2000), np.atleast_2d(hits)
    count_R = weights_RA @ np.bincount(of)
    drawn = [weights_RA @ np.bincount(of, one) / count_R for one in runs]
    return _interval(runs.mean(1), drawn)


def _interval(values: Sequence[float], drawn: Sequence[np.ndarray]) -> Interval:
    """The mean over seeds, and what holds 95 % of all their draws."""
    return Interval(float(np.mean(values)), *np.quantile(drawn, (0.025, 0.975)).tolist())


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

    By squared distances d: 1 - mean d² / mean d² where each rating of the one meets each of the
    other. ValueError for other values than the five levels, and for one value throughout.
    """
    x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if odd := sorted(({*x.tolist()} | {*y.tolist()}) - {*LEVELS}):
        raise ValueError(f"rating {odd[0]}; allowed are {', '.join(map(str, LEVELS))}")
    by_chance = x.var() + y.var() + (x.mean() - y.mean()) ** 2
    if by_chance == 0:
        raise ValueError("both raters gave one value only: agreement by chance is complete")
    return float(1 - ((x - y) ** 2).mean() / by_chance)
