"""When will it leave? Draws of what is left, through the tasks, and intervals that are checked.

What the cameras know fixes spans; what they see running has lasted so long already; what they
do not see is drawn whole. The spread of the draws is no promise: it is calibrated on
turnarounds that were not learned from (conformalised quantiles; Romano, Patterson and Candès
2019).

Minutes are counted from on block. `S` draws.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .turnaround import FOLLOWS, PLANNED, TASKS, Turnaround

LATE, ALERT = 5.0, 0.5  # an alert: so many minutes beyond the target, at least so likely
MOMENTS = (0.0, 10.0, 20.0, 30.0, 36.0)  # minutes after on block at which is asked
_VISITS = ("bags", "cleaning", "catering", "fuel")
START = {
    "deboard": "deboarding start",
    "restock": "restocking start",
    "board": "boarding start",
}
START |= {"stairs off": "stairs end"} | {name: f"{name} start" for name in _VISITS}
END = {"chocks on": "chocks start", "stairs on": "stairs start", "deboard": "deboarding end"}
END |= {f"await {name}": f"{name} start" for name in _VISITS}
END |= {name: f"{name} end" for name in _VISITS}
END |= {"restock": "restocking end", "board": "boarding end", "tug": "tug start"}
END |= {"chocks off": "off block"}
KIND = {"chocks": "chocks", "stairs": "stairs", "deboarding": "people", "boarding": "people"}
KIND |= {"bags": "belt loader", "cleaning": "cleaning van", "catering": "catering truck"}
KIND |= {"fuel": "fuel truck", "restocking": "supply cart", "tug": "tug", "off": "aircraft"}


def kind_of(event: str) -> str:
    """The kind of thing that an event is told by: "fuel truck" of "fuel start"."""
    return "aircraft" if event == "on block" else KIND[event.rsplit(" ", 1)[0]]


class Seen(NamedTuple):
    """What is known at `now`: {event: its minute}, and the kinds that somebody still sees."""

    now: float
    known: Mapping[str, float]
    watched: frozenset[str]


class Draws:
    """Lengths of each task, learned from turnarounds; `left` draws what is still to come."""

    def __init__(self, learned: Sequence[Turnaround], draws: int = 200, seed: int = 0):
        rng = np.random.default_rng(seed)
        self.lengths = {
            task: np.sort([one.durations[task] for one in learned]) for task in TASKS
        }
        self.chance = {
            task: rng.permutation((np.arange(draws) + 0.5) / draws) for task in TASKS
        }

    def _length(self, task, lasted):
        """Draws of a length, given that it is more than `lasted` (S,)."""
        sorted_, chance = self.lengths[task], self.chance[task]
        grid = (np.arange(len(sorted_)) + 0.5) / len(sorted_)
        past = np.searchsorted(sorted_, lasted) / len(sorted_)
        drawn = np.interp(past + chance * (1 - past), grid, sorted_)
        beyond = lasted - 0.1 * TASKS[task][0] * np.log(1 - chance)  # longer than all before
        return np.where(past >= 1, beyond, np.maximum(drawn, lasted))

    def left(self, seen: Seen, tsat: float) -> np.ndarray:
        """(S,) draws of the minute off block. `tsat` is an input: nothing moves before it."""
        ends, many = {}, len(next(iter(self.chance.values())))
        if "off block" in seen.known:
            return np.full(many, seen.known["off block"])
        for task, waits in FOLLOWS.items():
            begin = np.max([ends[one] for one in waits], axis=0) if waits else np.zeros(many)
            if task == "chocks off":
                begin = np.maximum(begin, tsat)
            known = seen.known.get(START.get(task))
            if known is not None:
                begin = np.full(many, known)
            elif task in START and kind_of(START[task]) in seen.watched:
                begin = np.maximum(begin, seen.now)  # looked for, and not begun yet
            end = seen.known.get(END.get(task))
            if end is not None:
                ends[task] = np.full(many, end)
                continue
            told = END.get(task, "tug start")  # awaiting the tug ends with it
            watched = kind_of(told) in seen.watched
            lasted = np.maximum(seen.now - begin, 0.0) if watched else np.zeros(many)
            ends[task] = begin + self._length(task, lasted)
        return np.maximum(ends["chocks off"], seen.now)


class Interval(NamedTuple):
    """A predicted minute off block, and the ends between which it is to lie."""

    median: float
    low: float
    high: float


def late(left: np.ndarray, tobt: float) -> float:
    """The share of draws that are more than `LATE` minutes after the target: half of them, or
    more, is an alert (`ALERT`)."""
    return float((left > tobt + LATE).mean())


def interval(draws: np.ndarray, margin: float = 0.0, share: float = 0.9) -> Interval:
    """The middle `share` of the draws, widened at each end by a margin from `calibrate`."""
    low, middle, high = np.quantile(draws, [(1 - share) / 2, 0.5, (1 + share) / 2])
    return Interval(float(middle), float(low - margin), float(high + margin))


def calibrate(
    intervals: Sequence[Interval], truths: Sequence[float], share: float = 0.9
) -> float:
    """The margin with which intervals hold `share` of further truths, on average over draws of
    turnarounds like these (split conformal): the ⌈(n + 1) share⌉-th smallest miss. Infinite
    where there are too few to promise that.
    """
    misses = sorted(
        max(one.low - true, true - one.high)
        for one, true in zip(intervals, truths, strict=True)
    )
    rank = int(np.ceil((len(misses) + 1) * share))
    return misses[rank - 1] if rank <= len(misses) else float("inf")


def spans(known: Mapping[str, float], tsat: float = 0.0) -> dict[str, float]:
    """Minutes of each task as far as events tell: those whose begin and end are known.

    From the stairs' start of leaving until the tug is there no camera tells the tasks apart:
    what is beyond the planned minutes of two of them is said of `await tug`.
    """
    ends = {task: known[name] for task, name in END.items() if name in known}
    if "tug" in ends and "board" in ends and "bags" in ends:
        ends["stairs off"] = known.get("stairs end", ends["board"]) + PLANNED["stairs off"]
        ready = max(ends["stairs off"], ends["bags"])
        ends["await tug"] = max(ready, ends["tug"] - PLANNED["tug"])
    found = {}
    for task, waits in FOLLOWS.items():
        begin = known.get(START.get(task))
        if begin is None and all(one in ends for one in waits):
            begin = max((ends[one] for one in waits), default=0.0)
        if task == "chocks off" and begin is not None:
            begin = max(begin, tsat)
        if begin is not None and task in ends:
            found[task] = max(0.0, ends[task] - begin)
    return found
