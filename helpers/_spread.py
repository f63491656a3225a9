"""Medians and what their ends are: a 95 % interval where there are enough numbers, the range where there are not."""

import math
import statistics
from collections import namedtuple

from helpers.show import number

ENDS = {"95 %": "95 % interval", "90 %": "90 % interval", "range": "range", "quartiles": "quartiles", "exact": "exact"}
Spread = namedtuple("Spread", "median low high repeats interval")  # `interval`, a key of ENDS, says what the ends are


class Ratio(Spread):
    """A Spread of times, reference to contestant, taken round by round: above 1 is faster."""


def spread(values):
    """The Spread of numbers: median and its 95 % interval, of any distribution, by ranks: `spread(range(20)).low == 5`.
    Fewer than six cannot tell: their ends are smallest and largest, `interval` says "range". ValueError for none.
    """
    ranked = sorted(map(float, values))
    if not ranked:
        raise ValueError("a spread of no numbers was asked for; at least one is needed")
    count, skip, outside = len(ranked), 0, 0.0
    while (outside := outside + 2 * math.comb(count, skip) / 2**count) <= 0.05:
        skip += 1
    low, high = ranked[max(0, skip - 1)], ranked[-max(1, skip)]
    return Spread(statistics.median(ranked), low, high, count, "95 %" if skip else "range")


def ratio(reference, found, factor=1.0):
    """The Ratio of two Measurements, `factor` × reference to found; ValueError unless repeats are equally many."""
    pairs = zip(reference.times_s, found.times_s, strict=True)
    return Ratio(*spread(factor * theirs / own for theirs, own in pairs))


def text(metric):
    """A receipt's metric with its unit and its named ends: "96 x/s (90 to 99 x/s, 95 % interval)"; "–" for None."""
    if not metric or "low" not in metric:
        return number(metric["value"], metric["unit"]) if metric else "–"
    value, low, high = (number(float(metric[key]), metric["unit"]) for key in ("value", "low", "high"))
    ends = ENDS.get(metric.get("interval"), "ends not named") + (f", n = {n}" if (n := metric.get("repeats")) else "")
    return f"{value} ({low.removesuffix(' ' + metric['unit'])} to {high}, {ends})"
