"""One suite for all tiers, then what is each one's own: eviction, batches, death, bad input."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from . import InProcess, RedisServer, RedisTier, Rocks, TierDown

KEYS = np.array([5, -3, 2**62, 0, 17])


def rows(keys, version=0.0, width=4):
    return (np.asarray(keys)[:, None] % 1000 + version + np.arange(width)).astype(np.float32)


@pytest.fixture(scope="module")
def server():
    if not RedisServer.there():
        pytest.skip("no redis-server here")
    with RedisServer() as server:
        yield server


@pytest.fixture(params=["in process", "redis", "rocks"])
def tier(request, tmp_path):
    if request.param == "in process":
        yield InProcess(100)
    elif request.param == "redis":
        tier = RedisTier(request.getfixturevalue("server").address, 100)
        tier.clear()
        yield tier
        tier.close()
    else:
        with Rocks(tmp_path / "db", {"ads": 4, "users": 4}) as tier:
            tier.put = lambda table, keys, vectors: tier.write([(table, keys, vectors)])
            yield tier


def test_what_was_put_comes_back_and_nothing_else(tier):
    tier.put("ads", KEYS, rows(KEYS))
    vectors, found = tier.get("ads", np.array([17, 99, 5, -3]))
    assert found.tolist() == [True, False, True, True]
    assert vectors.tolist() == [rows([17])[0].tolist(), [0] * 4, *rows([5, -3]).tolist()]
    assert not tier.get("users", KEYS)[1].any(), "tables are apart"
    assert len(tier.get("ads", KEYS[:0])[1]) == 0


def test_of_equal_keys_the_last_counts(tier):
    tier.put("ads", np.array([1, 2, 1]), np.concatenate([rows([1, 2]), rows([1], 500)]))
    assert tier.get("ads", np.array([1]))[0][0, 0] == 501


@pytest.mark.parametrize("kind", ["in process", "redis"])
def test_refresh_touches_only_what_is_held(kind, request):
    tier = InProcess(100)
    if kind == "redis":
        tier = RedisTier(request.getfixturevalue("server").address, 100)
        tier.clear()
    tier.refresh("ads", np.array([3]), rows([3], 500))
    tier.put("ads", np.array([3]), rows([3]))
    tier.refresh("ads", np.array([3, 4]), rows([3, 4], 500))
    vectors, found = tier.get("ads", np.array([3, 4]))
    assert vectors[0, 0] == 503 and found.tolist() == [True, False] and tier.count("ads") == 1
    tier.clear()
    assert tier.count("ads") == 0


@pytest.mark.parametrize("kind", ["in process", "redis"])
def test_a_full_tier_evicts_to_its_target(kind, request):
    tier = InProcess(100)
    if kind == "redis":
        tier = RedisTier(request.getfixturevalue("server").address, 100)
        tier.clear()
    keys = np.arange(100)
    tier.put("ads", keys, rows(keys))
    assert tier.count("ads") == 100
    tier.get("ads", keys[::2])
    tier.put("ads", np.arange(200, 210), rows(np.arange(200, 210)))
    assert 80 <= tier.count("ads") <= 100
    vectors, found = tier.get("ads", np.arange(300))
    assert np.array_equal(vectors[found], rows(np.flatnonzero(found)))
    if kind == "in process":
        assert found[:100:2].all() and found[200:210].all(), "what was read stays"


def test_more_than_a_tier_holds_leaves_the_newest():
    tier = InProcess(10)
    tier.put("ads", np.arange(1000), rows(np.arange(1000)))
    vectors, found = tier.get("ads", np.arange(1000))
    assert found[999] and found.sum() <= 10
    assert np.array_equal(vectors[found], rows(np.flatnonzero(found)))
    with pytest.raises(ValueError, match="1 or more"):
        InProcess(0)


def test_a_killed_redis_is_down_and_comes_back_empty():
    if not RedisServer.there():
        pytest.skip("no redis-server here")
    with RedisServer() as server:
        tier = RedisTier(server.address, 100)
        tier.put("ads", KEYS, rows(KEYS))
        server.kill()
        for call in (lambda: tier.get("ads", KEYS), lambda: tier.put("ads", KEYS, rows(KEYS))):
            with pytest.raises(TierDown, match="does not answer"):
                call()
        server.start()
        assert not tier.get("ads", KEYS)[1].any()
        tier.close()


def test_a_redis_that_hangs_is_down_soon(server):
    tier = RedisTier(server.address, 100, timeout_s=0.1)
    tier.client.ping()
    server.process.send_signal(19)  # stopped, not dead
    try:
        with pytest.raises(TierDown):
            tier.get("ads", KEYS)
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


def test_vectors_and_place_survive_a_new_start(tmp_path):
    with Rocks(tmp_path / "db", {"ads": 4}) as tier:
        assert tier.place() is None
        tier.write([("ads", KEYS, rows(KEYS))], {"offset": 7})
    with Rocks(tmp_path / "db", {"ads": 4, "users": 2}) as tier:
        assert tier.place() == {"offset": 7} and np.array_equal(
            tier.get("ads", KEYS)[0], rows(KEYS)
        )


def test_a_bad_part_keeps_the_whole_batch_out(tmp_path):
    with Rocks(tmp_path / "db", {"ads": 4, "users": 2}) as tier:
        good, bad = ("ads", KEYS, rows(KEYS)), ("users", KEYS, rows(KEYS))
        with pytest.raises(ValueError, match=r"\(5, 2\) is needed"):
            tier.write([good, bad], {"offset": 1})
        with pytest.raises(ValueError, match="there is no table 'nobody'"):
            tier.write([good, ("nobody", KEYS, rows(KEYS))], {"offset": 1})
        assert not tier.get("ads", KEYS)[1].any() and tier.place() is None


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
