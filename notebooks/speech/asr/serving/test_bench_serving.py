"""The race of serving: what a stream costs is counted over the speech that was answered."""

import asyncio
import math
from types import SimpleNamespace

import pytest
import torch
from helpers import bench

from . import bench_serving
from .clients import RATE_HZ, Heard


def ran(monkeypatch, signals_s, felt_ms, spent_s=((0.0, 1.0), (2.0, 7.0))):
    """What `rung` finds when the servers spend this time and clients feel these delays."""
    heard = [Heard(responses_ms=list(ms), felt_ms=list(ms), batches=[2]) for ms in felt_ms]

    async def load(address, signals, packet_ms, limit_s):
        return heard

    spent = list(spent_s)
    monkeypatch.setattr(bench_serving, "load", load)
    monkeypatch.setattr(bench_serving, "cpu_seconds", lambda servers: spent.pop(0))
    signals = [torch.zeros(int(seconds * RATE_HZ)) for seconds in signals_s]
    servers = [SimpleNamespace(address="here")]
    return bench_serving.rung(servers, signals)


def test_a_stream_s_cost_is_processor_time_over_speech(monkeypatch):
    found = asyncio.run(ran(monkeypatch, [6, 14], [[100.0, 200.0], [400.0, 100.0]]))
    assert found["front_per_stream"] == pytest.approx(2 / 20)
    assert found["cores_per_stream"] == pytest.approx(6 / 20)
    assert found["in_budget"] == 0.75 and found["streams"] == 2 and found["batch"] == 2


def test_speech_that_was_never_answered_makes_no_stream_cheaper(monkeypatch):
    never = [math.inf] * 4
    found = asyncio.run(ran(monkeypatch, [6, 14], [[100.0, 200.0, 100.0, math.inf], never]))
    assert (
        found["cores_per_stream"] == pytest.approx(6 / (6 * 3 / 4))
        and found["in_budget"] == 3 / 8
    )
    found = asyncio.run(ran(monkeypatch, [6], [never]))
    assert found["cores_per_stream"] == math.inf and found["in_budget"] == 0


def test_a_rung_without_an_answer_has_no_cost_in_the_curve(monkeypatch, capsys):
    costs = {16: 0.5, 128: math.inf}

    async def rung(servers, signals, **options):
        cost, felt = costs[len(signals)], (1.0, 1e9, 1e9)
        found = {"front_per_stream": cost, "cores_per_stream": cost, "felt_ms": felt}
        return found | {"in_budget": 0.5, "heard": []}

    class Server:
        ports = {"port": 1}

        def __init__(self, *words, **options):
            pass

        __enter__ = lambda self: self  # noqa: E731
        __exit__ = lambda self, *error: None  # noqa: E731

    kept = {}
    receipt = SimpleNamespace(
        record=lambda name, value, unit: kept.update({name: value}),
        curve=lambda name, **columns: kept.update({name: columns}),
    )
    monkeypatch.setattr(bench_serving, "rung", rung)
    monkeypatch.setattr(bench_serving, "Server", Server)
    monkeypatch.setattr(bench_serving, "talkers", lambda folder, count, s: ([0] * count, []))
    bench_serving.ladder("batched", receipt, "folder", 3, 128)
    assert kept["batched"]["streams"] == (16,) and kept["batched_streams_in_budget"] == 0
    assert "128 streams: nothing was answered" in capsys.readouterr().out


SECONDS = {"one by one": 12.0, "plain": 6.0, "folded": 4.0, "linear": 3.0, "int8": 2.0}
SECONDS |= {"compiled": 1.0}


@pytest.fixture
def known(monkeypatch):
    """A race of variants that are all the same network, and take the seconds above."""

    def raced(rivals, rounds, reference=None, device=None):
        results = {
            name: bench.Measurement(s, s, s, (s,) * rounds, None, "cpu")
            for name, s in SECONDS.items()
            if name in rivals
        }
        first = reference or next(iter(rivals))
        ratios = {name: bench.ratio(results[first], one) for name, one in results.items()}
        return bench.Race(results, ratios, first)

    made = bench_serving.contestants

    def on_the_cpu(model, batch, names, where):
        return made(model, batch, names)

    monkeypatch.setattr(bench_serving, "contestants", on_the_cpu)
    monkeypatch.setattr(bench_serving, "variant", lambda model, name: model)
    monkeypatch.setattr(bench_serving.bench, "race", raced)
    return lambda part_BFT: (part_BFT,)


@pytest.mark.parametrize(("where", "best", "gain"), [("cpu", "int8", 6), ("cuda", "linear", 4)])
def test_the_gain_is_the_fastest_s_over_one_by_one_and_int8_a_cpu_s(known, where, best, gain):
    found, over, name = bench_serving.race(known, 6, where)
    assert (name, over.median) == (best, gain) and ("int8" in found.results) == (best == "int8")


def test_a_variant_beside_the_others_does_not_count_for_the_gain(known):
    found, over, name = bench_serving.race(known, 6, "cpu", ["compiled"])
    assert found.ratios["compiled"].median == 12 and (name, over.median) == ("int8", 6)


def test_the_gain_and_each_variant_s_own_are_recorded(known, monkeypatch):
    kept = {}
    receipt = SimpleNamespace(record=lambda name, value, **more: kept.update({name: value}))
    monkeypatch.setattr(bench_serving, "load_model", lambda device: known)
    bench_serving.raced(receipt, 6, "cpu")
    wanted = {"optimised_gain": 6, "gain_int8": 6, "gain_plain": 2, "gain_one_by_one": 1}
    assert {name: kept[name].median for name in wanted} == wanted
