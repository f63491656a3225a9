"""The longest chain of tasks, how much later each task may be, and which task made it late.

A task begins when all that it follows have ended (Kelley and Walker 1959). The longest chain
decides the end; a task off that chain has slack. All sums are in the unit of the durations.
"""

import math
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

Durations = Mapping[str, float]
Follows = Mapping[str, Iterable[str]]


class Cause(NamedTuple):
    """What one task added to the end: `minutes` would have been saved at its planned length."""

    task: str
    minutes: float


def order(durations: Durations, follows: Follows) -> dict[str, list[str]]:
    """{task: those that it waits for}, each after those. ValueError for an unknown task, a
    circle, or a duration that is negative or not finite.
    """
    waits = {task: list(before) for task, before in follows.items()}  # each is read once
    named = set(waits).union(*waits.values())
    if unknown := sorted(named - set(durations)):
        raise ValueError(f"no duration for {unknown}; there are those of {sorted(durations)}")
    if odd := [task for task, one in durations.items() if not 0 <= one < math.inf]:
        raise ValueError(f"durations of {odd} are not finite numbers from 0 on")
    try:
        sorted_ = TopologicalSorter({task: waits.get(task, ()) for task in durations})
        return {task: waits.get(task, []) for task in sorted_.static_order()}
    except CycleError as error:
        raise ValueError(f"tasks wait for one another in a circle: {error.args[1]}") from None


def longest(durations: Durations, follows: Follows) -> tuple[float, list[str]]:
    """(length, path): the longest chain and its tasks in order; (0.0, []) for no task at all.

    >>> longest({"fuel": 11, "clean": 8, "board": 12}, {"board": ["fuel", "clean"]})
    (23.0, ['fuel', 'board'])

    `follows[task]` names the tasks that it waits for. Of equally long chains one is given, by
    the order in which `follows` and `durations` name them.
    """
    ends, before = {}, {}
    for task, waits in order(durations, follows).items():
        before[task] = max(waits, key=ends.__getitem__, default=None)
        ends[task] = float(durations[task]) + (ends[before[task]] if waits else 0.0)
    task = max(durations, key=ends.__getitem__, default=None)
    if task is None:
        return 0.0, []
    length, path = ends[task], []
    while task is not None:
        path.append(task)
        task = before[task]
    return length, path[::-1]


def slack(durations: Durations, follows: Follows) -> dict[str, float]:
    """How much longer each task may take, alone, before the end moves: 0.0 on the chain."""
    inward, outward = order(durations, follows), {task: [] for task in durations}
    ends, rest = {}, {}
    for task, waits in inward.items():
        ends[task] = durations[task] + max((ends[one] for one in waits), default=0)
        for first in waits:
            outward[first].append(task)
    for task in reversed(inward):
        rest[task] = max((durations[one] + rest[one] for one in outward[task]), default=0)
    total = max(ends.values(), default=0)
    return {task: max(0.0, float(total - ends[task] - rest[task])) for task in durations}


def causes(planned: Durations, actual: Durations, follows: Follows) -> list[Cause]:
    """What each task cost, the costliest first: the end as it was, less the end had this task
    alone taken its planned time. Two chains that are late together hide one another: then each
    alone saves less than the delay, or nothing.
    """
    follows = order(actual, follows)
    length, _ = longest(actual, follows)
    saved = [
        Cause(
            task,
            length - longest({**actual, task: min(planned[task], actual[task])}, follows)[0],
        )
        for task in actual
    ]
    return sorted(saved, key=lambda one: -one.minutes)
