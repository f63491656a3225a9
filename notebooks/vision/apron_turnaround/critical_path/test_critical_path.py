"""The longest chain against all chains, slack and causes against trying, and predictions."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from . import (
    ALERT,
    EVENTS,
    FOLLOWS,
    LATE,
    MOMENTS,
    TASKS,
    Draws,
    Interval,
    Seen,
    calibrate,
    causes,
    draw,
    interval,
    kind_of,
    late,
    longest,
    slack,
    spans,
)
from .resources import table

KINDS = frozenset(map(kind_of, EVENTS))


def longest_reference(durations, follows):
    def chain(task):
        return durations[task] + max(map(chain, follows.get(task, ())), default=0)

    return max(map(chain, durations), default=0)


@st.composite
def projects(draw):
    many = draw(st.integers(1, 7))
    durations = {str(at): draw(st.integers(0, 9)) for at in range(many)}
    follows = {
        str(at): [str(b) for b in range(at) if draw(st.booleans())] for at in range(many)
    }
    return durations, follows


@given(projects())
def test_the_longest_chain_is_the_longest_of_all_and_a_chain(project):
    durations, follows = project
    length, path = longest(*project)
    assert length == longest_reference(*project) == sum(durations[task] for task in path)
    assert all(one in follows[task] for one, task in itertools.pairwise(path))


@given(projects())
def test_slack_is_what_a_task_may_take_longer(project):
    durations, follows = project
    length, path = longest(*project)
    for task, more in slack(*project).items():
        assert longest({**durations, task: durations[task] + more}, follows)[0] == length
        beyond = {**durations, task: durations[task] + more + 1}
        assert longest(beyond, follows)[0] == length + 1
    assert all(slack(*project)[task] == 0 for task in path)


def test_known_answers():
    assert longest({}, {}) == (0.0, [])
    assert longest({"a": 3}, {}) == (3.0, ["a"])
    assert longest({"a": 3, "b": 4}, {}) == (4.0, ["b"])
    diamond = {"b": ["a"], "c": ["a"], "d": ("b", "c")}
    assert longest({"a": 1, "b": 2, "c": 5, "d": 1}, diamond) == (7.0, ["a", "c", "d"])
    assert longest({"a": 0, "b": 0}, {"b": ["a"]})[0] == 0


@pytest.mark.parametrize(
    ("durations", "follows", "words"),
    [
        ({"a": 1}, {"a": ["b"]}, "no duration for"),
        ({"a": 1}, {"c": []}, "no duration for"),
        ({"a": 1, "b": 1}, {"a": ["b"], "b": ["a"]}, "circle"),
        ({"a": 1}, {"a": ["a"]}, "circle"),
        ({"a": -1}, {}, "not finite numbers from 0"),
        ({"a": float("nan")}, {}, "not finite"),
        ({"a": float("inf")}, {}, "not finite"),
    ],
)
def test_what_is_no_plan_is_refused(durations, follows, words):
    with pytest.raises(ValueError, match=words):
        longest(durations, follows)


def test_a_chain_may_be_given_by_any_iterable_once():
    follows = {"c": (one for one in ("a", "b"))}
    assert longest({"a": 1, "b": 2, "c": 3}, follows) == (5.0, ["b", "c"])
    free = slack({"a": 1, "b": 2, "c": 3}, {"c": iter(["a", "b"])})
    assert free == {"a": 1.0, "b": 0.0, "c": 0.0}
    plan, late_ = {"a": 1, "b": 2, "c": 3}, {"a": 9, "b": 2, "c": 3}
    assert causes(plan, late_, {"c": iter(["a", "b"])})[0] == ("a", 7)


def test_a_long_chain_is_no_deep_recursion():
    many = 20_000
    follows = {at: [at - 1] for at in range(1, many)}
    assert longest(dict.fromkeys(range(many), 1), follows)[0] == many


def test_two_late_chains_hide_one_another():
    follows = {"end": ["fuel", "clean"]}
    plan = {"fuel": 10, "clean": 10, "end": 1}
    alone = causes(plan, {**plan, "fuel": 16}, follows)
    assert alone[0] == ("fuel", 6) and alone[1].minutes == 0
    assert causes(plan, {**plan, "fuel": 16, "clean": 14}, follows)[0] == ("fuel", 2)
    assert causes(plan, {**plan, "fuel": 4}, follows)[0].minutes == 0  # early is no cause


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(5)
    return [draw(rng) for _ in range(60)]


def test_a_turnaround_waits_for_what_it_must(drawn):
    for one in drawn:
        for task, waits in FOLLOWS.items():
            start, end = one.spans[task]
            assert end > start >= max((one.spans[w][1] for w in waits), default=0)
        assert one.spans["chocks off"][0] >= one.tsat and tuple(one.events) == EVENTS
        waited = one.spans["chocks off"][0] - one.spans["tug"][1]
        free = one.off_block - waited
        assert free == pytest.approx(longest(one.durations, FOLLOWS)[0])


def test_without_a_hit_nothing_is_struck_and_slower_is_slower():
    plain = [draw(np.random.default_rng(s), hit=0) for s in range(20)]
    slow = [draw(np.random.default_rng(s), hit=0, slower=1.5) for s in range(20)]
    assert {one.hit for one in plain} == {""}
    for one, other in zip(plain, slow, strict=True):
        assert other.durations["fuel"] == pytest.approx(1.5 * one.durations["fuel"])


def test_a_hit_is_as_long_as_it_says_and_hits_one_task():
    more, times = [], []
    for seed in range(150):
        plain, hit = (draw(np.random.default_rng(seed), hit=h) for h in (0, 1))
        for task, minutes in hit.durations.items():
            if task != hit.hit:
                assert minutes == pytest.approx(plain.durations[task])
            elif task.startswith("await"):
                more.append(minutes - plain.durations[task])
            else:
                times.append(minutes / plain.durations[task])
    assert 5 <= min(more) < 6.5 and 13.5 < max(more) <= 15
    assert 1.4 <= min(times) < 1.5 and 2.1 < max(times) <= 2.2


def told(one, now):
    return {name: minute for name, minute in one.events.items() if minute <= now}


def test_events_tell_the_spans_that_they_bound(drawn):
    for one in drawn[:10]:
        found = spans(one.events, one.tsat)
        unsplit = {"stairs off", "await tug", "tug"}
        assert set(found) == set(TASKS)
        alone = [task for task in TASKS if task not in unsplit]
        assert [found[t] for t in alone] == pytest.approx([one.durations[t] for t in alone])
        assert longest({**one.durations, **found}, FOLLOWS)[0] == pytest.approx(
            longest(one.durations, FOLLOWS)[0], abs=0.7
        )
    assert "fuel" not in spans({"fuel start": 3.0})


@pytest.fixture(scope="module")
def draws(drawn):
    return Draws(drawn[:40])


def test_what_is_known_narrows_and_what_is_over_is_certain(draws, drawn):
    one = drawn[50]
    wide = [np.ptp(draws.left(Seen(now, told(one, now), KINDS), 0)) for now in MOMENTS]
    assert wide[-1] < wide[0]
    gone = draws.left(Seen(99, one.events, KINDS), one.tsat)
    assert np.all(gone == one.off_block)


def test_no_draw_is_in_the_past_or_before_the_approved_time(draws):
    assert draws.left(Seen(200, {}, KINDS), 0).min() >= 200
    assert draws.left(Seen(0, {}, KINDS), 90).min() > 90


def test_a_watched_task_that_lasts_lasts_longer(draws):
    known = {"deboarding end": 9.0, "fuel start": 11.0}
    seen, blind = (
        np.median(draws.left(Seen(40, known, kinds), 0)) for kinds in (KINDS, frozenset())
    )
    assert seen > blind + 5


def test_what_is_looked_for_and_not_seen_has_not_begun(draws):
    known = {"deboarding end": 9.0, "restocking end": 20.0, "catering end": 20.0}
    seen, blind = (
        draws.left(Seen(34, known, frozenset(kinds)), 0) for kinds in ({"people"}, ())
    )
    rest = sum(0.6 * TASKS[task][0] for task in ("board", "stairs off", "tug", "chocks off"))
    assert seen.min() > 34 + rest > blind.min()


def test_an_interval_holds_the_middle_share():
    low = interval(np.linspace(0, 100, 101))
    assert (low.low, low.median, low.high) == pytest.approx((5, 50, 95))
    assert interval(np.linspace(0, 100, 101), 2).high == pytest.approx(97)


def test_an_alert_is_about_more_than_five_minutes():
    assert late(np.array([45.0, 45.1, 50, 60]), 40.0) == 0.75
    assert (LATE, ALERT) == (5.0, 0.5)


def test_an_interval_is_widened_until_it_holds():
    flat = [interval(np.linspace(0, 10, 101))] * 99
    truths = np.linspace(-5, 15, 99)
    margin = calibrate(flat, truths)
    held = np.mean(
        [
            one.low - margin <= t <= one.high + margin
            for one, t in zip(flat, truths, strict=True)
        ]
    )
    assert 0.9 <= held <= 0.93 and margin > 0
    assert calibrate([Interval(0, -9, 9)] * 99, np.zeros(99)) == -9  # too wide is narrowed


def test_too_few_promise_nothing():
    assert calibrate([Interval(0, 0, 0)] * 8, [0] * 8) == float("inf")
    assert calibrate([Interval(0, 0, 0)] * 9, [0] * 9) == 0


def test_resources_over_stands():
    stands = {
        "1": [("fuel start", 0), ("fuel end", 10), ("bags start", 5)],
        "2": [("fuel start", 10), ("fuel end", 12)],
        "3": [("fuel end", 1), ("fuel start", 9), ("fuel end", 11)],
    }
    found = {one.kind: one for one in table(stands)}
    assert found["fuel truck"] == ("fuel truck", 3, 14, 2, 0)
    assert found["belt loader"] == ("belt loader", 0, 0, 0, 1)
    assert table({}) == []
    left = [("tug start", 40), ("off block", 44), ("tug end", 50)]  # the tug leaves with it
    assert table({"1": left}) == [("tug", 1, 4, 1, 0)]
