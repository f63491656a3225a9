"""How samples are best shared between direct and indirect light when time is what is equal, and
how estimators are compared.

A picture is the sum of two parts drawn apart. With variances v of one sample a pixel and
seconds c of one, n samples of each part cost sum(n c) and leave the variance sum(v / n). For a
given time that is least where n is proportional to sqrt(v / c), which is Neyman's allocation
(1934) with costs; it leaves (sum of sqrt(v c))^2 / time.
"""

import math
import time
from typing import NamedTuple

import path_tracing
import torch


def best_shares(variances, seconds):
    """The shares of the time (a list that sums to 1) that leave the least variance, for parts
    of given variance and cost.

    Raises `ValueError` where lengths differ, a variance is negative, or a cost is not above 0.
    Equal shares where nothing varies.
    """
    if len(variances) != len(seconds) or not variances:
        raise ValueError(
            f"{len(variances)} variances and {len(seconds)} costs; each part needs one of both"
        )
    if min(variances) < 0 or min(seconds) <= 0:
        raise ValueError(
            f"variances {variances}, costs {seconds}; variances are at least 0, costs above 0"
        )
    needs = [
        math.sqrt(variance * cost) for variance, cost in zip(variances, seconds, strict=True)
    ]
    total = sum(needs)
    return [need / total if total else 1 / len(needs) for need in needs]


def variance_left(variances, seconds, shares, time):
    """The variance of the sum of parts where each gets its share of `time` seconds, as many
    samples as fit (not rounded).
    """
    if time <= 0 or min(shares) <= 0:
        raise ValueError(
            f"time is {time}, shares are {shares}; all must be above 0, or a part has no sample"
        )
    parts = zip(variances, seconds, shares, strict=True)
    return sum(variance * cost / (share * time) for variance, cost, share in parts)


def sample_variance(pictures_KHW3, samples):
    """The variance of one sample a pixel (a float, mean over pixels and colours) from K
    pictures of `samples` each.
    """
    if len(pictures_KHW3) < 2:
        raise ValueError(
            f"{len(pictures_KHW3)} pictures; at least 2 of independent seeds have a variance"
        )
    return float(pictures_KHW3.double().var(0).mean()) * samples


class Measured(NamedTuple):
    """Variances of one sample a pixel by kind of light (`scattered`: direct and indirect in
    one), and the seconds of one sample of the whole picture.
    """

    straight: float
    direct: float
    indirect: float
    scattered: float
    seconds: float


def measure(scene, options, depth, samples, seeds):
    """`Measured` over pictures of the listed seeds.

    Light seen straight varies at a lamp's edge alone, whatever the estimator; where estimators
    are compared it would hide the difference, so it stands apart.
    """
    begun = time.perf_counter()
    drawn = [path_tracing.render_orders(scene, samples, depth, options, seed) for seed in seeds]
    seconds = (time.perf_counter() - begun) / (samples * len(drawn))
    orders = torch.stack(drawn)
    parts = orders[:, :1], orders[:, 1:2], orders[:, 2:], orders[:, 1:]
    return Measured(*(sample_variance(part.sum(1), samples) for part in parts), seconds)


# What a picture may be put together from: (depth, or None for the whole one; first scattering
# that it has). Light scattered once needs two rays a sample, the rest many.
DIRECT, INDIRECT = (1, 1), (None, 2)


def pilot(scene, depth, samples, seeds):
    """(variances, seconds) of one sample of direct light alone and of indirect light alone, by
    drawn lamps.
    """
    variances, seconds = [], []
    for (most, first), kind in ((DIRECT, "direct"), (INDIRECT, "indirect")):
        options = path_tracing.Options("lamp", gather_from=first)
        found = measure(scene, options, most or depth, samples, seeds)
        variances.append(getattr(found, kind))
        seconds.append(found.seconds)
    return variances, seconds


def split(scene, samples, depth, seed=0):
    """The picture (height, width, 3) of scattered light, its direct and indirect part drawn
    apart, with `samples` (a pair) of each.
    """
    total = 0.0
    for number, (most, first) in enumerate((DIRECT, INDIRECT)):
        options = path_tracing.Options("lamp", gather_from=first)
        drawn = path_tracing.render_orders(
            scene, samples[number], most or depth, options, 2 * seed + number
        )
        total = total + drawn.sum(0)
    return total
