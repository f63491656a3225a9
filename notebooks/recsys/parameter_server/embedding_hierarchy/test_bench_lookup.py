"""The race at a small size: checked answers, each request timed once, what the receipt says."""

import contextlib
import json
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import bench, check, receipts

from . import bench_lookup


@pytest.fixture(scope="module")
def field():
    with bench_lookup.Field(rows=12_000, width=16, keys=256, calls=9) as field:
        yield field


def test_all_contestants_agree_and_a_wrong_one_is_seen(field):
    field.agree()
    field.ways["wrong"] = lambda keys: field.table[keys] + 1
    with pytest.raises(check.Failed):
        field.agree()
    del field.ways["wrong"]


def test_each_request_is_asked_once_and_its_misses_are_in_its_time(field):
    asked, way = [], field.ways["hierarchy"]

    def watched(keys):
        asked.append(keys.tobytes())
        return way(keys)

    field.ways["hierarchy"] = watched
    found = bench_lookup.race(field, rounds=2, threads=1)
    field.ways["hierarchy"] = way
    assert len(asked) == len(set(asked)) == 4 * bench_lookup.CALL
    counts = field.deployed.counts
    assert 0.92 < counts["hits"] / counts["keys"] < 0.99  # half of the requests are hits alone
    for name, times in field.times_ms.items():
        assert len(times) == 3 * bench_lookup.CALL  # the warm-up, two rounds
        assert sum(times[bench_lookup.CALL :]) <= 1e3 * sum(found.results[name].times_s)
        assert np.percentile(times, 99) >= np.median(times)


def test_the_receipt_has_both_goals(field, tmp_path, monkeypatch):
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    receipt = receipts.start("parameter_server", "cpu", threads=1)
    bench_lookup.record(receipt, field, bench_lookup.race(field, rounds=2, threads=1), 1)
    assert {"times_memmap", "hits_over_gather"} <= receipt.metrics.keys()
    assert ("faster_than_redis" in receipt.metrics) == ("Redis alone" in field.ways)


SECONDS = {"memmap": 1.0, "hierarchy": 4.0, "Redis alone": 8.0}
SECONDS |= {"memmap, hits alone": 0.5, "hierarchy, hits alone": 1.5}


@pytest.fixture
def told(monkeypatch):
    """The metrics of a race at one thread whose every call takes the seconds above."""

    def raced(contestants, repeats, warmup, reference):
        results = {
            name: bench.Measurement(s, s, s, (s,) * repeats, None, "cpu")
            for name, s in SECONDS.items()
            if name in contestants
        }
        ratios = {name: bench.ratio(results[reference], one) for name, one in results.items()}
        return bench.Race(results, ratios, reference)

    monkeypatch.setattr(bench_lookup.bench, "race", raced)
    monkeypatch.setattr(bench_lookup.torch, "set_num_threads", lambda count: None)
    field = SimpleNamespace(
        contestants=lambda: dict.fromkeys(SECONDS, lambda: None),
        deployed=SimpleNamespace(counts={}),
        hits=[range(10)] * 200,
        answered={"Redis alone": 0.95},
    )
    found = bench_lookup.race(field, rounds=6, threads=1)
    starts = zip(SECONDS, (0, 1000, 2000, 3000, 4000), strict=True)
    field.times_ms = {name: range(start, start + 101) for name, start in starts}
    alone = 101 * 10  # keys of as many requests of hits alone
    field.deployed.counts = {"keys": alone + 100, "hits": alone + 95}
    receipt = receipts.start("parameter_server", "cpu", threads=1)
    bench_lookup.record(receipt, field, found, 1)
    return {name: one["value"] for name, one in receipt.metrics.items()}


def test_a_gather_from_memory_is_four_times_as_fast_as_the_hierarchy(told):
    assert told["times_memmap"] == 4


def test_the_hierarchy_is_twice_as_fast_as_redis(told):
    assert told["faster_than_redis"] == 2


def test_hits_alone_take_three_times_a_gather_of_the_same_rows(told):
    assert told["hits_over_gather"] == 3


def test_the_parts_of_a_request_are_timed_over_requests_that_are_new(field, monkeypatch):
    """Each part is that of its name: what is absent is fetched and inserted, once."""
    server, seen = field.deployed.server, []
    below = server.fetch

    def watched(name, keys):
        seen.append(len(keys))
        return below(name, keys)

    monkeypatch.setattr(server, "fetch", watched)
    parts = bench_lookup.parts_ms(field)
    assert set(parts) == {"find", "gather", "below", "insert"} and min(parts.values()) > 0
    assert len(seen) == bench_lookup.CALL - bench_lookup.CHECKED
    few = round(256 * (1 - bench_lookup.HITS))
    assert few / 2 < min(seen) and max(seen) <= 2 * few, "no request came before"


def test_the_hierarchy_keeps_within_the_budget(field):
    cache, width = field.deployed.cache, 4 * field.table.shape[1]
    arrays = (cache.keys_S, cache.counters_S, cache.claims_S, cache.guesses, cache.vectors_SW)
    held = (
        sum(one.nbytes for one in arrays)
        + field.deployed.server.persistent.packed[bench_lookup.TABLE].keys_N.nbytes
    )
    blocks = field.budget / bench_lookup.BELOW
    assert held + blocks < field.budget + 65 * (width + 28)  # a set, and the row of zeros
    assert held + blocks > 0.97 * field.budget


def test_the_time_of_a_request_is_a_sixteenth_of_its_call_s(told):
    assert told["hierarchy_threads1_ms"] == 4000 / 16


