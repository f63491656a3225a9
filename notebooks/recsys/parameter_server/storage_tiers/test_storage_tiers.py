"""One suite for all tiers, then what is each one's own: eviction, batches, death, bad input."""

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from . import InProcess, RedisServer, RedisTier, Rocks, TierDown
from . import redis_tier as redis_module
from .encoding import words

KEYS = np.array([5, -3, 2**62, 0, 17])
OLD, NEW = b"the old stamp", b"the new stamp"


def rows(keys, version=0.0, width=4):
    return (np.asarray(keys)[:, None] % 1000 + version + np.arange(width)).astype(np.float32)


@pytest.fixture(scope="module")
def server():
    if not RedisServer.there():
        pytest.skip("no redis-server here")
    with RedisServer() as server:
        yield server


@pytest.fixture
def redis_tier(server):
    tier = RedisTier(server.address, 100)
    tier.reset("ads", OLD)
    yield tier
    tier.close()


@pytest.fixture(params=["in process", "redis"])
def volatile(request):
    """A tier; `held(keys, stamp)` are its vectors by key."""
    redis = request.param == "redis"
    tier = request.getfixturevalue("redis_tier") if redis else InProcess(100)

    def held(keys, stamp=OLD):
        vectors, found = tier.get("ads", np.asarray(keys), stamp, 4)
        assert vectors.shape == (len(keys), 4) and not vectors[~found].any()
        return dict(zip(np.asarray(keys)[found].tolist(), vectors[found].tolist(), strict=True))

    tier.held = held
    return tier


def by_key(keys, version=0.0):
    return dict(zip(np.asarray(keys).tolist(), rows(keys, version).tolist(), strict=True))


def test_what_was_put_comes_back_and_nothing_else(volatile):
    volatile.put("ads", KEYS, rows(KEYS), OLD)
    assert volatile.held([17, 99, 5, -3]) == by_key([17, 5, -3])
    assert not volatile.get("users", KEYS, OLD, 4)[1].any(), "tables are apart"
    assert volatile.held([]) == {} and volatile.count("ads") == 5


def test_of_equal_keys_the_last_counts(volatile):
    twice = np.concatenate([rows([1, 2]), rows([1], 500)])
    volatile.put("ads", np.array([1, 2, 1]), twice, OLD)
    assert volatile.held([1]) == by_key([1], 500)


def test_refresh_touches_only_what_is_held_and_the_stamp(volatile):
    volatile.put("ads", np.array([3, 5]), rows([3, 5]), OLD)
    volatile.refresh("ads", np.array([3, 4]), rows([3, 4], 500), OLD, NEW)
    assert volatile.held([3, 4, 5], NEW) == by_key([3], 500) | by_key([5])


def test_vectors_of_another_stamp_are_not_found_and_are_gone(volatile):
    volatile.put("ads", KEYS, rows(KEYS), OLD)
    assert volatile.held(KEYS, NEW) == {}
    assert volatile.held(KEYS, OLD) == {}, "what came under another stamp is forgotten"


def test_a_write_that_comes_late_changes_nothing(volatile):
    """As a command that lay in a socket while Redis hung, and the table went on."""
    volatile.put("ads", KEYS, rows(KEYS), OLD)
    volatile.refresh("ads", KEYS, rows(KEYS, 1), OLD, NEW)
    volatile.put("ads", KEYS[:2], rows(KEYS[:2]), OLD)
    assert volatile.held(KEYS, NEW) == {} or volatile.held(KEYS, NEW) == by_key(KEYS, 1)
    volatile.put("ads", KEYS, rows(KEYS, 2), b"newer")
    volatile.refresh("ads", KEYS, rows(KEYS, 1), OLD, NEW)
    assert volatile.held(KEYS, b"newer") in ({}, by_key(KEYS, 2))


