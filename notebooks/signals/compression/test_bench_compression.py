"""The race of codecs: what is a rate of decoding, what of encoding, and of which bytes."""

import json
import sys
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
    """Who returns a column takes 2 s, who returns packed bytes 4 s, the checks half of one."""

    def raced(contestants, repeats, device=None):
        results = {}
        for name, call in contestants.items():
            s = {"checks": 0.5}.get(name, 4.0 if isinstance(call(), bytes) else 2.0)
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


def test_checks_of_half_a_second_are_a_quarter_of_decoding(told):
    assert told["order_key_cascaded_checks_share"] == 0.25
    assert told["order_key_cascaded_copy_share"] == 1


def test_a_peer_that_returns_other_bytes_stops_the_race(monkeypatch):
    wrong = {"wrong": (lambda: b"packed", lambda packed: bytes(800))}
    monkeypatch.setattr(bench_of, "peers", lambda column, threads: wrong)
    receipt = receipts.start("compression", "cpu", 1)
    with pytest.raises(check.Failed, match="order key: wrong differs"):
        bench_of.race_column("order key", COLUMN, ROUNDS, "cpu", receipt)


@pytest.mark.parametrize(("threads", "run"), [(1, "race_1"), (2, "race")])
def test_the_claimed_rate_is_of_decoding_the_steps(monkeypatch, tmp_path, threads, run):
    """Every column has its own number of bytes; of `steps` there are 4 a row."""
    few, used, ours = np.zeros(10, np.int32), [], []
    monkeypatch.setattr(bench_of.data, "fetch", lambda name: name)
    monkeypatch.setattr(bench_of.columns, "links", lambda folder: (few, few[:9]))
    monkeypatch.setattr(bench_of.columns, "ecg", lambda folder: few[:8])
    monkeypatch.setattr(bench_of.columns, "pixels", lambda folder: few[:6].reshape(2, 3))
    monkeypatch.setattr(bench_of.columns, "text", lambda folder: few[:7])
    monkeypatch.setattr(bench_of.columns, "generated", lambda rows: {"order key": few[:5]})
    monkeypatch.setattr(bench_of, "peers", lambda *told: used.append(told[1]) or {})
    monkeypatch.setattr(bench_of.device, "cores", lambda: 2)
    monkeypatch.setattr(bench_of.device, "tier", lambda: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(bench_of.torch, "set_num_threads", ours.append)
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    bench_of.main(["--rows", "101", "--rounds", "6", "--threads", str(threads)])
    assert set(used) == {threads} and ours == [threads]
    content = json.loads((tmp_path / f"compression.cpu.{run}.json").read_text())
    found = {name: one["value"] for name, one in content["metrics"].items()}
    assert found["cascaded_decode_rate"] == 4 * 101 / 2
    assert found["steps_cascaded_decode_rate"] == found["cascaded_decode_rate"]
    assert found["ecg_cascaded_decode_rate"] == 4 * 8 / 2


class Module:
    """A peer's module that keeps what its functions are told."""

    Filter = SimpleNamespace(BITSHUFFLE="bitshuffle")
    Codec = {"ZSTD": "zstd", "LZ4": "lz4"}

    def __init__(self, told, name=""):
        self.told, self.name = told, name

    def __getattr__(self, name):
        whole = f"{self.name}.{name}".strip(".")
        if name in ("snappy", "zstd"):
            return Module(self.told, whole)
        return lambda *given, **more: self.told.append((whole, given, more)) or b"packed"


@pytest.fixture
def asked(monkeypatch):
    """What peers are asked, as (function, arguments, options), once their modules are there."""
    told, pcodec = [], SimpleNamespace(ChunkConfig=lambda: "default")
    pcodec.standalone = Module(told)
    modules = dict.fromkeys(("lz4.block", "cramjam", "blosc2"), Module(told))
    found = SimpleNamespace(import_module=(modules | {"pcodec": pcodec}).get)
    monkeypatch.setattr(bench_of, "importlib", found)
    monkeypatch.setitem(sys.modules, "pcodec", pcodec)
    return told


def test_each_peer_packs_the_column_by_its_own_best_settings(asked):
    column = np.arange(100, dtype=np.int32)
    raw, blosc = column.tobytes(), {"filters": ["bitshuffle"], "clevel": 5}
    blosc |= {"typesize": 4, "nthreads": 3}
    wanted = {
        "lz4": ("compress", (raw,), {}),
        "snappy": ("snappy.compress_raw", (raw,), {}),
        "zstd-3": ("zstd.compress", (raw, 3), {}),
        "blosc2": ("compress2", (raw,), blosc | {"codec": "zstd"}),
        "blosc2-lz4": ("compress2", (raw,), blosc | {"codec": "lz4"}),
        "pcodec": ("simple_compress", (column, "default"), {}),
    }
    found = bench_of.peers(column, 3)
    assert list(found) == list(wanted)
    assert ("set_nthreads", (3,), {}) in asked
    for name, (encode, _) in found.items():
        asked.clear()
        assert encode() == b"packed" and asked == [wanted[name]], name


def test_each_peer_unpacks_with_its_own_decoder(asked):
    wanted = {
        "lz4": ("decompress", {}),
        "snappy": ("snappy.decompress_raw", {}),
        "zstd-3": ("zstd.decompress", {"output_len": 400}),
        "blosc2": ("decompress2", {}),
        "blosc2-lz4": ("decompress2", {}),
        "pcodec": ("simple_decompress", {}),
    }
    for name, (_, decode) in bench_of.peers(np.arange(100, dtype=np.int32), 1).items():
        asked.clear()
        decode(b"given")
        function, more = wanted[name]
        assert asked == [(function, (b"given",), more)], name


def test_pcodec_takes_no_bytes_and_who_is_missing_is_left_out(asked, monkeypatch):
    assert "pcodec" not in bench_of.peers(np.arange(9, dtype=np.uint8), 1)

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(bench_of, "importlib", SimpleNamespace(import_module=missing))
    assert bench_of.peers(COLUMN, 1) == {}
