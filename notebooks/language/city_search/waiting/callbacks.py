"""A day at the counter: calls that come and go with the hours, people who hang up and call
again, and a machine whose wrong answers call after all.

The formulas of `waiting` know one load that never changes and callers who never come back; here
both are let go. Times are in minutes. The clerks stay until the last call is over.
"""

import heapq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Machine:
    """What a machine does with a question: the share that it answers, of which the share
    `wrong` calls after all, `after` minutes later in the mean.
    """

    answered: float = 0.0
    wrong: float = 0.0
    after: float = 30.0


@dataclass(frozen=True)
class Counter:
    """The clerks: how many, how long a call lasts, how long a caller bears to wait, and the
    share of those who hang up that calls again, `later` minutes later in the mean.
    """

    clerks: int
    call: float
    patience: float
    again: float = 0.0
    later: float = 20.0


class Asked(NamedTuple):
    """A day's people in the order in which they ask: when, and what they would do."""

    at: np.ndarray
    luck: np.ndarray  # (N, 2) uniform: whether the machine answers, whether it is wrong
    seed: int


class Day(NamedTuple):
    """Of all people who asked: the mean wait in line, over all their calls and over all calls,
    the share that nobody answered rightly, and calls a person.
    """

    wait: float
    wait_a_call: float
    lost: float
    calls: float


def asked(rates: list[float], hour: float, seed: int) -> Asked:
    """The people of a day: `rates[k]` a minute in its k-th stretch of `hour` minutes."""
    random = np.random.default_rng(seed)
    many = random.poisson(np.array(rates) * hour)
    at = np.repeat(np.arange(len(rates)) * hour, many) + random.uniform(0, hour, many.sum())
    return Asked(np.sort(at), random.uniform(size=(len(at), 2)), seed)


def day(people: Asked, counter: Counter, machine: Machine | None = None) -> Day:
    """What the people of a day meet; each bears, lasts and draws the same whatever the machine
    does. Who is told wrong takes it for an answer and calls later; who hangs up may call again.
    """
    machine = machine or Machine()
    todo = _calls(people, machine)
    waited, lost = np.zeros(len(people.at)), np.zeros(len(people.at), bool)
    free, calls = [0.0] * counter.clerks, 0
    while todo:
        at, who, time = heapq.heappop(todo)
        patience, length, stays, pause = _draws(people.seed, who, time)
        begins = max(at, free[0])
        bears = patience * counter.patience
        waited[who] += min(begins - at, bears)
        calls += 1
        if begins - at <= bears:
            heapq.heapreplace(free, begins + length * counter.call)
        elif stays < counter.again:
            heapq.heappush(todo, (at + bears + pause * counter.later, who, time + 1))
        else:
            lost[who] = True
    return Day(
        float(waited.mean()),
        float(waited.sum() / max(calls, 1)),
        float(lost.mean()),
        calls / len(waited),
    )


def _calls(people, machine):
    """[(time, person, 0)]: who calls, in a heap; those whom the machine told wrong, later."""
    random = np.random.default_rng([people.seed, 1])
    pause = random.exponential(1, len(people.at)) * machine.after
    told = people.luck[:, 0] < machine.answered
    wrong = told & (people.luck[:, 1] < machine.wrong)
    at = np.where(wrong, people.at + pause, people.at)
    found = [(float(at[who]), int(who), 0) for who in np.flatnonzero(~told | wrong)]
    heapq.heapify(found)
    return found


def _draws(seed, who, time):
    """(patience, length, luck, pause) of a person's call, in means; the same in every arm."""
    random = np.random.default_rng([seed, 2, who, time])
    patience, length, pause = random.exponential(1, 3)
    return patience, length, random.uniform(), pause
