"""What is asked of the real server: each way's own milliseconds, hits of what is timed."""

import collections
import contextlib
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import check

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


def test_the_cache_is_full_before_the_clock_starts(monkeypatch):
    """Else the first batches pay for a cold cache: each request fills a tenth of it."""
    held, asked, counts = [], [], collections.Counter()

    def ask(client, line, world, truth, rng, name, many):
        held.append(name)
        asked.append(many)
        counts.update(keys=1)
        return 1.0

    http = SimpleNamespace(InferenceServerClient=lambda address: SimpleNamespace(close=list))
    monkeypatch.setitem(sys.modules, "tritonclient", SimpleNamespace(http=http))
    monkeypatch.setitem(sys.modules, "tritonclient.http", http)
    monkeypatch.setattr(bench_serving, "_ask", ask)
    monkeypatch.setattr(bench_serving, "BATCHES", (1, 1024))
    table = SimpleNamespace(counts=counts, cache=SimpleNamespace(capacity=10, dump=held.copy))
    bench_serving.measured("here", None, table, None, 1)
    assert asked == [1024] * 10 + [1] * (5 + 3) + [1024] * (5 + 3)


@pytest.fixture
def line(monkeypatch):
    """A server that answers in 2 ms what it is told to, and a clock that drawing samples and
    computing what is true move, too.
    """
    clock, asked = [0.0], []

    class Input:
        def __init__(self, name, shape, kind):
            self.name, self.kind = name, kind

        def set_data_from_numpy(self, values):
            self.values = values

    def infer(name, inputs):
        clock[0] += 0.002
        asked.append((name, {one.name: one.values for one in inputs}))
        return SimpleNamespace(as_numpy=lambda which: made.answer(inputs)[:, None])

    def truth(numbers, keys):
        clock[0] += 7
        return keys[:, 0] / 100

    def draw(many, rng):
        clock[0] += 5
        keys = torch.from_numpy(rng.integers(0, 100, (many, 2)))
        return torch.zeros(many, 3), keys, None

    monkeypatch.setattr(bench_serving.time, "perf_counter", lambda: clock[0])
    made = SimpleNamespace(asked=asked, rng=np.random.default_rng(5))
    made.answer = lambda inputs: (inputs[1].values[:, 0] / 100).astype(np.float32)
    client, world = SimpleNamespace(InferInput=Input), SimpleNamespace(draw=draw)
    server = SimpleNamespace(infer=infer)
    made.ask = lambda name, many: bench_serving._ask(
        client, server, world, truth, made.rng, name, many
    )
    return made


def test_the_clock_runs_while_the_server_answers_and_each_request_is_new(line):
    assert line.ask("tables_on_cpu", 4) == pytest.approx(2)
    line.ask("hierarchy", 4)
    assert [name for name, _ in line.asked] == ["tables_on_cpu", "hierarchy"]
    first, second = (values["keys"] for _, values in line.asked)
    assert first.shape == (4, 2) and (first != second).any()


def test_a_wrong_answer_stops_the_race(line):
    right = line.answer
    line.answer = lambda inputs: right(inputs) + np.float32([0, 0, 0, 1e-3])
    with pytest.raises(check.Failed):
        line.ask("hierarchy", 4)


@pytest.fixture
def bound(monkeypatch, tmp_path):
    """(models that the server has, its table, what is held to be true, what was asked of the
    law), of a race of 2,000 categories.
    """
    made = SimpleNamespace()

    @contextlib.contextmanager
    def triton_of(models, world):
        made.models, made.world = models, world
        yield "here"

    def measured(address, world, table, truth, rounds):
        made.table, made.truth, made.rounds = table, truth, rounds
        made.waits, made.rows = table.threshold, table.cache.capacity
        made.served = table.lookup(torch.arange(64)).clone()
        return {"batch": [1]}, [*range(1, 10)]

    def exponent_for(*asked):
        made.law = asked
        return 1.3

    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    old = SimpleNamespace(__version__="1.26.4", arange=np.arange)
    monkeypatch.setattr(bench_serving, "np", old)
    monkeypatch.setattr(bench_serving, "find_spec", lambda name: True)
    monkeypatch.setattr(bench_serving.torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(bench_serving, "triton_of", triton_of)
    monkeypatch.setattr(bench_serving, "measured", measured)
    monkeypatch.setattr(bench_serving, "exponent_for", exponent_for)
    monkeypatch.setattr(bench_serving, "hierarchy", lambda model, table: ("tiers", table))
    monkeypatch.setattr(bench_serving, "all_on_cpu", lambda model, weight: ("cpu", weight))
    monkeypatch.setattr(
        bench_serving, "tables_on_cpu", lambda model, weight, device: ("tables", device)
    )
    bench_serving.main(["--categories", "2000", "--rounds", "9"])
    (written,) = tmp_path.iterdir()
    made.told = json.loads(written.read_text())["metrics"]
    return made


def test_each_way_is_bound_under_its_name_with_two_instances(bound):
    cpu = bench_serving.device.tier().device
    assert {name: len(own) for name, own in bound.models.items()} == dict.fromkeys(FACTORS, 2)
    assert set(bound.models["hierarchy"]) == {("tiers", bound.table)}, "they share one cache"
    assert set(bound.models["tables_on_cpu"]) == {("tables", cpu)}
    assert {kind for kind, _ in bound.models["all_on_cpu"]} == {"cpu"}
    assert bound.truth[0] == "cpu" and bound.rounds == 9


def test_a_tenth_of_the_rows_is_cached_and_every_request_waits(bound):
    assert 1 <= bound.rows / (bound.world.rows / 10) < 1.05 and bound.waits == 1
    assert bound.law == (2000, 3, 0.959)  # the article's hot categories, of 188,000 are 305


def test_the_tiers_hold_the_model_s_own_vectors(bound):
    assert torch.equal(bound.served, bound.truth[1][:64]) and bound.served.any()


def test_the_receipt_s_latency_is_the_median_of_all_requests_of_the_last_batch(bound):
    latency = bound.told["triton_latency"]
    assert (latency["value"], latency["repeats"], latency["unit"]) == (5, 9, "ms")
