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
from rolling_distance_sharded import distances, main, shard


@pytest.mark.parametrize("windows, ranks", [(10, 3), (1, 1), (2, 5), (97, 8)])
def test_shards_cover_every_window_once(windows, ranks):
    assert [j for rank in range(ranks) for j in shard(windows, rank, ranks)] == list(
        range(windows)
    )


def test_pieces_equal_the_whole(monkeypatch):
    monkeypatch.setattr("rolling_distance_sharded.PIECE", 1000)
    stream = np.random.default_rng(0).standard_normal(9000).cumsum()
    asked = []

    def read(start, stop):
        asked.append(stop - start)
        return stream[start:stop]

    queries = np.stack([stream[50:82], stream[4000:4032]])
    got = distances("zdist", queries, read, range(123, 8123))
    np.testing.assert_allclose(got, rd.zdist(queries, stream)[:, 123:8123], atol=1e-9)
    assert max(asked) == 1000 + 31


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
        np.testing.assert_array_equal(got["positions"], want.positions)
        np.testing.assert_allclose(got["distances"], want.distances, atol=1e-9)


def test_two_processes_equal_one(planted):
    arguments, want, out = planted
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    launch += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    script = Path(__file__).with_name("rolling_distance_sharded.py")
    launch += [str(script), *arguments]
    subprocess.run(launch, check=True, timeout=120, cwd=script.parent, capture_output=True)
    assert_found(out, want)


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
    assert_found(out, want)