def test_a_script_that_redis_comes_to_late_changes_nothing(redis_tier):
    redis_tier.put("ads", KEYS, rows(KEYS), OLD)
    redis_tier.refresh("ads", KEYS, rows(KEYS, 1), OLD, NEW)
    assert not redis_tier._run(redis_module.PUT, "ads", KEYS, rows(KEYS), OLD, 100)
    late = (KEYS, rows(KEYS, 2), OLD, b"another")
    assert not redis_tier._run(redis_module.REFRESH, "ads", *late)
    vectors, found = redis_tier.get("ads", KEYS, NEW, 4)
    assert found.all() and np.array_equal(vectors, rows(KEYS, 1))


def test_a_full_tier_evicts_and_keeps_what_is_right(volatile):
    volatile.put("ads", np.arange(100), rows(np.arange(100)), OLD)
    assert volatile.count("ads") > 90  # two sets of 64 cannot hold any hundred keys
    for start in range(200, 1000, 100):
        keys = np.arange(start, start + 100)
        volatile.put("ads", keys, rows(keys), OLD)
        assert 80 <= volatile.count("ads") <= 128
        held = volatile.held(np.arange(1000))
        assert held == by_key(list(held)) and len(held) == volatile.count("ads")


def test_in_the_process_what_was_looked_at_longest_ago_goes_first():
    tier = InProcess(64)
    tier.put("ads", np.arange(64), rows(np.arange(64)), OLD)
    tier.get("ads", np.arange(1, 64), OLD, 4)
    tier.put("ads", np.array([99]), rows([99]), OLD)
    assert tier.get("ads", np.array([0, 1, 99]), OLD, 4)[1].tolist() == [False, True, True]
    with pytest.raises(ValueError, match="1 or more"):
        InProcess(0)


@pytest.mark.parametrize("damaged", [b"abc", bytes(20), np.full(4, np.nan, "f4").tobytes()])
def test_a_damaged_value_in_redis_is_a_miss(redis_tier, damaged):
    redis_tier.put("ads", KEYS, rows(KEYS), OLD)
    redis_tier.client.hset(redis_tier.prefix + "ads", words([17])[0], damaged)
    vectors, found = redis_tier.get("ads", KEYS, OLD, 4)
    assert found.tolist() == [True, True, True, True, False] and not vectors[4].any()
    redis_tier.put("ads", KEYS, rows(KEYS), OLD)
    assert redis_tier.get("ads", KEYS, OLD, 4)[1].all()


def test_redis_keeps_what_is_not_the_tiers(redis_tier):
    redis_tier.client.set("a stranger's", "own")
    redis_tier.client.hset("ads", "a", "b")
    redis_tier.put("ads", KEYS, rows(KEYS), OLD)
    redis_tier.reset("users", OLD)
    redis_tier.put("users", KEYS, rows(KEYS), OLD)
    redis_tier.reset("ads", NEW)
    assert redis_tier.count("ads") == 0 and redis_tier.count("users") == 5
    assert redis_tier.client.get("a stranger's") == b"own"
    assert redis_tier.client.hget("ads", "a") == b"b"


def test_an_update_of_more_rows_than_a_call_takes_empties_the_table(redis_tier, monkeypatch):
    monkeypatch.setattr(redis_module, "MOST_AT_ONCE", 4)
    redis_tier.put("ads", KEYS[:3], rows(KEYS[:3]), OLD)
    redis_tier.refresh("ads", KEYS, rows(KEYS, 1), OLD, NEW)
    assert not redis_tier.get("ads", KEYS, NEW, 4)[1].any()


def test_a_killed_redis_is_down_and_comes_back_empty():
    if not RedisServer.there():
        pytest.skip("no redis-server here")
    with RedisServer() as server:
        tier = RedisTier(server.address, 100)
        tier.reset("ads", OLD)
        tier.put("ads", KEYS, rows(KEYS), OLD)
        server.kill()
        for call, more in ((tier.get, (OLD, 4)), (tier.put, (rows(KEYS), OLD))):
            with pytest.raises(TierDown, match="does not answer"):
                call("ads", KEYS, *more)
        server.start()
        assert not tier.get("ads", KEYS, OLD, 4)[1].any()
        tier.close()


