"""What cameras would tell of a turnaround, without its pictures: for studies of many.

An event is told by a camera that sees its kind, with an error of its time and a delay until it
is known; some are missed. The numbers (`LIKE_FILMS`) were set by hand before the pipeline had
watched a film, and no test holds them against one: films were told 0.1 to 0.25 min late.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from .prediction import Seen, kind_of
from .turnaround import EVENTS, Turnaround


class Errors(NamedTuple):
    """Of an event's minute: its spread; the delays of starts, ends and the ends of walks until
    they are known; the share that is missed."""

    spread: float
    start: float
    end: float
    walk: float
    missed: float


LIKE_FILMS = Errors(spread=0.1, start=0.15, end=0.6, walk=1.3, missed=0.03)
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
        delay = errors.walk if walk else errors.end if name.endswith(" end") else errors.start
        if not missed or name.endswith(" block"):
            found[name] = (max(0.0, minute + off), minute + max(off, 0) + delay)
    return found


def seen(
    told: Mapping[str, tuple[float, float]], now: float, who: frozenset[str], tsat: float = 0.0
) -> Seen:
    """What is known at `now` to those who see the kinds `who`. A stay whose start was missed
    is no news: its kind counts as unwatched, or what never comes would be waited for."""
    known = {
        name: minute
        for name, (minute, known_at) in told.items()
        if known_at <= now and kind_of(name) in who and name != "on block"
    }
    missing = {
        kind_of(n) for n in EVENTS if n not in told and n not in ("on block", "off block")
    }
    late = {kind_of(n) for n in known}
    return Seen(now, known, frozenset(who - (missing & late)))
