"""A declared study, run and recorded: the same code for what is recorded, for a trial, and for a test's stand-ins."""

import copy
import functools
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from helpers import device
from helpers.study import Job, Part, Study, StudyError

Found = dict[str, dict[int, dict[str, dict[str, Any]]]]  # {arm: {seed: {part: {metric: value}}}}
Keep = Callable[[str, str, int, Callable[[], Any]], Any]


def run(study: Study, keep: Keep = lambda *job: job[-1](), hand=copy.deepcopy, turn: Callable = iter) -> Found:
    """The scores of every arm and seed; `keep(kind, arm, seed, compute)` computes, or has what was "made" or "scored".
    `hand` makes what an arm is handed of a part's data: a copy; `turn` orders the seeds, and each seed's arms.
    StudyError for a declaration that contradicts itself, and for parts that share what they may not."""
    study.check()
    found: Found = {name: {} for name in study.arms}
    for seed in turn(tuple(study.seeds)):
        one = _Seed(study, seed, keep, hand)
        for name in turn(study.order()):
            if seed in tuple(study.seeds)[: study.arms[name].seeds]:
                found[name][seed] = keep("scored", name, seed, functools.partial(one.scores, name))
    return found


class _Seed:
    """One seed of a study: its parts, drawn once and held apart, and what its arms made."""

    def __init__(self, study: Study, seed: int, keep: Keep, hand: Callable):
        self.study, self.seed, self.keep, self.hand = study, seed, keep, hand
        self.ends: dict[str, Any] = {}

    @functools.cached_property
    def parts(self) -> dict[str, Part]:
        device.seed(self.seed)
        parts = self.study.parts(self.seed, self.study.sizes)
        self.study.apart(parts)
        self.keep("counted", "", self.seed, lambda: {name: len(set(part.units)) for name, part in parts.items()})
        return parts

    def job(self, name: str) -> Job:
        """What the arm is handed: its parts, and copies of the ends that it goes on from."""
        arm = self.study.arms[name]
        train, choice = (self.hand(self.parts[part].data) if part else None for part in (arm.train, arm.choice))
        job = Job(name, arm, self.seed, self.study.sizes, None, train, choice)
        starts = tuple(self._start(word, job) for word in arm.starts)
        return job._replace(start=starts[0] if isinstance(arm.start, str) else starts)

    def _start(self, word: str, job: Job) -> Any:
        if word in self.study.arms:
            return copy.deepcopy(self.made(word))
        device.seed(self.seed)  # so that no arm depends on which ran before it
        return self.study.begin(word, job)

    def made(self, name: str) -> Any:
        """What the arm made of its start."""
        if name not in self.ends:
            self.ends[name] = self.keep("made", name, self.seed, functools.partial(self._fit, name))
        return self.ends[name]

    def _fit(self, name: str) -> Any:
        job, arm = self.job(name), self.study.arms[name]
        device.seed(self.seed)
        return self.study.fit(job) if arm.train or arm.choice or arm.loss is not None else job.start

    def scores(self, name: str) -> dict[str, dict[str, Any]]:
        """{part: {metric: value}} of one arm."""
        made, arm, found = self.made(name), self.study.arms[name], {}
        if any(name in other.starts for other in self.study.arms.values()):
            made = copy.deepcopy(made)  # what others go on from is not the judge's to change
        for test in arm.test:
            data = self.hand(self.parts[test].data)
            device.seed(self.seed)
            found[test] = self.study.judge(made, data, Job(name, arm, self.seed, self.study.sizes, test=test))
        return found


def record(study: Study, receipt, found: Found) -> None:
    """Write what `run` found into a receipt: every arm's scores, the outcomes, then what the study's `extra` adds."""
    for name, runs in found.items():
        for part, told in next(iter(runs.values())).items():
            for metric in (metric for metric, value in told.items() if isinstance(value, int | float)):
                label = study.key.format(arm=name, metric=metric, part=part)
                _put(study, receipt, label, _values(runs, part, metric), *study.metrics[metric])
    for label, one in study.outcomes.items():
        unit, scale = study.metrics[one.metric]
        pair = ((found[name], one.part or study.arms[name].test[0], one.metric) for name in (one.arm, one.less))
        mine, other = itertools.starmap(_values, pair)
        if list(mine) != list(other):
            raise StudyError(f"outcome {label}: {one.arm} has {study.over} {list(mine)}, {one.less} {list(other)}")
        if one.ratio:
            logs = {seed: math.log(mine[seed] / other[seed]) for seed in mine}
            _put(study, receipt, label, logs, one.unit or "×", back=math.exp)
        else:
            _put(study, receipt, label, {s: mine[s] - other[s] for s in mine}, one.unit or unit, scale)
    if study.extra:
        study.extra(receipt, found)


def _values(runs: dict, part: str, metric: str) -> dict[int, float]:
    return {seed: scores[part][metric] for seed, scores in runs.items()}


def _put(study: Study, receipt, label: str, values: dict, unit: str, scale: float = 1.0, back: Callable = float):
    """Record a mean with its interval; nothing where a seed has no number, since there nothing was answered."""
    label = label.replace(" ", "_").replace("-", "_")
    if label in receipt.metrics:
        raise StudyError(f"{label} is recorded twice: the key {study.key!r} does not tell arms, tests or metrics apart")
    if all(map(math.isfinite, values.values())):
        ends = study.interval([scale * value for value in values.values()])
        mean, low, high = (end if end is None else back(end) for end in ends)
        note = f"mean over {study.over}" + ", 95 % interval" * (low is not None)
        receipt.record(label, mean, unit, low, high, len(values), note, interval=low if low is None else "95 %")


class Seen(NamedTuple):
    """What `hold` saw of one arm and seed: its job, what it made of it, and the data that judged that, by part."""

    job: Job
    made: Any
    tests: Mapping[str, Any]


def hold(study: Study, parts: Callable | None = None) -> dict[tuple[str, int], Seen]:
    """{(arm, seed): Seen}: the study as declared, at its trial sizes, with stand-ins for starts (the word), training
    (made is ("made", arm, seed)) and judging; `parts(seed, sizes)` may stand in for the study's own."""
    seen: dict[tuple[str, int], Seen] = {}

    def fit(job: Job):
        seen[job.name, job.seed] = Seen(job, ("made", job.name, job.seed), {})
        return seen[job.name, job.seed].made

    def judge(made, data, job: Job) -> dict:
        known = seen.get((job.name, job.seed)) or Seen(job, made, {})
        seen[job.name, job.seed] = known._replace(tests={**known.tests, job.test: data})
        return {}

    own = {"fit": fit, "judge": judge, "begin": lambda word, job: word, "parts": parts or study.parts}
    run(replace(study.small(), **own), hand=lambda data: data)
    return seen
