"""Lookups through the tiers: right vectors always, modes, sharing, refresh, faults."""

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
    table.close()
    assert table.worker is None


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
    with server.refresh:  # the worker cannot go on
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
    vectors, found = server.volatile.get("dlrm.ads", keys)
    assert (vectors[found] == rows(keys, 1)[found]).all()


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


def test_redis_may_die_and_come_back_and_nothing_served_is_wrong(tiers):
    if not RedisServer.there():
        pytest.skip("no redis-server here")
    with RedisServer() as redis:
        tier = RedisTier(redis.address, 2000)
        with ParameterServer(tiers, tier, retry_s=0.05) as server:
            table = server.deploy("dlrm.ads", cache_rows=64)
            assert right(table, np.arange(500)) and tier.count("dlrm.ads")
            redis.kill()
            assert right(table, np.arange(500)) and server.counts["volatile failed"]
            server.apply([("dlrm.ads", np.arange(500), rows(np.arange(500), 1))])
            redis.start()
            time.sleep(0.1)
            assert right(table, np.arange(500), [1]) and tier.count("dlrm.ads")
        tier.close()


def test_a_redis_that_is_full_spoils_nothing(tiers):
    if not RedisServer.there():
        pytest.skip("no redis-server here")
    with RedisServer() as redis:
        tier = RedisTier(redis.address, 2000)
        with ParameterServer(tiers, tier, retry_s=0.0) as server:
            table = server.deploy("dlrm.ads", cache_rows=640)
            assert right(table, np.arange(300))
            tier.client.config_set("maxmemory", 1)  # whatever is written is refused from now on
            server.apply([("dlrm.ads", np.arange(300), rows(np.arange(300), 1))])
            assert right(table, np.arange(300), [1]) and server.counts["volatile failed"]
        tier.close()


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
