"""The study: how well the minute off block is known, by who looks, over many turnarounds.

    make study CHAPTERS=vision/apron_turnaround STUDY=cameras

A seed draws three parts: turnarounds from which the lengths of tasks are learned, those that
calibrate the intervals, and those that judge. Every arm meets the same ones, told with the same
errors; an arm sees what its cameras see. There are two baselines: `schedule`, the target time
that the airline gave, and `nobody`, what past turnarounds tell with no camera at all; what
watching is worth is the distance from `nobody`. Both have intervals calibrated in the same way.
All is drawn by `turnaround.draw`: the study tells of this simulator, and of no airport.
"""

import numpy as np
from helpers.study import Arm, Job, Metric, Outcome, Part, Study

from . import observed
from .paths import causes
from .prediction import ALERT, LATE, MOMENTS, Draws, Interval, calibrate, interval, late, spans
from .turnaround import FOLLOWS, PLANNED, draw

ALERT_AT = 20.0  # minutes after on block: when alerts are given
WORTH = {  # what is left out, one kind at a time
    "people": "people",
    "fuel": "fuel truck",
    "catering": "catering truck",
    "bags": "belt loader",
    "cleaning": "cleaning van",
    "restocking": "supply cart",
    "stairs": "stairs",
    "tug": "tug",
}


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """Learned from, calibrated on, judged on; and slower ones, unlike all others."""
    found = {}
    for at, (name, slower) in enumerate(
        (("learned", 1.0), ("calibrated", 1.0), ("test", 1.0), ("slower", 1.33))
    ):
        rng = np.random.default_rng([seed, at])
        rows = [draw(rng, slower=slower) for _ in range(sizes[name])]
        told = [observed.tell(one, rng) for one in rows]
        units = [f"{name} {seed} {n}" for n in range(len(rows))]
        found[name] = Part(list(zip(rows, told, strict=True)), units)
    return found


class Forecaster:
    """An arm's predictions: lengths learned on one part, margins calibrated on another."""

    def __init__(self, setting, learned, calibrated):
        self.who = observed.kinds(setting["cameras"], setting["without"])
        self.schedule = setting["schedule"]
        self.draws = None if self.schedule else Draws([one for one, _ in learned])
        truths = [one.off_block for one, _ in calibrated]
        self.margins = {
            now: calibrate([self.raw(*pair, now)[0] for pair in calibrated], truths)
            for now in MOMENTS
        }

    def raw(self, one, told, now) -> tuple[Interval, float]:
        """(interval without a margin, the share of draws that are late)."""
        if self.schedule:
            target = max(one.tobt, one.tsat, now)
            return Interval(target, target, target), float(target > one.tobt + LATE)
        left = self.draws.left(observed.seen(told, now, self.who), one.tsat)
        return interval(left), late(left, one.tobt)


def fit(job: Job) -> Forecaster:
    """The arm's forecaster."""
    return Forecaster(job.arm.setting, job.train, job.choice)


def judge(made: Forecaster, data: list, job: Job) -> dict:
    """Errors and coverage over all moments, alerts at one, and whether the cause was named.
    Intervals promise a share of all turnarounds, and none of those that were hit: counted."""
    errors, at_30, held, struck, raw, wide, alerts = [], [], [], [], [], [], []
    for one, told in data:
        for now in MOMENTS:
            found, chance = made.raw(one, told, now)
            margin = made.margins[now]
            errors.append(abs(found.median - one.off_block))
            at_30 += [errors[-1]] if now == 30 else []
            raw.append(found.low <= one.off_block <= found.high)
            held.append(found.low - margin <= one.off_block <= found.high + margin)
            struck += [held[-1]] if one.hit else []
            wide.append(found.high - found.low + 2 * margin)
            if now == ALERT_AT:
                alerts.append((chance >= ALERT, one.off_block > one.tobt + LATE))
    given, true = np.array(alerts).T
    both = (given & true).sum()
    return {
        "error": float(np.mean(errors)),
        "error_at_30": float(np.mean(at_30)),
        "coverage": float(np.mean(held)),
        "coverage_hit": float(np.mean(struck)) if struck else float("nan"),
        "raw_coverage": float(np.mean(raw)),
        "width": float(np.mean(wide)),
        "precision": float(both / given.sum()) if given.any() else 0.0,
        "recall": float(both / true.sum()) if true.any() else 0.0,
        "cause": named(made.who, data),
    }


def named(who: frozenset, data: list) -> float:
    """The share of hit turnarounds whose costliest task, by what was told, is the one hit."""
    hits = []
    for one, told in data:
        if one.hit:
            known = observed.seen(told, 1e9, who).known
            actual = {**PLANNED, **spans(known, one.tsat)}
            hits.append(causes(PLANNED, actual, FOLLOWS)[0].task == one.hit)
    return float(np.mean(hits)) if hits else 0.0


def arm(cameras: str = "AB", without: tuple = (), schedule: bool = False, test: str = "test"):
    """What these cameras know, less some kinds; or the schedule alone."""
    setting = {"cameras": cameras, "without": without, "schedule": schedule}
    return Arm(train="learned", choice="calibrated", test=(test,), setting=setting)


ARMS = {"both": arm(), "a": arm("A"), "b": arm("B"), "nobody": arm("")}
ARMS["schedule"] = arm("", schedule=True)
ARMS["slower"] = arm(test="slower")
ARMS |= {f"no_{name}": arm(without=(kind,)) for name, kind in WORTH.items()}


def worth(name: str, differs: str) -> Outcome:
    """How many minutes of error more than with both cameras."""
    return Outcome("error", name, "both", [f"setting.{differs}"])


STUDY = Study(
    notebook="apron_turnaround",
    name="cameras",
    arms=ARMS,
    seeds=range(30),
    sizes={"learned": 200, "calibrated": 199, "test": 200, "slower": 100},
    trial={"learned": 8, "calibrated": 19, "test": 3, "slower": 3},
    metrics={
        "error": Metric("min"),
        "error_at_30": Metric("min"),
        "coverage": Metric("%", 100.0),
        "coverage_hit": Metric("%", 100.0),
        "raw_coverage": Metric("%", 100.0),
        "width": Metric("min"),
        "precision": Metric("%", 100.0),
        "recall": Metric("%", 100.0),
        "cause": Metric("%", 100.0),
    },
    parts=parts,
    fit=fit,
    judge=judge,
    outcomes={
        "study_both_over_schedule": Outcome(
            "error", "both", "schedule", ["setting.cameras", "setting.schedule"], ratio=True
        ),
        "study_both_over_nobody": Outcome(
            "error", "both", "nobody", ["setting.cameras"], ratio=True
        ),
        "study_worth_of_b": worth("a", "cameras"),
        "study_worth_of_a": worth("b", "cameras"),
        **{f"study_worth_of_{one}": worth(f"no_{one}", "without") for one in WORTH},
    },
    over="days of turnarounds",
)
