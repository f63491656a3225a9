"""The benches of the model: equality before time, every contestant, the bound on a pass."""

import shutil

import outbrain
import pytest
import torch
from click_features import with_polars
from helpers import bench

from . import bench_pipeline, bench_training
from .network import Sizes

SIZES = Sizes((40, 6), (4, 2), (5,), (3,), numbers=3, hidden=(16,))


def test_contestants_train_a_pass_each(monkeypatch):
    monkeypatch.setattr(bench_training, "peer_modules", lambda: None)
    monkeypatch.setattr(bench_training.torch, "compile", lambda model: model)
    sizes = bench_training.comparable(SIZES)
    data = bench_training.draw(sizes, 64)
    assert sizes.hot_buckets == () and data["categories"].shape == (64, 2)
    pairs = bench_training.training(sizes, data, 32)
    assert list(pairs)[:2] == ["ours, dense gradients", "ours, sparse gradients"]
    assert ("ours, dense gradients, compiled" in pairs) == bool(shutil.which("c++"))
    for epoch in pairs.values():
        epoch()


def test_a_peer_is_held_against_us_before_the_clock_starts(monkeypatch):
    if not bench_training.peer_modules():
        pytest.skip("pytorch-widedeep is not installed")
    sizes = bench_training.comparable(SIZES)
    data = bench_training.draw(sizes, 64)
    bench_training.check(sizes, data)
    monkeypatch.setattr(bench_training.torch, "compile", lambda model: model)
    for epoch in bench_training.training(sizes, data, 32).values():
        epoch()


def test_a_pass_does_at_least_its_products():
    width = 4 + 2 + 3 + 3
    flops, moved = bench_training.work(SIZES, 10, 5)
    assert flops == 6 * 10 * (width * 16 + 16)
    one_step = bench_training.work(SIZES, 10, 10)[1]
    tables = 40 * 4 + 6 * 2 + 5 * 3
    assert moved - one_step == 4 * 7 * (tables + width * 16 + 16)


class Receipt:
    def __init__(self):
        self.found, self.units = {}, {}

    def record(self, name, value, unit=None, **more):
        self.found[name], self.units[name] = value, unit


def test_ratios_are_taken_round_by_round():
    def row(engine, seconds):
        rest = {"cpu_s": 1, "peak_bytes": 1e9, "behind": 10}
        return rest | {"engine": engine, "seconds": seconds}

    receipt, pairs = Receipt(), [(30, 3), (20, 1), (50, 5)]
    runs = [
        row(name, s) for pair in pairs for name, s in zip(("spark", "torch"), pair, strict=True)
    ]
    bench_pipeline.record(receipt, runs)
    assert receipt.found["preprocess_time_spark_over_torch"] == (10, 10, 20, 3, "range")
    assert receipt.found["preprocess_time_spark"] == (30, 20, 50, 3, "range")
    assert receipt.found["end_to_end_spark_over_torch"].median == pytest.approx(40 / 13)
    assert receipt.found["preprocessing_share_spark"].median == pytest.approx(75)
    assert receipt.units["preprocess_time_spark"] == "s"


@pytest.mark.parametrize("gpu", [False, True])
def test_a_gpu_s_gains_are_spark_s_time_and_memory_over_its_own(gpu):
    took = {"spark": (12.0, 9e9), "polars": (2.0, 1e9), "torch": (3.0, 3e9 / 2)}
    runs = [
        {"engine": name, "seconds": s, "cpu_s": 1, "peak_bytes": held, "behind": 1}
        for name, (s, held) in took.items()
    ]
    receipt = Receipt()
    bench_pipeline.record(receipt, runs, gpu=gpu)
    wanted = {"gpu_preprocessing_gain": 4, "gpu_preprocessing_memory_gain": 6} if gpu else {}
    found = {name: one.median for name, one in receipt.found.items() if name.startswith("gpu")}
    assert found == wanted


def test_the_peer_s_time_stands_over_ours_round_by_round():
    took = {"ours, dense gradients": (1.0, 2.0), "pytorch-widedeep": (3.0, 4.0)}
    found = {
        name: bench.Measurement(*bench.spread(times)[:3], times, None, "cpu")
        for name, times in took.items()
    }
    receipt = Receipt()
    bench_training.record_training(receipt, bench.Race(found, {}, ""), 64, 1.0)
    assert receipt.found["speedup_over_pytorch_widedeep"][:3] == (2.5, 2, 3)


def test_the_training_behind_the_features_is_timed(tmp_path):
    outbrain.generate(tmp_path / "raw", 150)
    with_polars.build(tmp_path / "raw", tmp_path / "features", check=False)
    assert 0 < bench_pipeline.train_s(tmp_path / "features", 1) < 60
    assert torch.is_grad_enabled()
