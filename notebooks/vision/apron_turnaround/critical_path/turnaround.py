"""A turnaround as tasks that wait for one another, and a documented way to draw one.

The lengths are this book's assumptions for a short-haul aircraft on an open stand, and no
airport's log. A task may have to await its vehicle: `await fuel` is a task of its own, so that
a truck that comes late is told apart from a truck that fuels slowly.

Times are minutes after the aircraft stands (AIBT = 0), unless a name says otherwise.
"""

from typing import NamedTuple

import numpy as np

TASKS = {  # task: mean minutes, spread (of the logarithm), what it waits for
    "chocks on": (1.0, 0.25, ()),
    "stairs on": (1.5, 0.25, ("chocks on",)),
    "deboard": (6.0, 0.2, ("stairs on",)),
    "await bags": (1.0, 0.5, ("chocks on",)),
    "bags": (21.0, 0.15, ("await bags",)),
    "await cleaning": (1.0, 0.5, ("deboard",)),
    "cleaning": (8.0, 0.2, ("await cleaning",)),
    "await catering": (1.5, 0.6, ("deboard",)),
    "catering": (10.0, 0.2, ("await catering",)),
    "await fuel": (2.0, 0.6, ("deboard",)),
    "fuel": (9.0, 0.2, ("await fuel",)),
    "restock": (4.0, 0.2, ("cleaning",)),
    "board": (12.0, 0.2, ("catering", "fuel", "restock")),
    "stairs off": (1.5, 0.25, ("board",)),
    "await tug": (1.0, 0.5, ("stairs off", "bags")),
    "tug": (1.5, 0.25, ("await tug",)),
    "chocks off": (0.8, 0.25, ("tug",)),
}
FOLLOWS = {task: waits for task, (_, _, waits) in TASKS.items()}
PLANNED = {task: mean for task, (mean, _, _) in TASKS.items()}
LATE = ("await bags", "bags", "await cleaning", "cleaning", "await catering", "catering")
LATE += ("await fuel", "fuel", "board", "await tug")  # what may be hit by a disruption
VISITS = {  # what a camera sees at work: kind, task whose start or end begins it, and ends it
    "chocks": ("chocks", "chocks on", "end", "chocks off", "end"),
    "stairs": ("stairs", "stairs on", "end", "stairs off", "start"),
    "deboarding": ("people", "deboard", "start", "deboard", "end"),
    "bags": ("belt loader", "bags", "start", "bags", "end"),
    "cleaning": ("cleaning van", "cleaning", "start", "cleaning", "end"),
    "catering": ("catering truck", "catering", "start", "catering", "end"),
    "fuel": ("fuel truck", "fuel", "start", "fuel", "end"),
    "restocking": ("supply cart", "restock", "start", "restock", "end"),
    "boarding": ("people", "board", "start", "board", "end"),
    "tug": ("tug", "tug", "end", "", ""),  # until the aircraft leaves with it
}
EVENTS = ("on block", *(f"{n} {e}" for n in VISITS for e in ("start", "end")), "off block")
EVENTS = tuple(name for name in EVENTS if name != "tug end")  # it leaves with the aircraft


class Turnaround(NamedTuple):
    """One turnaround: start and end of each task, the minute off block, the task that was hit
    ("" for none), and the two inputs that no camera sees: `tobt`, the target off-block time
    that the airline gave, and `tsat`, the start-up time that air traffic control approved."""

    spans: dict[str, tuple[float, float]]
    off_block: float
    hit: str
    tobt: float
    tsat: float

    @property
    def durations(self) -> dict[str, float]:
        """Minutes of each task."""
        return {task: end - start for task, (start, end) in self.spans.items()}

    @property
    def events(self) -> dict[str, float]:
        """The true minute of each of `EVENTS`."""
        found = {"on block": 0.0, "off block": self.off_block}
        for name, (_, first, begin, last, end) in VISITS.items():
            found[f"{name} start"] = self.spans[first][begin == "end"]
            if last:
                found[f"{name} end"] = self.spans[last][end == "end"]
        return {name: found[name] for name in EVENTS}


def draw(rng: np.random.Generator, hit: float = 0.4, slower: float = 1.0) -> Turnaround:
    """A turnaround: lengths are log-normal, and with probability `hit` one task takes 1.4 to
    2.2 times as long (an await: 5 to 15 minutes more). `slower` multiplies all lengths.
    """
    minutes = {
        task: slower * mean * float(np.exp(rng.normal(-(spread**2) / 2, spread)))
        for task, (mean, spread, _) in TASKS.items()
    }
    struck = ""
    if rng.random() < hit:
        struck = str(rng.choice(LATE))
        more = rng.uniform(5, 15) if struck.startswith("await") else 0.0
        times = 1.0 if struck.startswith("await") else rng.uniform(1.4, 2.2)
        minutes[struck] = minutes[struck] * times + more
    tobt = round(41 + rng.normal(0, 2))  # planned before the aircraft came
    tsat = tobt + (rng.uniform(3, 10) if rng.random() < 0.15 else -5.0)
    spans = {}
    for task, waits in FOLLOWS.items():  # TASKS names each after those that it waits for
        begin = max((spans[one][1] for one in waits), default=0.0)
        if task == "chocks off":  # ready; nothing moves before the approved time
            begin = max(begin, tsat)
        spans[task] = (begin, begin + minutes[task])
    return Turnaround(spans, spans["chocks off"][1], struck, tobt, tsat)
