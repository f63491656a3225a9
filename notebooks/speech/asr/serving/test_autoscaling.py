"""Autoscaling: traffic with the rate it states, queues that behave, a rule that follows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .autoscaling import Day, Rule, calls_of_a_day, open_streams, queue_time_s, simulate

QUIET = Day(crowd=(0, 0, 0))


def test_calls_follow_the_rate_of_the_hour():
    counts = sum(
        np.histogram(calls_of_a_day(QUIET, seed)[0] / 3600, 24, (0, 24))[0]
        for seed in range(10)
    )
    wanted = [10 * QUIET.rate(np.linspace(h, h + 1, 61)).mean() for h in range(24)]
    assert np.abs(counts - wanted).max() < 5 * np.sqrt(max(wanted)), "five standard deviations"


def test_littles_law_holds():
    day = Day(peaks=(), crowd=(0, 0, 0), base=1000.0, call_s=180.0)
    streams = open_streams(*calls_of_a_day(day))
    assert streams[len(streams) // 4 :].mean() == pytest.approx(1000 / 3600 * 180, rel=0.05)


def test_streams_are_counted_by_plain_search():
    start, length = calls_of_a_day(Day(base=30, peaks=(), crowd=(0, 0, 0)), seed=1)
    streams = open_streams(start, length, tick_s=3600)
    plain = [((start <= t) & (t < start + length)).sum() for t in np.arange(24) * 3600.0]
    assert streams.tolist() == plain


def test_the_wait_matches_a_simulated_queue():
    rng, service, load = np.random.default_rng(0), 0.01, 0.8
    arrivals = np.cumsum(rng.exponential(service / load, 200_000))
    free, waits = 0.0, []
    for at in arrivals:
        waits.append(max(0.0, free - at))
        free = max(at, free) + service
    assert np.mean(waits) == pytest.approx(queue_time_s(load, service), rel=0.1)


def test_a_fixed_replica_under_double_load_falls_behind():
    rule = Rule(fixed=1, deadline_s=60)
    found = simulate(np.full(10, 20), capacity=10, service_s=0.01, rule=rule)
    assert (np.diff(found["queue_s"]) > 4.9).all() and (found["replicas"] == 1).all()
    capped = simulate(np.full(10, 20), 10, 0.01, Rule(fixed=1, deadline_s=2))
    assert capped["queue_s"].max() == 2, "what waits longer is dropped"


def test_the_rule_starts_late_and_ends_the_queue():
    streams = np.r_[np.full(100, 2), np.full(400, 60)]
    found = simulate(streams, 10, 0.01, Rule(starts_s=30))
    rise = np.flatnonzero(found["replicas"] > found["replicas"][99])[0]
    assert rise == 100 + 6, "30 s of start are six ticks"
    assert found["queue_s"][-1] < 0.06 and found["replicas"][-1] > 6


def test_the_rule_waits_for_calm_and_shrinks_by_one():
    streams = np.r_[np.full(200, 60), np.full(300, 2)]
    found = simulate(streams, 10, 0.01, Rule(calm_s=60))
    shrinks = np.flatnonzero(np.diff(found["replicas"]) < 0)
    assert found["replicas"][-1] == 1 and (np.diff(found["replicas"])[shrinks] == -1).all()
    assert np.diff(shrinks).min() >= 12, "a minute of calm before each step"


@given(st.lists(st.integers(0, 500), min_size=1, max_size=60), st.integers(1, 5))
@settings(deadline=None, max_examples=40)
def test_replicas_stay_within_their_bounds(streams, least):
    found = simulate(np.array(streams), 10, 0.01, Rule(least=least, most=7))
    assert found["replicas"].min() >= least and found["replicas"].max() <= 7
    assert np.isfinite(found["queue_s"]).all() and (found["queue_s"] >= 0).all()


@pytest.mark.parametrize("capacity, service", [(0, 1), (1, 0)])
def test_capacity_and_service_must_be_positive(capacity, service):
    with pytest.raises(ValueError, match="positive"):
        simulate(np.zeros(3), capacity, service)
