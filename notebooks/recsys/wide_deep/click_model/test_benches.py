"""The benches of the model: equality before time, every contestant, the bound on a pass."""

import outbrain
import pytest
import torch

from . import bench_pipeline, bench_training
from .network import Sizes

SIZES = Sizes((40, 6), (4, 2), (5,), (3,), numbers=3, hidden=(16,))


def test_contestants_train_a_pass_each(monkeypatch):
    monkeypatch.setattr(bench_training, "peer_modules", lambda: None)
    sizes = bench_training.comparable(SIZES)
    data = bench_training.draw(sizes, 64)
    assert sizes.hot_buckets == () and data["categories"].shape == (64, 2)
    pairs = bench_training.training(sizes, data, 32)
    assert list(pairs) == ["ours, dense gradients", "ours, sparse gradients"]
    for epoch in pairs.values():
        epoch()


def test_a_peer_is_held_against_us_before_the_clock_starts():
    if not bench_training.peer_modules():
        pytest.skip("pytorch-widedeep is not installed")
    sizes = bench_training.comparable(SIZES)
    data = bench_training.draw(sizes, 64)
    bench_training.check(sizes, data)
    for epoch in bench_training.training(sizes, data, 32).values():
        epoch()


def test_a_pass_does_at_least_its_products():
    width = 4 + 2 + 3 + 3
    flops, moved = bench_training.work(SIZES, 10, 5)
    assert flops == 6 * 10 * (width * 16 + 16)
    one_step = bench_training.work(SIZES, 10, 10)[1]
    tables = 40 * 4 + 6 * 2 + 5 * 3
    assert moved - one_step == 4 * 7 * (tables + width * 16 + 16)


def test_the_whole_way_is_timed_behind_each_engine(tmp_path):
    outbrain.generate(tmp_path / "raw", 150)
    found = bench_pipeline.ways(tmp_path / "raw", ["polars"], 1, threads=1, epochs=1)
    assert list(found) == ["polars"] and len(found["polars"]) == 1
    assert found["polars"][0] > 0 and torch.is_grad_enabled()
