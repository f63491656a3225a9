"""Lookups through the tiers: right vectors always, modes, sharing, refresh, faults."""

import contextlib
import signal
import threading
import time

import numpy as np
import pytest
import torch
from storage_tiers import InProcess, RedisServer, RedisTier, Rocks, TierDown

from . import ParameterServer

ROWS, WIDTH = 3000, 8
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


def rows(keys, version=0):
    """Vectors that tell key and version: a wrong or torn one is seen."""
    keys = np.asarray(keys)
    return np.stack([keys + 10_000.0 * version] * WIDTH, 1).astype(np.float32)


@pytest.fixture
def tiers(tmp_path):
    with Rocks(tmp_path / "db", {"dlrm.ads": WIDTH, "dlrm.users": WIDTH}) as persistent:
        for name in persistent.widths:
            persistent.load(name, np.arange(ROWS), rows(np.arange(ROWS)))
        yield persistent


@pytest.fixture(params=DEVICES)
def server(request, tiers):
    with ParameterServer(tiers, InProcess(1000)) as server:
        server.place = request.param
        yield server


def right(table, keys, versions=(0,)):
    got = table.lookup(torch.as_tensor(keys)).cpu().numpy()
    wanted = [rows(keys, version) for version in versions]
    return np.any([(got == want).all(1) for want in wanted], 0).all()


@pytest.mark.parametrize("slots", [1, 64, 640, 5000])
def test_every_key_has_its_vector_whatever_the_cache(server, slots):
    table, rng = server.deploy("dlrm.ads", cache_rows=slots, device=server.place), None
    rng = np.random.default_rng(slots)
    for _ in range(20):
        assert right(table, (rng.random(257) ** 3 * ROWS).astype(np.int64))
    assert table.lookup(torch.zeros(0, dtype=torch.int64)).shape == (0, WIDTH)


def test_bytes_on_the_link_are_those_of_the_distinct_missing_vectors(server):
    table = server.deploy("dlrm.ads", cache_rows=640, device=server.place)
    for keys, missing in (([5, 6, 7, 5], 3), ([5, 6, 7], 0), ([7, 8, 8], 1)):
        before = table.counts["bytes"]
        table.lookup(torch.tensor(keys))
        assert table.counts["bytes"] - before == missing * WIDTH * 4, keys


def test_misses_are_promoted_or_not(tiers):
    for promote, held in ((True, 10), (False, 0)):
        volatile = InProcess(1000)
        with ParameterServer(tiers, volatile, promote=promote) as server:
            table = server.deploy("dlrm.ads", cache_rows=64)
            assert right(table, np.arange(10)) and volatile.count("dlrm.ads") == held
            assert server.counts["from persistent"] == 10


def test_without_a_volatile_tier_the_persistent_one_answers(tiers):
    with ParameterServer(tiers) as server:
        assert right(server.deploy("dlrm.ads", cache_rows=64), np.arange(500))


def test_the_threshold_chooses_between_now_and_later(server):
    table = server.deploy("dlrm.ads", cache_rows=640, threshold=0.5, default=-1.0)
    assert right(table, np.arange(100)), "none hit: the request waits"
    got = table.lookup(torch.arange(50, 150))  # half hit
    assert (got[:50].numpy() == rows(np.arange(50, 100))).all() and (got[50:] == -1).all()
    assert table.drain() and right(table, np.arange(50, 150))
    assert (table.counts["waited"], table.counts["deferred"]) == (1, 1)


def test_the_hit_rate_is_of_distinct_keys(server):
    table = server.deploy("dlrm.ads", cache_rows=640, device=server.place)
    right(table, np.arange(3))
    assert table.answer(torch.tensor([0, 0, 0, 7, 1, 8, 7]))[1] == 0.5
    assert table.answer(torch.tensor([0, 7, 7]))[1] == 1
    assert table.answer(torch.zeros(0, dtype=torch.int64))[1] == 1
    told = [table.counts[name] for name in ("requests", "keys", "hits", "waited")]
    assert told == [4, 9, 4, 2]


def test_a_closed_node_has_no_worker_left(tiers):
    before = threading.active_count()
    with ParameterServer(tiers) as server:
        table = server.deploy("dlrm.ads", cache_rows=64, threshold=0.0)
        table.lookup(torch.arange(5))
        assert threading.active_count() == before + 1
    assert (
        threading.active_count() == before and table.cache.query(torch.arange(5)).present == 5
    )