def test_a_redis_that_hangs_is_down_soon(server):
    tier = RedisTier(server.address, 100, timeout_s=0.1)
    tier.client.ping()
    server.process.send_signal(19)  # stopped, not dead
    try:
        with pytest.raises(TierDown):
            tier.get("ads", KEYS, OLD, 4)
    finally:
        server.process.send_signal(18)
        tier.close()


def test_no_redis_is_said(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="not installed"):
        RedisServer().start()


def test_a_redis_that_does_not_start_is_said():
    if not RedisServer.there():
        pytest.skip("no redis-server here")
    with pytest.raises(RuntimeError, match="did not answer"):
        RedisServer("--no-such-option", "1", wait_s=3).start()


def test_a_server_does_not_outlive_who_started_it():
    if not RedisServer.there():
        pytest.skip("no redis-server here")
    told = (
        "from storage_tiers import RedisServer; s = RedisServer().start(); print(s.port); 1 / 0"
    )
    here = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", told], cwd=here, capture_output=True, text=True
    )
    assert "ZeroDivisionError" in done.stderr
    time.sleep(0.2)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", int(done.stdout)), 0.5)


def test_vectors_place_and_stamps_survive_a_new_start(tmp_path):
    with Rocks(tmp_path / "db", {"ads": 4}) as tier:
        assert tier.place() is None
        tier.write([("ads", KEYS, rows(KEYS))], {"offset": 7})
        stamp = tier.stamps["ads"]
    with Rocks(tmp_path / "db", {"ads": 4, "users": 2}) as tier:
        assert tier.place() == {"offset": 7} and tier.stamps["ads"] == stamp
        assert np.array_equal(tier.get("ads", KEYS)[0], rows(KEYS))


def test_each_write_of_a_table_draws_its_stamp_and_no_other(tmp_path):
    with Rocks(tmp_path / "db", {"ads": 4, "users": 4}) as tier:
        seen = {tier.stamps["ads"]}
        tier.write([("users", KEYS, rows(KEYS))])
        users = tier.stamps["users"]
        for version in range(3):
            tier.write([("ads", KEYS, rows(KEYS, version))], {"offset": version})
            seen.add(tier.stamps["ads"])
        tier.write([], {"offset": 9})
        assert len(seen) == 4 and tier.stamps["ads"] in seen and tier.stamps["users"] == users


def test_two_nodes_that_go_on_from_one_copy_have_other_stamps(tmp_path):
    with Rocks(tmp_path / "db", {"ads": 4}) as tier:
        tier.write([("ads", KEYS, rows(KEYS))])
        tier.copy_to(tmp_path / "copy")
        with Rocks(tmp_path / "copy", {"ads": 4}) as other:
            assert other.stamps == tier.stamps
            for node, version in ((tier, 1), (other, 2)):
                node.write([("ads", KEYS, rows(KEYS, version))])
            assert other.stamps["ads"] != tier.stamps["ads"]


@pytest.mark.parametrize("packed", [True, False])
def test_the_full_copy_has_what_was_written_last(tmp_path, packed):
    with Rocks(tmp_path / "db", {"ads": 4}, packed=packed) as tier:
        tier.load("ads", KEYS, rows(KEYS), step=2)
        assert ("ads" in tier.packed) == packed
        new = np.array([17, 99, 17, -3])  # one is new, one comes twice
        more = rows(new, 5) + np.array([0, 0, 1, 0], np.float32)[:, None]
        tier.write([("ads", new, more)])
        asked, wanted = np.array([17, 99, -3, 5, 1234]), [*rows([17], 6), *rows([99, -3], 5)]
        now = tier.get("ads", asked)
    with Rocks(tmp_path / "db", {"ads": 4}, packed=packed) as tier:
        for vectors, found in (now, tier.get("ads", asked)):
            assert np.array_equal(vectors, [*wanted, *rows([5]), np.zeros(4)])
            assert found.tolist() == [True] * 4 + [False]
        assert len(tier.get("ads", KEYS[:0])[1]) == 0


