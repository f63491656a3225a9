"""What cameras would tell of a turnaround, without its pictures: for studies of many.

An event is told by a camera that sees its kind, with an error of its time and a delay until it
is known; some are missed. The numbers (`LIKE_FILMS`) are what the pipeline did on twelve films,
seeds 100 to 111 of `apron_cameras.study_films`, which that study does not judge. All their 252
events were told, so about one in a hundred may be missed. The study judges the same numbers.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from .prediction import Seen, kind_of
from .turnaround import Turnaround


class Errors(NamedTuple):
    """Of an event's minute: how late it is told (the ends of walks are not), and the spread
    of that; the delays of starts, ends and ends of walks until they are known; the missed."""

    late: float
    spread: float
    start: float
    end: float
    walk: float
    missed: float


LIKE_FILMS = Errors(late=0.11, spread=0.08, start=0.19, end=0.6, walk=1.27, missed=0.01)
SIGHT = {  # as `apron_cameras.sight` finds it; a test holds that
    "A": {"aircraft", "chocks", "stairs", "people", "cleaning van", "supply cart", "tug"},
    "B": {"aircraft", "chocks", "fuel truck", "belt loader", "catering truck", "tug"},
}


def kinds(cameras: Collection[str], without: Collection[str] = ()) -> frozenset[str]:
    """The kinds that these cameras see, less those that nobody tells."""
    return frozenset().union(*(SIGHT[one] for one in cameras)) - frozenset(without)


def tell(
    one: Turnaround, rng: np.random.Generator, errors: Errors = LIKE_FILMS
) -> dict[str, tuple[float, float]]:
    """{event: (its minute as told, the minute from which it is known)} of all cameras together.
    The same draws whoever looks, so that arms differ in what they see alone."""
    found = {}
    for name, minute in one.events.items():
        off, missed = rng.normal(0, errors.spread), rng.random() < errors.missed
        walk = name in ("deboarding end", "boarding end")
        off += 0.0 if walk else errors.late
        delay = errors.walk if walk else errors.end if name.endswith(" end") else errors.start
        if not missed or name.endswith(" block"):
            found[name] = (max(0.0, minute + off), minute + max(off, delay))
    return found


def seen(told: Mapping[str, tuple[float, float]], now: float, who: frozenset[str]) -> Seen:
    """What is known at `now` to those who see the kinds `who`. What was missed nobody knows: it
    is waited for until a later event tells that it is over."""
    known = {
        name: minute
        for name, (minute, known_at) in told.items()
        if known_at <= now and kind_of(name) in who and name != "on block"
    }
    return Seen(now, known, who)