def test_of_a_hundred_and_one_times_in_order_the_99th_percentile_is_number_99(told):
    found = [told[f"{name}_threads1_p99_ms"] for name in ("memmap", "hierarchy", "redis_alone")]
    assert found == [99, 1099, 2099]


def test_requests_of_hits_alone_are_not_in_the_hit_rate(told):
    assert told["hit_rate_threads1"] == pytest.approx(95)


@pytest.mark.parametrize(
    "name", ["memmap", "EmbeddingBag", "RocksDB alone", "hierarchy", "Redis alone"]
)
def test_a_wrong_answer_of_any_contestant_is_seen(field, monkeypatch, name):
    if name not in field.ways:
        pytest.skip("no redis-server is installed")
    way = field.ways[name]

    def wrong(keys):
        rows = np.asarray(way(keys)).copy()
        rows[:, 0] += 0.01 * rows.any(1)
        return rows

    monkeypatch.setitem(field.ways, name, wrong)
    with pytest.raises(check.Failed):
        field.agree()


def test_all_are_asked_the_same_requests_and_those_of_hits_alone_the_same_hits(
    field, monkeypatch
):
    asked = {name: [] for name in field.ways}
    for name in asked:
        monkeypatch.setitem(field.ways, name, asked[name].append)
    monkeypatch.setattr(field, "turn", {})
    for call in field.contestants().values():
        call()
        call()
    for name, keys in asked.items():
        alone = name.endswith(bench_lookup.ALONE)
        wanted = (field.hits if alone else field.requests)[: 2 * bench_lookup.CALL]
        assert all(one is two for one, two in zip(keys, wanted, strict=True)), name


def test_hits_alone_are_drawn_from_all_hot_keys(field):
    hot = set(field.order[: int(field.slots * bench_lookup.HOT)].tolist())
    seen = set(np.concatenate(field.hits).tolist())
    assert seen <= hot and len(seen) > 0.95 * len(hot)


def test_each_tier_alone_has_the_whole_budget(monkeypatch):
    made, limits, rocks = {}, {}, bench_lookup.Rocks

    def watched(folder, widths, cache_mb, packed):
        made[folder.name] = cache_mb * 2**20, packed
        return rocks(folder, widths, cache_mb, packed=packed)

    class Watched(bench_lookup.redis.Redis):
        def info(self, *asked):
            told = super().info(*asked)
            limits["empty"] = told["used_memory"]
            return told

        def config_set(self, name, value):
            limits[name] = value - limits["empty"]
            return super().config_set(name, value)

    monkeypatch.setattr(bench_lookup, "Rocks", watched)
    monkeypatch.setattr(bench_lookup.redis, "Redis", Watched)
    with bench_lookup.Field(rows=12_000, width=16, keys=64, calls=1) as field:
        budget = field.budget
        assert ("Redis alone" in field.ways) == ("maxmemory" in limits)
        assert field.deployed.threshold > 1
    assert budget == 4_000 * 16 * 4 and limits.get("maxmemory", budget) == budget
    assert made == {"alone": (budget, False), "below": (budget / bench_lookup.BELOW, True)}


def test_rocksdb_alone_answers_from_rocksdb(field, monkeypatch):
    asked, get = [], bench_lookup.Rocks.get

    def watched(self, table, keys):
        asked.append(self.packs)
        return get(self, table, keys)

    monkeypatch.setattr(bench_lookup.Rocks, "get", watched)
    field.ways["RocksDB alone"](field.requests[0])
    assert asked == [False]


@pytest.fixture
def raced(monkeypatch, tmp_path):
    """(what a race of three rounds at two threads did, in order; its receipt)."""
    done, field = (
        [],
        SimpleNamespace(
            agree=lambda: done.append("agreed"),
            table=np.zeros((50, 4)),
            requests=[range(9)],
            budget=2**20,
            slots=5,
        ),
    )

    @contextlib.contextmanager
    def made(rows, calls):
        done.append((rows, calls))
        yield field

    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    monkeypatch.setattr(bench_lookup, "Field", made)
    monkeypatch.setattr(bench_lookup, "race", lambda own, rounds, threads: (rounds, threads))
    monkeypatch.setattr(bench_lookup, "record", lambda *asked: done.append(asked[2:]))
    monkeypatch.setattr(bench_lookup, "parts_ms", lambda own: done.append("parts") or {})
    monkeypatch.setattr(bench_lookup.torch, "set_num_threads", done.append)
    bench_lookup.main(["--rounds", "3", "--rows", "50", "--threads", "2"])
    (written,) = tmp_path.iterdir()
    return done, json.loads(written.read_text())


def test_parts_are_one_thread_s_after_both_races_of_requests_enough_for_all(raced):
    races = [((3, 1), 1), ((3, 2), 2)]
    assert raced[0] == [(50, 2 * (3 + 2) + 1), "agreed", *races, 1, "parts", 2]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_race_has_the_threads_that_it_is_named_for(field, monkeypatch, threads):
    told = []
    monkeypatch.setattr(bench_lookup.torch, "set_num_threads", told.append)
    monkeypatch.setattr(bench_lookup.bench, "race", lambda *_, **__: told.append("race"))
    for name in field.ways:
        monkeypatch.setitem(field.ways, name, lambda keys: None)
    monkeypatch.setattr(field, "turn", {})
    bench_lookup.race(field, 1, threads)
    assert told == [threads, "race"]


def test_the_receipt_names_the_most_threads_and_the_sizes(raced):
    assert raced[1]["threads"] == 2
    sizes = {"rows": 50, "width": 4, "keys": 9, "call": 16, "budget_mb": 1, "slots": 5}
    assert raced[1]["sizes"] == sizes
