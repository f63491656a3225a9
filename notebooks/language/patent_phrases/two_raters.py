"""Two simulated raters, how they agree on a final score, and what one rater's correlation with
it is worth.

The article compares "a single rater's scores to the combined score of both raters" and finds
.93. The combined score contains that rater. If both see the truth with equal independent noise
and correlate with each other by ρ, then with the mean of both one of them correlates by sqrt((1
+ ρ) / 2), a third rater who took no part by ρ sqrt(2 / (1 + ρ)), and a model that knows the
truth by sqrt(2ρ / (1 + ρ)) (from the variances). Here raters give five levels and settle
differences in a meeting, so the numbers are simulated instead.

Shapes: `N` pairs.
"""

from typing import NamedTuple

import numpy as np
from patent_pairs import SCORES
from rating_metrics import kappa, pearson

LEVELS = np.array(SCORES)


class Agreement(NamedTuple):
    """Correlations with the final score, and of both raters; their kappa."""

    rater: float  # one of the two
    third: float
    truth: float  # the best guess of whoever knows it
    between: float
    kappa: float


def from_rater(correlation: float) -> tuple[float, float, float]:
    """What a rater's correlation with the mean of both, sqrt(1/2) to 1 or ValueError, says of
    equal raters: between both, of a third, of the truth.

    >>> [round(value, 2) for value in from_rater(0.93)]
    [0.73, 0.78, 0.92]
    """
    if not 0.5 <= correlation**2 <= 1:
        raise ValueError(f"correlation {correlation}; with the mean, raters have .708 to 1")
    between = 2 * correlation**2 - 1
    return between, between * (2 / (1 + between)) ** 0.5, (2 * between / (1 + between)) ** 0.5


def rated(latent: np.ndarray, noise: float, shares: np.ndarray, random) -> np.ndarray:
    """One rater's levels (N,): the latent similarity, blurred, cut so that each level gets its
    share of the pairs."""
    heard = latent + noise * random.standard_normal(len(latent))
    return LEVELS[np.searchsorted(np.quantile(heard, np.cumsum(shares)[:-1]), heard)]


def agreed(first: np.ndarray, second: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The final scores (N,) after the raters have met: the level between them, of two such
    levels one by chance."""
    middle = (first + second) / 2 * 4
    return LEVELS[np.floor(middle + random.integers(0, 2, len(middle)) / 2).astype(int)]


def simulated(noise: float, shares: np.ndarray, count: int = 20_000) -> Agreement:
    """How three raters with this noise (in standard deviations of the truth) agree."""
    random = np.random.default_rng(0)
    latent = random.standard_normal(count)
    first, second, third = (rated(latent, noise, shares, random) for _ in range(3))
    final, truth = agreed(first, second, random), np.empty(count)
    for group in np.array_split(np.argsort(latent), 50):
        truth[group] = final[group].mean()  # the best guess of whoever knows the latent value
    against = (pearson(one, final) for one in (first, third, truth))
    return Agreement(*against, pearson(first, second), kappa(first, second))


def noise_for(correlation: float, shares: np.ndarray) -> float:
    """The noise at which a rater correlates with the final score by `correlation`, by halving;
    ValueError if none does."""
    low, high = 0.0, 4.0
    if not simulated(high, shares).rater <= correlation <= simulated(low, shares).rater:
        raise ValueError(f"correlation {correlation}; no noise from {low} to {high} gives it")
    for _ in range(14):
        middle = (low + high) / 2
        noisier = simulated(middle, shares).rater > correlation
        low, high = (middle, high) if noisier else (low, middle)
    return (low + high) / 2
