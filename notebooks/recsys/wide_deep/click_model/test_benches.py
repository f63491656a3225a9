"""The benches of the model: equality before time, every contestant, the bound on a pass."""

import shutil

import numpy as np
import outbrain
import pytest
import torch
from click_features import with_polars

from . import bench_map, bench_pipeline, bench_training
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
        self.found = {}

    def record(self, name, value, unit, low=None, high=None, repeats=None):
        self.found[name] = value


def test_ratios_are_taken_round_by_round():
    def row(engine, seconds):
        rest = {"cpu_s": 1, "peak_bytes": 1e9, "behind": 10}
        return rest | {"engine": engine, "seconds": seconds}

    receipt, pairs = Receipt(), [(30, 3), (20, 1), (50, 5)]
    runs = [
        row(name, s) for pair in pairs for name, s in zip(("spark", "torch"), pair, strict=True)
    ]
    bench_pipeline.record(receipt, runs)
    assert receipt.found["preprocess_time_spark_over_torch"] == 10
    assert receipt.found["preprocess_time_spark"] == 30
    assert receipt.found["end_to_end_spark_over_torch"] == pytest.approx(40 / 13)
    assert receipt.found["preprocessing_share_spark"] == pytest.approx(75)


def test_the_training_behind_the_features_is_timed(tmp_path):
    outbrain.generate(tmp_path / "raw", 150)
    with_polars.build(tmp_path / "raw", tmp_path / "features", check=False)
    assert 0 < bench_pipeline.train_s(tmp_path / "features", 1) < 60
    assert torch.is_grad_enabled()


def test_the_truth_says_what_noise_costs(tmp_path):
    x = np.arange(5.0)
    np.testing.assert_allclose(
        bench_map.best_line(x[:, None], 3 * x - 1), 3 * x - 1, atol=1e-12
    )
    found = bench_map.ceilings(*bench_map.data_of(900, tmp_path))
    assert found["appeal"] > found["noisy"] > found["popularity"]
    assert found["seen"] > min(found["noisy_match"], found["noisy_quality"])
