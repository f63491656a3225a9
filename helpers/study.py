"""Studies: arms compared over seeds, declared; what is run, recorded and tested comes from the declaration alone.

An arm is handed what it declares and nothing else; CONTRIBUTING.md names an example and says how a study is recorded.
"""

import functools
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from helpers._records import named


class StudyError(ValueError):
    """What a study declares contradicts itself, or the data that it was given."""


Part = namedtuple("Part", "data units")  # units: what it is of (speakers, users …), each in one part only
Metric = namedtuple("Metric", "unit scale", defaults=(1.0,))  # in which a score is recorded, and times what
# `metric` of `arm` less (with `ratio`: over) that of `less`, paired by seed; they differ in `differs` alone, in words
# of `differences` ("loss.epochs"). `part`: of several tests, which; `unit`: if not the metric's.
Outcome = namedtuple("Outcome", "metric arm less differs part ratio unit", defaults=(None, False, None))
# What one arm of one seed is handed (`test`: the part that judges it now).
Job = namedtuple("Job", "name arm seed sizes start train choice test", defaults=(None,) * 4)


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A contestant: the parts that it learns from, chooses on and is judged on, and what it begins with: `start`, an
    arm whose end (a copy, of the same seed) it goes on from, a word that `begin` knows, or a tuple. `loss`: of `fit`.
    `setting`: what else it is named for. `seeds`: the first so many. `shares`: why judged on what it learned from.
    """

    train: str | None = None
    choice: str | None = None
    test: tuple[str, ...] = ("test",)
    start: str | tuple[str, ...] = "new"
    loss: Any = None
    setting: Mapping = field(default_factory=dict)
    seeds: int | None = None
    shares: str = ""

    @property
    def starts(self):
        """The names that it begins with, as a tuple."""
        return (self.start,) if isinstance(self.start, str) else self.start


def student(values):
    """(mean, low, high): a mean and its 95 % interval by Student's t; no ends (None) for fewer than two values."""
    if len(values) < 2:
        return values[0], None, None
    from scipy import stats

    mean, half = sum(values) / len(values), stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return float(mean), float(mean - half), float(mean + half)


def differences(one, other):
    """The names in which two arms differ, sorted: ["loss.epochs", "train"]; it looks into mappings and dataclasses."""
    mine, its, none = dict(_flat(one)), dict(_flat(other)), object()
    return sorted(name for name in mine | its if mine.get(name, none) != its.get(name, none))


def _flat(value, name=""):
    if is_dataclass(value):
        value = {each.name: getattr(value, each.name) for each in fields(value)}
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    elif isinstance(value, functools.partial):
        value = {"function": value.func, "given": value.args, **value.keywords}
    if not isinstance(value, Mapping):
        return [(name, value)]
    return [pair for at, each in value.items() for pair in _flat(each, f"{name}.{at}".removeprefix("."))]


@dataclass(frozen=True, kw_only=True)
class Study:
    """Arms × seeds. `over`: what a seed draws ("worlds"); `added`: which seeds were added after a look, and why.
    `parts(seed, sizes)`: {name: Part}. `begin(word, job)`: what a start that is no arm means. `fit(job)`: what an arm
    makes of its start, asked where it learns, chooses or has a loss. `judge(made, data, job)`: {metric: value}.
    `extra(receipt, found)`: records what `key` and `outcomes` have no word for; found is {arm: {seed: {part: {metric:
    value}}}}. `interval`: (mean, low, high) by seed, 95 %. `trial`: sizes for tests. `processes`: 2 if no times count.
    """

    notebook: str
    name: str
    arms: Mapping[str, Arm]
    seeds: Sequence[int]
    metrics: Mapping[str, Metric]
    parts: Callable
    judge: Callable
    fit: Callable | None = None
    begin: Callable = lambda word, job: word
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    sizes: Mapping = field(default_factory=dict)
    trial: Mapping = field(default_factory=dict)
    extra: Callable | None = None
    interval: Callable = student
    key: str = "study_{arm}_{metric}"
    over: str = "seeds"
    added: str = ""
    threads: int = 1
    processes: int = 1

    def small(self, seeds=2):
        """The same at the sizes of `trial`, with the first seeds."""
        return replace(self, sizes={**self.sizes, **self.trial}, seeds=tuple(self.seeds)[:seeds])

    def order(self):
        """The arms' names, each after those that it begins with; StudyError for a circle."""
        done, todo = [], list(self.arms)
        while ready := [name for name in todo if not set(self.arms[name].starts) & set(todo)]:
            done, todo = done + ready, [name for name in todo if name not in ready]
        if todo:
            raise StudyError(f"arms {todo} begin with themselves or one another; allowed: others, words for `begin`")
        return done

    def check(self):
        """None; StudyError for repeated seeds, odd names, arms that declare the same or differ otherwise than said."""
        names, seeds = self.order(), list(self.seeds)
        if len(set(seeds)) < len(seeds):
            raise StudyError(f"seeds {seeds}: some repeat, and a run that is counted twice makes no second sample")
        for at, name in enumerate(names):
            arm = self.arms[name]
            if odd := [one for one in (arm.train, arm.choice, *arm.test) if one is not None and not named(one)]:
                raise StudyError(f"arm {name} names the parts {odd}: allowed are snake_case names")
            if twins := [one for one in names[:at] if not differences(self.arms[one], self.arms[name])]:
                raise StudyError(f"arms {twins[0]} and {name} declare the same: one of them is named for nothing")
        for label, one in self.outcomes.items():
            if missing := {one.arm, one.less} - set(names):
                raise StudyError(f"outcome {label} compares {sorted(missing)}; the arms are {names}")
            found = differences(self.arms[one.arm], self.arms[one.less])
            if found != sorted(one.differs):
                raise StudyError(f"outcome {label}: {one.arm} and {one.less} differ in {found}, not in {one.differs}")

    def learned(self, name):
        """The parts that an arm, or one that it goes on from, learned from or chose on."""
        before = (self.learned(start) for start in self.arms[name].starts if start in self.arms)
        return {self.arms[name].train, self.arms[name].choice}.union(*before) - {None}

    def apart(self, parts):
        """None; StudyError for parts that are missing or without units, or share a unit that they may not share."""
        units = {name: set(part.units) for name, part in parts.items()}
        for name, arm in self.arms.items():
            if bare := sorted(one for one in {*self.learned(name), *arm.test} if not units.get(one)):
                raise StudyError(f"arm {name} asks for {bare}: missing or without units; there are {sorted(parts)}")
            pairs = [(one, test) for one in sorted(self.learned(name)) for test in arm.test if not arm.shares]
            for one, other in pairs + [(arm.train, arm.choice)] * bool(arm.train and arm.choice):
                if both := units[one] & units[other]:
                    what = f"{len(both)} units, such as {min(both, key=str)!r}"
                    raise StudyError(f"arm {name}: the parts {one!r} and {other!r} share {what}; they may share none")