def test_a_threshold_above_one_never_defers(server):
    table = server.deploy("dlrm.ads", cache_rows=64, threshold=1.1)
    for start in range(0, 600, 60):
        assert right(table, np.arange(start, start + 60))
    assert table.counts["deferred"] == 0


def test_a_key_never_seen_gets_the_default_and_no_slot(server):
    table = server.deploy("dlrm.ads", cache_rows=64, default=0.25)
    got = table.lookup(torch.tensor([ROWS + 5, 3]))
    assert (got[0] == 0.25).all() and (got[1].numpy() == rows([3])[0]).all()
    assert table.cache.dump().tolist() == [3] and server.counts["nowhere"] == 1


def test_a_full_queue_drops_and_serves_on(server):
    table = server.deploy("dlrm.ads", cache_rows=640, threshold=0.0, waiting=1)
    with server.locks["dlrm.ads"]:  # the worker cannot go on
        for start in range(0, 50, 5):
            table.lookup(torch.arange(start, start + 5))
    assert table.counts["dropped"] >= 8 and table.drain()


def test_a_worker_survives_a_broken_tier(server, monkeypatch):
    table = server.deploy("dlrm.ads", cache_rows=64, threshold=0.0)
    with monkeypatch.context() as patched:
        patched.setattr(server, "fetch", lambda *_: 1 / 0)
        table.lookup(torch.arange(5))
        assert table.drain()
    table.lookup(torch.arange(5))
    assert table.drain() and right(table, np.arange(5)) and table.counts["failed"] == 1


def test_new_vectors_reach_all_tiers(server):
    table = server.deploy("dlrm.ads", cache_rows=64)
    right(table, np.arange(1, 200))
    keys = np.arange(0, 300)
    server.apply([("dlrm.ads", keys, rows(keys, 1))], {"offset": 3})
    assert right(table, keys, [1]) and server.persistent.place() == {"offset": 3}
    stamp = server.persistent.stamps["dlrm.ads"]
    vectors, found = server.volatile.get("dlrm.ads", keys, stamp, WIDTH)
    assert found.any() and (vectors[found] == rows(keys, 1)[found]).all()


@pytest.mark.parametrize("why", ["NaN", "overflow", "reserved", "width", "no table"])
def test_a_batch_with_a_bad_part_changes_no_tier(tiers, why):
    """Its first part is good, its last one is bad: nothing of it is in any tier."""
    keys, volatile = np.arange(200), InProcess(1000)
    bad = {
        "NaN": ("dlrm.users", np.array([3]), np.full((1, WIDTH), np.nan)),
        "overflow": ("dlrm.users", np.array([3]), np.full((1, WIDTH), 1e5)),
        "reserved": ("dlrm.users", np.array([-(2**63)]), rows([3], 1)),
        "width": ("dlrm.users", np.array([3]), rows([3], 1)[:, :2]),
        "no table": ("dlrm.nobody", np.array([3]), rows([3], 1)),
    }
    with ParameterServer(tiers, volatile) as server:
        ads = server.deploy("dlrm.ads", cache_rows=64)
        users = server.deploy("dlrm.users", cache_rows=64, dtype=torch.float16)
        assert right(ads, keys) and right(users, keys)
        stamps = dict(tiers.stamps)
        with pytest.raises(ValueError):
            server.apply([("dlrm.ads", keys, rows(keys, 1)), bad[why]], {"offset": 5})
        assert tiers.place() is None and tiers.stamps == stamps
        assert right(ads, keys) and right(users, keys), "and no lookup raises"
        assert (tiers.get("dlrm.ads", keys)[0] == rows(keys)).all()


def test_a_tier_that_an_inference_filled_is_changed_outside_of_it(server):
    table = server.deploy("dlrm.ads", cache_rows=640, threshold=0.5, device=server.place)
    with torch.inference_mode():
        assert right(table, np.arange(100))
    server.apply([("dlrm.ads", np.arange(100), rows(np.arange(100), 1))])
    assert right(table, np.arange(100), [1]) and table.drain()
    with torch.inference_mode():
        table.lookup(torch.arange(90, 110))  # the worker fetches the rest, in no inference
    assert table.drain() and table.counts["deferred"] and not table.counts["failed"]
    assert right(table, np.arange(100, 300))


