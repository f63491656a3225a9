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


class Asleep:
    """A server that need not start."""

    told = []  # the options of each

    def __init__(self, *words, **options):
        self.told.append(options)
        self.options, self.ports = options, {"port": 7}

    __enter__ = lambda self: self  # noqa: E731
    __exit__ = lambda self, *error: None  # noqa: E731


@pytest.fixture
def crowded(monkeypatch):
    """(kept, order) of `crowds` for rungs of known delays, costs and shares in budget."""
    kept, order, told = {}, [], []

    async def rung(servers, signals, packet_ms, limit_s):
        count, options = len(signals), servers[0].options
        one_by_one = "max_batch" in options
        kind = "unbatched" if one_by_one else "two_fronts" if len(servers) > 1 else "batched"
        turn = order.count((kind, count))
        order.append((kind, count))
        late = count > (16 if one_by_one else 64) or (kind, count, turn) == ("batched", 32, 1)
        share = {"batched": 0.5, "two_fronts": 0.75, "unbatched": 0.25}[kind] + turn / 1000
        cost = math.inf if count == 512 else 0.1 * count + turn
        found = {"front_per_stream": cost / 2, "cores_per_stream": cost, "heard": []}
        return found | {"in_budget": share, "felt_ms": (1.0, 301.0 if late else 300.0, 1e9)}

    receipt = SimpleNamespace(
        record=lambda name, value, unit: kept.update({name: value}),
        curve=lambda name, **columns: kept.update({name: columns}),
    )
    monkeypatch.setattr(Asleep, "told", told)
    monkeypatch.setattr(bench_serving, "rung", rung)
    monkeypatch.setattr(bench_serving, "Server", Asleep)
    monkeypatch.setattr(bench_serving, "talkers", lambda folder, count, s: ([0] * count, []))
    bench_serving.crowds(receipt, "folder", 3, 512)
    return kept, order, told


def test_kinds_of_servers_take_turns_and_meet_the_same_crowds(crowded):
    kept, order, told = crowded
    kinds = ["batched", "two_fronts", "unbatched"]
    assert order[:9] == [(kind, 16) for kind in kinds] * 3
    assert order[9:18] == [(kind, 32) for kind in kinds] * 3
    # past its end a kind is left out, until the crowds of 128 and 512, which show how it fails
    assert order[18:] == [(k, n) for n in (64, 128, 512) for k in kinds[:2] * 3 if (k, n) != (
        "batched", 64)]  # fmt: skip
    assert [one.get("max_batch") for one in told] == [None, None, None, 1]
    assert told[2]["port"] == 7 and all(one["spares"] == 0 for one in told)


def test_one_repeat_past_the_budget_ends_a_kind_s_crowds(crowded):
    kept, _, _ = crowded
    names = [f"{kind}_streams_in_budget" for kind in ("batched", "two_fronts", "unbatched")]
    assert [kept[name] for name in names] == [16, 64, 16]


def test_a_row_has_the_median_and_the_ends_of_its_repeats_and_no_cost_without_answers(crowded):
    kept, _, _ = crowded
    rows = kept["two_fronts"]
    assert rows["streams"] == (16, 32, 64, 128), "of 512 nothing was answered"
    ends = [rows[f"in_budget_{end}"][0] for end in ("least", "percent", "most")]
    assert ends == pytest.approx([75.0, 75.1, 75.2])
    assert rows["cores_per_stream"][0] == pytest.approx(1.6 + 1)
    assert rows["front_per_stream"][0] == pytest.approx((1.6 + 1) / 2)


def test_chunks_are_swept_by_what_a_stream_takes_and_costs(monkeypatch):
    kept, asked = {}, []

    def served(folder, seconds, count, **options):
        asked.append((folder, seconds, count, options))
        felt = math.inf if options["chunk_ms"] == 100 else 5.0
        of = {"response_ms": (1.0, 2.0, 3.0), "felt_ms": (4.0, felt, 6.0)}
        return of | {"cores_per_stream": 0.25}

    receipt = SimpleNamespace(curve=lambda name, **columns: kept.update({name: columns}))
    monkeypatch.setattr(bench_serving, "served", served)
    bench_serving.chunks_swept(receipt, "folder", 3)
    assert asked[1] == ("folder", 3, 8, {"chunk_ms": 100, "spares": 0})
    wanted = {"chunk_ms": (60, 160, 800), "response_p95_ms": (2.0,) * 3}
    assert kept["chunks"] == wanted | {
        "felt_p95_ms": (5.0,) * 3,
        "streams_per_core": (4.0,) * 3,
    }


def test_a_variant_is_served_to_eight_streams_in_batches_of_four(monkeypatch):
    kept, asked = {}, []

    def served(folder, seconds, count, **options):
        asked.append((folder, seconds, count, options))
        return {"cores_per_stream": 0.25, "front_per_stream": 0.125}

    receipt = SimpleNamespace(record=lambda name, value, unit: kept.update({name: value}))
    monkeypatch.setattr(bench_serving, "served", served)
    bench_serving.variant_served("int8", receipt, "folder", 3)
    assert asked == [("folder", 3, 8, {"variant": "int8", "max_batch": 4, "spares": 0})]
    assert kept == {"served_int8_streams_per_core": 4}


def test_every_variant_computes_the_same_windows_and_one_by_one_is_plain(monkeypatch):
    seen = []

    def variant(model, name):
        def network(part_BFT):
            seen.append((name, part_BFT))
            return (part_BFT,)

        return network

    monkeypatch.setattr(bench_serving, "variant", variant)
    found = bench_serving.contestants(variant(None, "plain alone"), 8, ["folded", "int8"])
    whole = {name: call() for name, call in found.items()}
    assert [name for name, _ in seen] == ["plain alone"] * 8 + ["folded", "int8"]
    assert [len(part) for _, part in seen] == [1] * 8 + [8, 8]
    assert all(torch.equal(one, whole["folded"]) for one in whole.values())


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
    assert len(kept) == 1 + 5


def test_what_takes_long_to_begin_is_recorded_alone_with_its_first_call(known, monkeypatch):
    kept = {}
    receipt = SimpleNamespace(
        record=lambda name, value, *unit, **more: kept.update({name: value})
    )
    monkeypatch.setattr(bench_serving, "load_model", lambda device: known)
    bench_serving.raced(receipt, 6, "cpu", ["compiled"])
    assert set(kept) == {"compiled_first_call", "gain_compiled"}
    assert kept["gain_compiled"].median == 12 and 0 < kept["compiled_first_call"] < 10
