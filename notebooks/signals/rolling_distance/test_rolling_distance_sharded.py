"""Shards: two real processes give the result of one, also where a match lies on the border
between them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rolling_distance as rd
from rolling_distance_sharded import distances, shard


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


@pytest.mark.parametrize("ranks", [1, 2])
def test_processes_equal_one(tmp_path, ranks):
    rng = np.random.default_rng(1)
    stream, query = rng.standard_normal(20_000), rng.standard_normal(101)
    border = (
        len(stream) - 100
    ) // 2  # plant near-copies so that zones cross the border between two ranks
    for at, noise in (
        (border - 40, 0.3),
        (border - 200, 0.5),
        (border + 55, 0.4),
        (15_000, 0.1),
    ):
        stream[at : at + 101] = query + noise * rng.standard_normal(101)
    np.save(tmp_path / "stream.npy", stream)
    np.save(tmp_path / "query.npy", query)
    script = Path(__file__).with_name("rolling_distance_sharded.py")
    files = [
        "--stream",
        tmp_path / "stream.npy",
        "--query",
        tmp_path / "query.npy",
        "--out",
        tmp_path / "out.npz",
    ]
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    launch += [
        "--rdzv-backend",
        "c10d",
        "--rdzv-endpoint",
        "127.0.0.1:0",
        script,
        *files,
        "--matches",
        "20",
    ]
    subprocess.run(
        [str(part) for part in launch],
        check=True,
        timeout=120,
        cwd=script.parent,
        capture_output=True,
    )
    want = rd.top_matches(rd.zdist(query, stream), 20, 101)
    with np.load(tmp_path / "out.npz") as got:
        np.testing.assert_array_equal(got["positions"], want.positions)
        np.testing.assert_allclose(got["distances"], want.distances, atol=1e-9)