def test_a_write_that_failed_leaves_the_read_copy_out(tmp_path, monkeypatch):
    """Whether it is in RocksDB nobody knows, so RocksDB is asked."""
    with Rocks(tmp_path / "db", {"ads": 4}) as tier:
        tier.load("ads", KEYS, rows(KEYS))
        db = tier.db

        class Failing:
            def __getattr__(self, name):
                return getattr(db, name)

            def write(self, batch):
                db.write(batch)
                raise OSError("after all")

        tier.db, stamp = Failing(), tier.stamps["ads"]
        with pytest.raises(OSError, match="after all"):
            tier.write([("ads", KEYS, rows(KEYS, 1))])
        tier.db = db
        assert np.array_equal(tier.get("ads", KEYS)[0], rows(KEYS, 1))
        assert tier.stamps["ads"] != stamp


def test_a_reader_of_the_read_copy_never_sees_half_a_row(tmp_path):
    keys, wide, torn = np.arange(64), 4096, []
    with Rocks(tmp_path / "db", {"ads": wide}) as tier:
        tier.load("ads", keys, np.zeros((64, wide), np.float32))
        packed, done = tier.packed["ads"], threading.Event()

        def watch():
            while not done.is_set():
                got, _ = packed.get(keys[:8])
                torn.append(bool((got != got[:, :1]).any()))

        reader = threading.Thread(target=watch)
        reader.start()
        for version in range(40):
            packed.put(keys, np.full((64, wide), version, np.float32))
        done.set()
        reader.join(10)
    assert torn and not any(torn)


BAD = {
    r"\(5, 2\) is needed": ("users", KEYS, rows(KEYS)),
    "there is no table 'nobody'": ("nobody", KEYS, rows(KEYS)),
    "NaN or infinity": ("ads", KEYS, np.full((5, 4), np.nan)),
    "the reserved key": ("ads", np.array([-(2**63)]), rows([1])),
    "keys of float64": ("ads", KEYS * 1.0, rows(KEYS)),
}


@pytest.mark.parametrize("why", BAD)
def test_a_bad_part_keeps_the_whole_batch_out(tmp_path, why):
    with Rocks(tmp_path / "db", {"ads": 4, "users": 2}) as tier:
        good = ("ads", KEYS, rows(KEYS))
        with pytest.raises(ValueError, match=why):
            tier.write([good, BAD[why]], {"offset": 1})
        assert not tier.get("ads", KEYS)[1].any() and tier.place() is None
        assert set(tier.stamps.values()) == {b"never written"}


def test_rows_of_another_width_are_said(tmp_path):
    with Rocks(tmp_path / "db", {"ads": 4}) as tier:
        tier.load("ads", KEYS, rows(KEYS))
    tier = Rocks(tmp_path / "db", {"ads": 2}, packed=False)
    with pytest.raises(ValueError, match="are not 2 floats"), tier:
        tier.get("ads", KEYS)
    with pytest.raises(ValueError, match="another width"):
        Rocks(tmp_path / "db", {"ads": 2})


def test_a_copy_is_another_node(tmp_path):
    with Rocks(tmp_path / "db", {"ads": 4}) as tier:
        tier.load("ads", KEYS, rows(KEYS), step=2)
        tier.write([], {"offset": 3})
        tier.copy_to(tmp_path / "copy")
        with pytest.raises(ValueError, match="there already"):
            tier.copy_to(tmp_path / "copy")
        tier.write([("ads", KEYS, rows(KEYS, 1))], {"offset": 4})
    with Rocks(tmp_path / "copy", {"ads": 4}) as other:
        assert np.array_equal(other.get("ads", KEYS)[0], rows(KEYS))
        assert other.place() == {"offset": 3}


def test_a_folder_with_tables_that_nobody_named_is_refused(tmp_path):
    Rocks(tmp_path / "db", {"ads": 4}).close()
    with pytest.raises(ValueError, match="'ads'"):
        Rocks(tmp_path / "db", {"users": 4})
