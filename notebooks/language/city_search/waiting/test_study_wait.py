"""Each arm of the study meets the same people with its own machine."""

from dataclasses import replace

import numpy as np
import pytest
from press.study import hold

from . import callbacks
from . import study_wait as study
from .callbacks import Machine

ARMS = {
    "clerks": (0.0, 0.0),
    "few": (0.15, 0.0),
    "some": (0.3, 0.0),
    "most": (0.6, 0.0),
    "some_wrong": (0.3, 0.3),
    "all_wrong": (0.3, 1.0),
}


def test_arms_are_handed_the_same_people_and_their_own_machine():
    seen = hold(study.STUDY)
    assert {name for name, _ in seen} == set(ARMS)
    for (name, seed), one in seen.items():
        people = study.parts(seed, study.STUDY.trial)["day"].data
        handed = one.tests["day"]
        assert np.array_equal(handed.at, people.at) and np.array_equal(handed.luck, people.luck)
        assert handed.seed == seed and one.job.train is None and one.job.choice is None
        assert study.begin(one.job.arm.start, one.job) == Machine(*ARMS[name])
    assert list(study.STUDY.seeds) == list(range(20)) and study.STUDY.sizes == {"hour": 60.0}
    assert study.RATES == (1.0, 1.5, 2.0, 3.0, 4.0, 3.0, 2.0, 2.0, 1.5, 1.0)
    wanted = study.Counter(clerks=10, call=5.0, patience=10.0, again=0.7, later=20.0)
    assert wanted == study.COUNTER


@pytest.mark.parametrize("seed", [0, 7])
def test_a_day_s_people_come_at_the_declared_rates_and_are_judged_at_the_declared_counter(seed):
    rates = [1.0, 1.5, 2.0, 3.0, 4.0, 3.0, 2.0, 2.0, 1.5, 1.0]
    counter = callbacks.Counter(clerks=10, call=5.0, patience=10.0, again=0.7, later=20.0)
    people, wanted = (
        study.parts(seed, {"hour": 20.0})["day"].data,
        callbacks.asked(rates, 20.0, seed),
    )
    assert np.array_equal(people.at, wanted.at) and np.array_equal(people.luck, wanted.luck)
    assert people.seed == seed
    for machine in ARMS.values():
        found = study.judge(Machine(*machine), people, None)
        assert found == callbacks.day(wanted, counter, Machine(*machine))._asdict()


def test_what_is_recorded_has_its_unit_and_points_the_right_way():
    units = {name: (one.unit, one.scale) for name, one in study.STUDY.metrics.items()}
    assert units == {
        "wait": ("min", 1),
        "wait_a_call": ("min", 1),
        "lost": ("%", 100),
        "calls": ("calls a person", 1),
    }


def judged(name, seed=0, hour=20.0):
    people = study.parts(seed, {"hour": hour})["day"].data
    return study.judge(Machine(*ARMS[name]), people, None)


def test_more_right_answers_leave_less_to_wait_and_wrong_ones_take_some_back():
    waits = {name: judged(name)["wait_a_call"] for name in ARMS}
    assert waits["clerks"] > waits["few"] > waits["some"] > waits["most"]
    assert waits["some"] < waits["some_wrong"] < waits["all_wrong"]


def test_who_is_always_told_wrong_calls_as_often_as_without_a_machine():
    people = study.parts(1, {"hour": 20.0})["day"].data
    gone = [study.day(people, replace(study.COUNTER, again=0), Machine(*ARMS[n])) for n in ARMS]
    calls = dict(zip(ARMS, (one.calls for one in gone), strict=True))
    assert calls["clerks"] == calls["all_wrong"] == 1 and calls["some"] < 0.8


def test_days_share_no_one():
    one, other = (set(study.parts(seed, study.STUDY.trial)["day"].units) for seed in (0, 1))
    assert one and not one & other


def test_the_ratios_point_at_the_clerks_alone():
    for label, one in study.STUDY.outcomes.items():
        wanted = "some" if label == "study_wrong_over_right" else "clerks"
        metric = "calls" if label == "study_calls_over_clerks" else "wait_a_call"
        assert (one.less, one.metric, one.ratio) == (wanted, metric, True)
        assert one.arm == label.removeprefix("study_").removesuffix("_over_clerks") or (
            label in ("study_wrong_over_right", "study_calls_over_clerks")
            and one.arm == "some_wrong"
        )


def test_an_outcome_that_differs_in_more_is_refused():
    arms = {**study.ARMS, "some_wrong": study.arm(0.4, 0.3)}
    with pytest.raises(ValueError, match=r"setting\.answered"):
        hold(replace(study.STUDY, arms=arms))
