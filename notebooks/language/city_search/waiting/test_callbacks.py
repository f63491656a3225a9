"""Days at the counter: the formulas where these hold, and what they leave out."""

from dataclasses import replace

import numpy as np
import pytest

import waiting

from . import callbacks
from .callbacks import Counter, Machine, _calls, asked, day

STEADY = Counter(clerks=6, call=4.0, patience=10.0)


def mean_of(machine, counter=STEADY, rate=1.5, seeds=6):
    runs = [day(asked([rate] * 30, 60, seed), counter, machine) for seed in range(seeds)]
    return {name: np.array([getattr(one, name) for one in runs]) for name in runs[0]._fields}


def close(found, wanted):
    error = found.std(ddof=1) / len(found) ** 0.5
    return abs(found.mean() - wanted) < 5 * error + 0.02 * wanted


def test_a_steady_day_is_the_formula():
    found, formula = mean_of(None), waiting.erlang_a(6, 6.0, 2.5)
    assert close(found["wait_a_call"], 4 * formula.wait)
    assert close(found["lost"], formula.leaves) and np.all(found["calls"] == 1)


def test_wrong_answers_that_call_later_are_still_the_formula_s_stream():
    found = mean_of(Machine(answered=0.5, wrong=0.4, after=15.0))
    formula = waiting.erlang_a(6, waiting.after_answers(6.0, 0.5, 0.4), 2.5)
    assert close(found["wait_a_call"], 4 * formula.wait)
    assert close(found["calls"], 1 - 0.5 * 0.6)


def test_whoever_calls_again_makes_the_line_longer_and_is_lost_less():
    once, again = mean_of(None), mean_of(None, Counter(6, 4.0, 10.0, again=0.9))
    assert np.all(again["wait"] > once["wait"]) and np.all(again["lost"] < once["lost"])
    assert np.all(again["calls"] > 1)


def test_a_machine_that_answers_all_rightly_leaves_no_call_and_one_all_wrong_saves_none():
    people = asked([2.0], 60, 3)
    assert day(people, STEADY, Machine(1.0)) == (0, 0, 0, 0)
    late = day(people, STEADY, Machine(1.0, 1.0, after=1e-9))
    assert late.calls == 1 and late.wait == pytest.approx(day(people, STEADY).wait, rel=1e-6)


def test_people_are_the_same_in_every_arm_and_others_on_another_day():
    one, same, other = asked([1.0], 60, 0), asked([1.0], 60, 0), asked([1.0], 60, 1)
    assert np.array_equal(one.at, same.at) and len(one.at) != len(other.at)
    assert day(one, STEADY) == day(same, STEADY)
    fewer = day(one, STEADY, Machine(0.3)).calls
    assert day(one, STEADY, Machine(0.6)).calls < fewer  # whom 0.3 answers, 0.6 does, too


def test_hours_have_the_rates_that_are_given():
    people = asked([0.0, 5.0, 1.0], 600, 0)
    many = np.histogram(people.at, [0, 600, 1200, 1800])[0]
    assert many[0] == 0 and many[1:] == pytest.approx([3000, 600], rel=0.15)


def test_who_is_told_wrong_calls_later_by_the_mean_that_is_given():
    people = asked([20.0], 600, 0)
    calls = sorted((who, at) for at, who, _ in _calls(people, Machine(1.0, 1.0, after=45.0)))
    later = np.array([at for _, at in calls]) - people.at
    assert later.min() > 0 and later.mean() == pytest.approx(45, rel=0.03)
    shares = [len(_calls(people, Machine(0.5, wrong))) / len(people.at) for wrong in (0, 0.4)]
    assert shares == pytest.approx([0.5, 0.7], abs=0.02)


def test_who_hangs_up_calls_again_after_the_pause_and_not_before(monkeypatch):
    # the clerk is busy until 10; the second asks at 1, bears 2, pauses for 6: at 9 waits 1
    monkeypatch.setattr(callbacks, "_draws", lambda seed, who, time: (1.0, 1.0, 0.0, 1.0))
    people = callbacks.Asked(np.array([0.0, 1.0]), np.ones((2, 2)), 0)
    found = day(people, Counter(1, call=10.0, patience=2.0, again=0.5, later=6.0))
    assert found == callbacks.Day(wait=1.5, wait_a_call=1.0, lost=0.0, calls=1.5)


def test_nobody_is_lost_who_always_calls_again_and_who_waits_longer_to_do_so_waits_less():
    people, busy = asked([3.0], 120, 2), Counter(6, 4.0, 10.0, again=1.0, later=2.0)
    soon, late = day(people, busy), day(people, replace(busy, later=400.0))
    assert soon.lost == late.lost == 0 and soon.calls > 1
    assert late.wait < soon.wait