def test_of_several_parts_of_one_table_the_last_counts_in_all_tiers(server):
    table = server.deploy("dlrm.ads", cache_rows=64, device=server.place)
    right(table, np.arange(40))
    parts = [("dlrm.ads", np.arange(v, 30), rows(np.arange(v, 30), v)) for v in (1, 2, 3)]
    server.apply([*parts, ("dlrm.users", np.arange(5), rows(np.arange(5), 1))])
    wanted = np.concatenate([rows([0]), rows([1], 1), rows([2], 2), rows(np.arange(3, 30), 3)])
    assert (table.lookup(torch.arange(30)).cpu().numpy() == wanted).all()
    table.cache.clear()
    assert (table.lookup(torch.arange(30)).cpu().numpy() == wanted).all()
    held, found = server.volatile.get(
        "dlrm.ads", np.arange(30), server.persistent.stamps["dlrm.ads"], WIDTH
    )
    assert found.all() and (held == wanted).all()


@pytest.mark.parametrize("step", ["write", "update"])
def test_an_update_that_broke_off_leaves_nothing_stale(server, monkeypatch, step):
    """RocksDB has it, and then somebody stops the process's work, not the process."""
    table = server.deploy("dlrm.ads", cache_rows=320, device=server.place)
    keys = np.arange(200)
    right(table, keys)
    home, name = (server.persistent, "write") if step == "write" else (table.cache, "update")
    whole = getattr(home, name)

    def broken(*arguments):
        if step == "write":
            whole(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(home, name, broken)
        with pytest.raises(KeyboardInterrupt):
            server.apply([("dlrm.ads", keys, rows(keys, 1))])
    assert right(table, keys, [1])


def test_hits_and_other_tables_wait_neither_for_a_miss_nor_for_an_update(server, monkeypatch):
    """A miss, then an update of one table stand still; hits of it, misses of another go on."""
    ads, users = (server.deploy(name, cache_rows=640) for name in ("dlrm.ads", "dlrm.users"))
    right(ads, np.arange(50))
    get, write = server.persistent.get, server.persistent.write
    began, go_on = threading.Event(), threading.Event()

    def stands(name):
        if name == "dlrm.ads":
            began.set()
            assert go_on.wait(20)

    monkeypatch.setattr(
        server.persistent, "get", lambda name, keys: stands(name) or get(name, keys)
    )
    monkeypatch.setattr(
        server.persistent,
        "write",
        lambda parts, place=None: stands(parts[0][0]) or write(parts),
    )
    update = [("dlrm.ads", np.arange(50), rows(np.arange(50), 1))]
    for work in (lambda: right(ads, np.arange(100, 150)), lambda: server.apply(update)):
        began.clear(), go_on.clear()
        slow = threading.Thread(target=work)
        slow.start()
        assert began.wait(10)
        others = [
            threading.Thread(target=right, args=(ads, np.arange(50)), daemon=True),
            threading.Thread(target=right, args=(users, rng_keys()), daemon=True),
        ]
        for one in others:
            one.start()
        for one in others:
            one.join(5)
        waited = [one.is_alive() for one in others]
        go_on.set()
        slow.join(10)
        assert waited == [False, False]
    assert right(ads, np.arange(50), [1])


def rng_keys():
    return np.random.default_rng(0).integers(0, ROWS, 40)


@pytest.mark.parametrize("threshold", [0.1, 1.1])
def test_instances_share_a_cache_and_never_see_a_torn_or_stale_vector(server, threshold):
    """Four instances look up while every vector is rewritten; defaults tell that they are."""
    how = {"threshold": threshold, "default": float("inf"), "device": server.place}
    table = server.deploy("dlrm.ads", cache_rows=320, **how)
    keys, wrong, done, seen = np.arange(ROWS), [], threading.Event(), np.zeros(ROWS)

    def instance(seed):
        rng, newest = np.random.default_rng(seed), np.zeros(ROWS)
        while not done.is_set():
            asked = (rng.random(200) ** 3 * ROWS).astype(np.int64)
            got = table.lookup(torch.from_numpy(asked)).cpu().numpy()
            asked, got = (one[np.isfinite(got[:, 0])] for one in (asked, got))
            version = (got[:, 0] - asked) / 10_000
            torn = (got != got[:, :1]).any(1) | (version % 1 != 0)
            if torn.any() or (version < newest[asked]).any():
                wrong.append(asked[torn | (version < newest[asked])])
            np.maximum.at(newest, asked, version)
        np.maximum(seen, newest, out=seen)

    instances = [threading.Thread(target=instance, args=(seed,)) for seed in range(4)]
    for one in instances:
        one.start()
    for version in range(1, 9):
        for part in np.array_split(keys, 3):
            server.apply([("dlrm.ads", part, rows(part, version))])
    done.set()
    for one in instances:
        one.join(30)
    assert not wrong and seen.max() == 8 and table.drain()
    assert (table.counts["deferred"] > 0) == (threshold < 1)
    table.threshold = 1.1
    assert right(table, keys, [8])


def test_an_update_between_fetch_and_insertion_is_not_lost(server, monkeypatch):
    """A reader has fetched the old vector; the update must wait until it is inserted."""
    table, below = server.deploy("dlrm.ads", cache_rows=64), server.fetch
    fetched, go_on = threading.Event(), threading.Event()

    def slow(name, keys):
        found = below(name, keys)
        fetched.set()
        go_on.wait(10)
        return found

    monkeypatch.setattr(server, "fetch", slow)
    new = ("dlrm.ads", np.arange(5), rows(np.arange(5), 1))
    reader = threading.Thread(target=table.lookup, args=(torch.arange(5),))
    writer = threading.Thread(target=server.apply, args=([new],))
    reader.start()
    assert fetched.wait(10)
    writer.start()
    writer.join(0.2)  # without the lock it would be through by now
    go_on.set()
    reader.join(10)
    writer.join(10)
    monkeypatch.undo()
    assert right(table, np.arange(5), [1])


@pytest.fixture
def redis():
    if not RedisServer.there():
        pytest.skip("no redis-server here")
    with RedisServer() as redis:
        yield redis


@contextlib.contextmanager
def node(folder, redis, **how):
    """A node as it starts: tables, Redis, a cold cache, nothing remembered."""
    tier = RedisTier(redis.address, 5000, timeout_s=0.2)
    with Rocks(folder, {"dlrm.ads": WIDTH}) as tiers, contextlib.closing(tier):
        if not tiers.get("dlrm.ads", np.arange(1))[1].any():
            tiers.load("dlrm.ads", np.arange(ROWS), rows(np.arange(ROWS)))
        with ParameterServer(tiers, tier, **how) as server:
            server.deploy("dlrm.ads", cache_rows=64)
            yield server


ALL = np.arange(ROWS)


def test_a_node_that_died_between_two_tiers_serves_nothing_old(tmp_path, redis):
    """The full copy has the update and its place, Redis the old vectors; it lived on."""
    with node(tmp_path / "db", redis) as server:
        assert (
            right(server.tables["dlrm.ads"], ALL) and server.volatile.count("dlrm.ads") > 2000
        )
        server.persistent.write([("dlrm.ads", ALL, rows(ALL, 1))], {"offset": 9})
    with node(tmp_path / "db", redis) as server:
        assert right(server.tables["dlrm.ads"], ALL, [1])
        assert server.counts["from persistent"] >= ROWS - 64


def test_a_redis_that_hung_through_an_update_serves_nothing_old_to_the_next_start(
    tmp_path, redis
):
    with node(tmp_path / "db", redis) as server:
        assert right(server.tables["dlrm.ads"], ALL)
        redis.process.send_signal(signal.SIGSTOP)
        server.apply([("dlrm.ads", ALL, rows(ALL, 1))])
        redis.process.send_signal(signal.SIGCONT)
    with node(tmp_path / "db", redis) as server:
        assert right(server.tables["dlrm.ads"], ALL, [1])


def test_a_node_restored_from_a_copy_does_not_believe_its_old_redis(tmp_path, redis):
    """Its last life made as many updates as the survivor will, with other vectors."""
    with node(tmp_path / "old", redis) as server:
        server.persistent.copy_to(tmp_path / "copy")
        server.apply([("dlrm.ads", ALL, rows(ALL, 5))], {"offset": 1})
        assert right(server.tables["dlrm.ads"], ALL, [5]) and server.volatile.count("dlrm.ads")
    with node(tmp_path / "copy", redis) as server:
        server.persistent.write([("dlrm.ads", ALL, rows(ALL, 1))], {"offset": 1})
        assert right(server.tables["dlrm.ads"], ALL, [1])


def test_a_node_that_starts_again_in_good_order_keeps_its_redis(tmp_path, redis):
    with node(tmp_path / "db", redis) as server:
        right(server.tables["dlrm.ads"], ALL)
        server.apply([("dlrm.ads", ALL[:9], rows(ALL[:9], 1))])
        held = server.volatile.count("dlrm.ads")
    with node(tmp_path / "db", redis) as server:
        assert right(server.tables["dlrm.ads"], ALL[:9], [1])
        assert right(server.tables["dlrm.ads"], ALL[9:2000])
        assert held > 2000 and server.counts["from persistent"] == 0


def test_an_update_of_one_table_leaves_the_others_in_redis(tmp_path, redis):
    tier = RedisTier(redis.address, 5000)
    widths = {"dlrm.ads": WIDTH, "dlrm.users": WIDTH}
    with Rocks(tmp_path / "db", widths) as tiers, ParameterServer(tiers, tier) as server:
        for name in widths:
            tiers.load(name, ALL, rows(ALL))
            server.fetch(name, ALL)
        tiers.write([("dlrm.users", ALL, rows(ALL, 1))])  # past Redis
        server.counts.clear()
        server.fetch("dlrm.ads", ALL)
        assert server.counts["from volatile"] == ROWS
        server.fetch("dlrm.users", ALL)
        assert server.counts["from persistent"] == ROWS
    tier.close()


def test_redis_may_die_and_come_back_and_nothing_served_is_wrong(tmp_path, redis):
    with node(tmp_path / "db", redis, retry_s=0.05) as server:
        table = server.tables["dlrm.ads"]
        assert right(table, np.arange(500)) and server.volatile.count("dlrm.ads")
        redis.kill()
        assert right(table, np.arange(500)) and server.counts["volatile failed"]
        server.apply([("dlrm.ads", np.arange(500), rows(np.arange(500), 1))])
        redis.start()
        time.sleep(0.1)
        assert right(table, np.arange(500), [1]) and server.volatile.count("dlrm.ads")


def test_a_redis_that_hung_through_an_update_and_goes_on_serves_nothing_old(tmp_path, redis):
    """Whatever lay in its sockets is carried out late, before or after new commands."""
    with node(tmp_path / "db", redis, retry_s=0.0) as server:
        table = server.tables["dlrm.ads"]
        assert right(table, ALL)
        for version in range(1, 4):
            redis.process.send_signal(signal.SIGSTOP)
            server.apply([("dlrm.ads", ALL, rows(ALL, version))])
            if version == 2:
                right(table, ALL[:100], [version])  # a late put, too
            redis.process.send_signal(signal.SIGCONT)
            for _ in range(2):
                assert right(table, ALL, [version])


def test_a_damaged_value_in_redis_is_a_miss_to_the_node(tmp_path, redis):
    with node(tmp_path / "db", redis) as server:
        table, name = server.tables["dlrm.ads"], server.volatile.prefix + "dlrm.ads"
        right(table, ALL)
        for field in server.volatile.client.hkeys(name):
            if field != b"stamp":
                server.volatile.client.hset(name, field, b"abc")
        assert right(table, ALL)


def test_a_redis_that_is_full_spoils_nothing(tmp_path, redis):
    with node(tmp_path / "db", redis, retry_s=0.0) as server:
        table = server.tables["dlrm.ads"]
        assert right(table, np.arange(300))
        server.volatile.client.config_set("maxmemory", 1)  # whatever is written is refused
        server.apply([("dlrm.ads", np.arange(300), rows(np.arange(300), 1))])
        assert right(table, np.arange(300), [1]) and server.counts["volatile failed"]


def test_what_a_tier_missed_while_it_was_away_is_not_served(tiers):
    """It was not killed, only out of reach, and still holds old vectors."""

    class Away(InProcess):
        away = False

        def __getattribute__(self, name):
            if name in ("get", "put", "refresh") and self.away:
                raise TierDown("out of reach")
            return super().__getattribute__(name)

    volatile = Away(2000)
    with ParameterServer(tiers, volatile, retry_s=0.05) as server:
        table = server.deploy("dlrm.ads", cache_rows=64)
        right(table, np.arange(500))
        volatile.away = True
        server.apply([("dlrm.ads", np.arange(500), rows(np.arange(500), 1))])
        volatile.away = False
        assert right(table, np.arange(500), [1])
        time.sleep(0.06)
        assert right(table, np.arange(500), [1])


def test_tables_of_one_node_are_apart_and_named(server):
    ads, users = (server.deploy(name, cache_rows=64) for name in ("dlrm.ads", "dlrm.users"))
    server.apply([("dlrm.users", np.arange(9), rows(np.arange(9), 1))])
    assert right(ads, np.arange(9)) and right(users, np.arange(9), [1])
    with pytest.raises(ValueError, match="share one"):
        server.deploy("dlrm.ads", cache_rows=64)
    with pytest.raises(ValueError, match="no table 'nobody'"):
        server.deploy("nobody", cache_rows=64)
    with pytest.raises(ValueError, match="0 or more"):
        ParameterServer(server.persistent).deploy("dlrm.ads", cache_rows=64, threshold=-1)
