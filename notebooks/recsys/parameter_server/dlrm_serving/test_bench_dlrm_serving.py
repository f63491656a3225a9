"""What is asked of the real server: each way's own milliseconds, hits of what is timed."""

import collections
import sys
from types import SimpleNamespace

import pytest

from . import bench_serving

FACTORS = {"hierarchy": 1.0, "all_on_cpu": 4.0, "tables_on_cpu": 2.0}


@pytest.fixture
def told(monkeypatch):
    """(columns, the hierarchy's last milliseconds): request k of 100 takes k ms times a way's
    factor, one more 1,001. Of ten keys nine hit; in the five before the clock, none."""
    asked, counts = collections.Counter(), collections.Counter(keys=0, hits=0)

    def ask(client, line, world, truth, rng, name, many):
        asked[name, many] += 1
        k = asked[name, many]
        if name == "hierarchy":
            k -= 5
            counts.update(keys=10, hits=9 * (k > 0))
        return FACTORS[name] * (k if k < 101 else 1001)

    line = SimpleNamespace(close=lambda: None)
    http = SimpleNamespace(InferenceServerClient=lambda address: line)
    monkeypatch.setitem(sys.modules, "tritonclient", SimpleNamespace(http=http))
    monkeypatch.setitem(sys.modules, "tritonclient.http", http)
    monkeypatch.setattr(bench_serving, "_ask", ask)
    full = SimpleNamespace(capacity=100, dump=lambda: range(100))
    table = SimpleNamespace(counts=counts, cache=full)
    return bench_serving.measured("here", None, table, None, 101)


def test_the_hierarchy_s_latency_is_its_median_and_99th_percentile(told):
    columns, own = told
    assert columns["batch"] == list(bench_serving.BATCHES) and own == [*range(1, 101), 1001]
    assert set(columns["latency_ms"]) == {51} and set(columns["p99_ms"]) == {100}


def test_each_other_way_has_its_own_milliseconds(told):
    assert set(told[0]["cpu_ms"]) == {4 * 51} and set(told[0]["tables_ms"]) == {2 * 51}


def test_requests_before_the_clock_are_not_in_the_hit_rate(told):
    assert told[0]["hit_rate"] == pytest.approx([0.9] * len(bench_serving.BATCHES))
