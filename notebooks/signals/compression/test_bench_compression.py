"""The race of codecs: what is a rate of decoding, what of encoding, and of which bytes."""

import json
from types import SimpleNamespace

import bench_compression as bench_of
import numpy as np
import pytest
import torch
from helpers import bench, check, receipts
from helpers.device import Tier

COLUMN = np.arange(100)  # 800 bytes
ROUNDS = SimpleNamespace(rounds=6, threads=1)


@pytest.fixture(autouse=True)
def two_and_four_seconds(monkeypatch):
    """A call that returns a column takes 2 s, one that returns packed bytes 4 s."""

    def raced(contestants, repeats, device=None):
        results = {}
        for name, call in contestants.items():
            s = 4.0 if isinstance(call(), bytes) else 2.0
            results[name] = bench.Measurement(s, s, s, (s,) * repeats, None, "cpu")
        first = next(iter(results))
        ratios = {name: bench.ratio(results[first], one) for name, one in results.items()}
        return bench.Race(results, ratios, first)

    monkeypatch.setattr(bench_of.bench, "race", raced)


def doubled(column, threads):
    """A peer whose packed bytes are twice the column's."""
    raw = column.tobytes()
    return {"twice-3": (lambda: raw + raw, lambda packed: bytearray(packed[: len(raw)]))}


@pytest.fixture
def told(monkeypatch):
    """The metrics of a race over the column, a peer beside ours."""
    monkeypatch.setattr(bench_of, "peers", doubled)
    receipt = receipts.start("compression", "cpu", 1)
    bench_of.race_column("order key", COLUMN, ROUNDS, "cpu", receipt)
    return {name: one["value"] for name, one in receipt.metrics.items()}


def test_800_bytes_decoded_in_2_s_are_400_a_second(told):
    assert told["order_key_cascaded_decode_rate"] == 400
    assert told["order_key_twice_3_decode_rate"] == 400


def test_800_bytes_encoded_in_4_s_are_200_a_second(told):
    assert told["order_key_cascaded_encode_rate"] == 200
    assert told["order_key_twice_3_encode_rate"] == 200


def test_a_ratio_is_above_one_where_bytes_are_saved(told):
    frame = bench_of.cascaded.compress(torch.from_numpy(COLUMN))
    assert told["order_key_cascaded_ratio"] == 800 / len(frame) > 1
    assert told["order_key_twice_3_ratio"] == 0.5


def test_a_peer_that_returns_other_bytes_stops_the_race(monkeypatch):
    wrong = {"wrong": (lambda: b"packed", lambda packed: bytes(800))}
    monkeypatch.setattr(bench_of, "peers", lambda column, threads: wrong)
    receipt = receipts.start("compression", "cpu", 1)
    with pytest.raises(check.Failed, match="order key: wrong differs"):
        bench_of.race_column("order key", COLUMN, ROUNDS, "cpu", receipt)


def test_the_claimed_rate_is_of_decoding_the_steps(monkeypatch, tmp_path):
    """Every column has its own number of bytes; of `steps` there are 4 a row."""
    few = np.zeros(10, np.int32)
    monkeypatch.setattr(bench_of.data, "fetch", lambda name: name)
    monkeypatch.setattr(bench_of.columns, "links", lambda folder: (few, few[:9]))
    monkeypatch.setattr(bench_of.columns, "ecg", lambda folder: few[:8])
    monkeypatch.setattr(bench_of.columns, "pixels", lambda folder: few[:6].reshape(2, 3))
    monkeypatch.setattr(bench_of.columns, "text", lambda folder: few[:7])
    monkeypatch.setattr(bench_of.columns, "generated", lambda rows: {"order key": few[:5]})
    monkeypatch.setattr(bench_of, "peers", lambda column, threads: {})
    monkeypatch.setattr(bench_of.device, "tier", lambda: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(bench_of.torch, "set_num_threads", lambda count: None)
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    bench_of.main(["--rows", "101", "--rounds", "6"])
    content = json.loads((tmp_path / "compression.cpu.race.json").read_text())
    found = {name: one["value"] for name, one in content["metrics"].items()}
    assert found["cascaded_decode_rate"] == 4 * 101 / 2
    assert found["steps_cascaded_decode_rate"] == found["cascaded_decode_rate"]
    assert found["ecg_cascaded_decode_rate"] == 4 * 8 / 2
