"""What the stands of an airport ask of its vehicles, from their logs alone."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .prediction import kind_of


class Use(NamedTuple):
    """A kind of vehicle: visits, minutes at work, the most at once, and visits still open."""

    kind: str
    visits: int
    minutes: float
    most: int
    open: int


def table(stands: Mapping[str, Iterable[tuple[str, float]]]) -> list[Use]:
    """The use of each kind over all stands, the busiest first.

    `stands` holds (event, minute) pairs by stand, all on one clock. A visit whose end was not
    seen counts as open, with no minutes, unless the aircraft left: the tug goes with it. An end
    without a start is left out.
    """
    visits, opened = {}, {}
    for events in stands.values():
        since = {}
        for name, minute in sorted(events, key=lambda one: (one[1], one[0].endswith(" start"))):
            task, _, end = name.rpartition(" ")
            if end == "start":
                since[task] = minute
            elif name == "off block":
                for task, begin in since.items():
                    visits.setdefault(kind_of(f"{task} start"), []).append((begin, minute))
                since.clear()
            elif end == "end" and task in since:
                visits.setdefault(kind_of(name), []).append((since.pop(task), minute))
        for task in since:
            kind = kind_of(f"{task} start")
            opened[kind] = opened.get(kind, 0) + 1
    found = []
    for kind in {*visits, *opened}:
        spans = visits.get(kind, [])
        steps = sorted([(a, 1) for a, _ in spans] + [(b, -1) for _, b in spans])
        at_once = most = 0
        for _, step in steps:  # at one minute those that leave come first
            at_once += step
            most = max(most, at_once)
        minutes = sum(b - a for a, b in spans)
        found.append(Use(kind, len(spans), minutes, most, opened.get(kind, 0)))
    return sorted(found, key=lambda one: -one.minutes)
