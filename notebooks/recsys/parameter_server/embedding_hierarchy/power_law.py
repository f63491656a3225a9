"""Keys that follow a power law, and the hit rate that a cache should have.

The chance of the key of rank r is r^-s / sum. The article prints a share of keys and their
share of samples; `exponent_for` solves for s. `hit_rate` is Che's approximation of a
least-recently-used cache (Che, Tung and Wang 2002), taken for whole batches: a batch of n draws
holds key k with chance q = 1 - (1 - p)^n, the cache holds it with 1 - (1 - q)^T, and T is such
that C keys are held.

Shapes: `N` keys by rank, `K` drawn ones.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import zeta


def exponent_for(keys, hot, share):
    """The s for which the `hot` first of `keys` keys get this share of all draws.

        exponent_for(188_000_000, 305_000, 0.959)    # about 1.2225

    Raises ValueError where none between 1.001 and 20 does.
    """

    def off(s):
        return power_sum(hot, s) / power_sum(keys, s) - share

    if not (0 < hot < keys and off(1.001) < 0 < off(20)):
        came = f"{hot:,} of {keys:,} keys with a share of {share}"
        raise ValueError(
            f"{came}; fewer keys than all are needed, with far more than their share"
        )
    return brentq(off, 1.001, 20)


def power_sum(count, s):
    """The sum of r^-s for r = 1 … count, for s above 1."""
    return zeta(s) - zeta(s, count + 1)


class PowerLaw:
    """`law = PowerLaw(200_000, 1.36); keys = law.draw(4096, rng)`, int64 of 0 … 199,999.

    Ranks are scattered over the keys by an order drawn from `seed`, so that hot keys are no
    neighbours; `law.ranks` are the keys, the hottest first.
    """

    def __init__(self, keys, s, seed=0):
        if keys < 1 or not 0 <= s < 20:
            raise ValueError(f"{keys} keys, exponent {s}: 1 or more, and 0 to 20, are allowed")
        chances = np.arange(1, keys + 1.0) ** -s
        self.chances_N = chances / chances.sum()
        self.sums_N = self.chances_N.cumsum()
        self.ranks = np.random.default_rng(seed).permutation(keys)

    def draw(self, count, rng):
        """`count` keys (K,), int64, of a NumPy generator."""
        rank = np.searchsorted(self.sums_N, rng.random(count) * self.sums_N[-1], side="right")
        return self.ranks[np.minimum(rank, len(self.ranks) - 1)]

    def hit_rate(self, capacity, draws=1):
        """The share of a batch's distinct keys that a least-recently-used cache holds."""
        there_N = -np.expm1(draws * np.log1p(-self.chances_N.clip(max=1 - 1e-12)))
        if capacity >= len(there_N):
            return 1.0
        silent_N = np.log1p(-there_N.clip(max=1 - 1e-12))

        def over(batches):
            return -np.expm1(np.exp(batches) * silent_N).sum() - capacity

        batches = brentq(over, -30, 60)
        return float(-(there_N * np.expm1(np.exp(batches) * silent_N)).sum() / there_N.sum())
