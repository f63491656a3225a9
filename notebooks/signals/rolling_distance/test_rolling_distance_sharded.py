"""Shards: two real processes give the result of one, also where a match lies on the border
between them."""

import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rolling_distance as rd
import torch
from helpers import bench
from rolling_distance_sharded import candidates, main, shard


@pytest.mark.parametrize("windows, ranks", [(10, 3), (1, 1), (2, 5), (97, 8)])
def test_shards_cover_every_window_once(windows, ranks):
    assert [j for rank in range(ranks) for j in shard(windows, rank, ranks)] == list(
        range(windows)
    )


def test_pieces_keep_the_nearest_windows_of_the_whole(monkeypatch):
    monkeypatch.setattr("rolling_distance_sharded.PIECE", 2000)
    stream = np.random.default_rng(0).standard_normal(9000).cumsum()
    asked = []

    def read(start, stop):
        asked.append(stop - start)
        return stream[start:stop]

    queries = np.stack([stream[50:82], stream[4000:4032]])
    got = candidates(queries, read, range(123, 8123), 500)
    for found, whole in zip(got, rd.zdist(queries, stream)[:, 123:8123], strict=True):
        order = np.argsort(whole)[:500]
        np.testing.assert_array_equal(np.sort(found.positions), np.sort(order) + 123)
        np.testing.assert_allclose(found.distances, whole[order], atol=1e-9)
    assert max(asked) == 1000 + 31
    (nothing, _) = candidates(queries, read, range(0), 500)  # a rank without windows
    assert len(nothing.positions) == 0


def test_memory_does_not_grow_with_the_stream(monkeypatch):
    monkeypatch.setattr("rolling_distance_sharded.PIECE", 1 << 18)
    part = np.random.default_rng(2).standard_normal(1 << 19).cumsum()

    def read(start, stop):
        return np.take(part, np.arange(start, stop), mode="wrap")

    rises = []
    for windows in (1 << 19, 1 << 21):  # at 8 bytes each the second would take 12 MB more
        run = lambda n=windows: candidates(part[:64], read, range(n), 5000)  # noqa: E731
        rises.append(bench.measure(run, repeats=1, warmup=1).peak_bytes)
    assert rises[1] < rises[0] + 6e6


@pytest.fixture
def planted(tmp_path):
    """A stream (.npy) with near-copies of a query whose zones cross the border between two
    ranks, the script's arguments, and the right answer."""
    rng = np.random.default_rng(1)
    stream, query = rng.standard_normal(20_000), rng.standard_normal(101)
    border = (len(stream) - 100) // 2
    for at, noise in (
        (border - 40, 0.3),
        (border - 200, 0.5),
        (border + 55, 0.4),
        (15_000, 0.1),
    ):
        stream[at : at + 101] = query + noise * rng.standard_normal(101)
    np.save(tmp_path / "stream.npy", stream)
    np.save(tmp_path / "query.npy", query)
    arguments = [f"--{name}={tmp_path / name}.npy" for name in ("stream", "query")]
    arguments += [f"--out={tmp_path / 'out.npz'}", "--matches=20"]
    return arguments, rd.top_matches(rd.zdist(query, stream), 20, 101), tmp_path / "out.npz"


def assert_found(path, want):
    with np.load(path) as got:
        np.testing.assert_array_equal(got["positions"], want[0])
        np.testing.assert_allclose(got["distances"], want[1], atol=1e-9)


def test_two_processes_equal_one_for_many_queries(planted):
    arguments, want, out = planted
    query, stream = (np.load(out.with_name(f"{name}.npy")) for name in ("query", "stream"))
    queries = np.stack([query, stream[200:301]])
    np.save(out.with_name("query.npy"), queries)
    other = rd.top_matches(rd.zdist(queries[1], stream), 20, 101)
    want = (np.stack(pair) for pair in zip(want, other, strict=True))
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    launch += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    script = Path(__file__).with_name("rolling_distance_sharded.py")
    launch += [str(script), *arguments]
    subprocess.run(launch, check=True, timeout=120, cwd=script.parent, capture_output=True)
    assert_found(out, list(want))
    assert np.load(out)["peak_bytes"].shape == (2, 2)


@pytest.mark.skipif(torch.cuda.is_available(), reason="gloo in this process")
def test_one_process_is_a_group_too(planted, monkeypatch):
    arguments, want, out = planted
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    group = {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    for name, value in group.items():
        monkeypatch.setenv(name, str(value))
    main(arguments)
    assert_found(out, [column[None] for column in want])
