"""The benches of the model: equality before time, every contestant, the bound on a pass."""

import ast
import inspect
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import click_features
import outbrain
import polars as pl
import pytest
import torch
from click_features import with_polars
from helpers import bench, cards

from . import bench_pipeline, bench_training
from .network import Sizes

SIZES = Sizes((40, 6), (4, 2), (5,), (3,), numbers=3, hidden=(16,))


def test_contestants_train_a_pass_each(monkeypatch):
    monkeypatch.setattr(bench_training, "peer_modules", lambda: None)
    monkeypatch.setattr(bench_training.torch, "compile", lambda model: model)
    made, network = [], bench_training.WideDeep
    monkeypatch.setattr(
        bench_training, "WideDeep", lambda *of, **how: made.append(how) or network(*of, **how)
    )
    sizes = bench_training.comparable(SIZES)
    data = bench_training.draw(sizes, 64)
    assert sizes.hot_buckets == () and data["categories"].shape == (64, 2)
    pairs = bench_training.training(sizes, data, 32)
    assert list(pairs)[:2] == ["ours, dense gradients", "ours, sparse gradients"]
    assert made[:2] == [{"sparse": False}, {"sparse": True}]
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


class Peer(torch.nn.Module):
    """In the place of pytorch-widedeep's model and of its trainer, which notes what it gets."""

    fitted = []

    def __init__(self, *given, **named):
        super().__init__()
        self.given, self.named = given, named
        self.wide, self.deeptabular = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)

    def forward(self, part):
        return self.wide(part["deeptabular"][:, :1])

    def fit(self, **named):
        self.fitted.append((self, named))


def test_the_peer_has_our_sizes_and_dropout_and_its_trainer_our_batch(monkeypatch):
    made = []
    models = SimpleNamespace(
        Wide=lambda **how: how,
        TabMlp=lambda **how: how,
        WideDeep=lambda wide, deeptabular, pred_dim: (
            made.append(Peer(wide, deeptabular)) or made[-1]
        ),
    )
    monkeypatch.setattr(Peer, "fitted", [])
    monkeypatch.setattr(bench_training, "peer_modules", lambda: (models, Peer))
    monkeypatch.setattr(bench_training.shutil, "which", lambda name: None)
    sizes = bench_training.comparable(SIZES)
    data = bench_training.draw(sizes, 64)
    pairs = bench_training.training(sizes, data, 32)
    assert [name for name in pairs if name.startswith("pytorch-widedeep")] == [
        "pytorch-widedeep, model alone", "pytorch-widedeep, its Trainer",
    ]  # fmt: skip
    before = made[0].wide.weight.clone()
    pairs["pytorch-widedeep, model alone"]()
    assert not torch.equal(made[0].wide.weight, before), "in our loop its model learns"
    pairs["pytorch-widedeep, its Trainer"]()
    [(trainer, given)] = Peer.fitted
    (model, kind), how = trainer.given, trainer.named
    wide, deep = model.given
    assert wide["input_dim"] == 46 and deep["mlp_hidden_dims"] == [16]
    assert [one[1:] for one in deep["cat_embed_input"]] == [(40, 4), (6, 2)]
    assert len(deep["continuous_cols"]) == 3
    ours = inspect.signature(bench_training.WideDeep).parameters["dropout"].default
    assert deep["mlp_dropout"] == ours > 0
    assert (kind, how["device"], given["batch_size"]) == ("binary", "cpu", 32)
    assert len(given["target"]) == len(given["X_wide"]) == len(given["X_tab"]) == 64
    for part in (model.wide, model.deeptabular):
        name = "wide" if part is model.wide else "deeptabular"
        assert how["optimizers"][name].param_groups[0]["params"] == list(part.parameters())


def test_logits_are_compared_before_the_race_and_all_have_the_same_threads(
    tmp_path, monkeypatch
):
    told = []

    def raced(contestants, repeats, warmup, reference):
        told.append(("race", repeats, reference))
        times = {"ours, dense gradients": (2.0,) * 6, "pytorch-widedeep": (3.0,) * 6}
        found = {
            name: bench.Measurement(*bench.spread(each)[:3], each, None, "cpu")
            for name, each in times.items()
        }
        ratios = {name: bench.ratio(found[reference], one) for name, one in found.items()}
        return bench.Race(found, ratios, reference)

    def limit_s(sizes, rows, batch, place):
        told.append(("limit", len(sizes.hot_buckets), rows, batch, str(place)))
        return 1.0

    monkeypatch.setattr(bench_training.torch, "set_num_threads", lambda n: told.append(n))
    monkeypatch.setattr(bench_training, "peer_modules", lambda: "installed")
    monkeypatch.setattr(bench_training, "check", lambda *of: told.append(("check", *of)))
    monkeypatch.setattr(bench_training, "training", lambda *of: told.append(("made", *of)))
    monkeypatch.setattr(bench_training, "limit_s", limit_s)
    monkeypatch.setattr(bench_training.bench, "race", raced)
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    monkeypatch.setenv("REBUILT_TIER", "cpu")
    bench_training.main(["--rows", "64", "--threads", "3", "--rounds", "6"])
    threads, (_, sizes, data), (_, *same, batch, place), *rest = told
    assert threads == 3 and same[0] == sizes and same[1] is data
    assert sizes == bench_training.comparable(Sizes.published().scaled(0.1, 0.25, (256,) * 3))
    assert {len(column) for column in data.values()} == {64}
    assert (batch, str(place)) == (4096, "cpu")
    assert rest == [("race", 6, "ours, dense gradients"), ("limit", 0, 64, 4096, "cpu")]
    content = json.loads((tmp_path / "wide_deep.cpu.training.json").read_text())
    assert content["threads"] == 3 and content["sizes"] == {"rows": 64, "batch": 4096}
    rate = content["metrics"]["train_rate_ours_dense_gradients"]
    assert (rate["value"], rate["unit"]) == (32, "samples/s")


def test_a_pass_does_at_least_its_products():
    width = 4 + 2 + 3 + 3
    flops, moved = bench_training.work(SIZES, 10, 5)
    assert flops == 6 * 10 * (width * 16 + 16)
    one_step = bench_training.work(SIZES, 10, 10)[1]
    tables = 40 * 4 + 6 * 2 + 5 * 3
    assert moved - one_step == 4 * 7 * (tables + width * 16 + 16)


class Receipt:
    def __init__(self):
        self.found, self.units, self.devices = {}, {}, {}

    def record(self, name, value, unit=None, device=None, **more):
        self.found[name], self.units[name], self.devices[name] = value, unit, device


def test_ratios_are_taken_round_by_round():
    def row(engine, seconds):
        rest = {"cpu_s": 1, "peak_bytes": 1e9, "behind": 10}
        return rest | {"engine": engine, "seconds": seconds}

    receipt, pairs = Receipt(), [(30, 3), (20, 1), (50, 5)]
    runs = [
        row(name, s)
        for pair in pairs
        for name, s in zip(("torch", "spark"), pair[::-1], strict=True)
    ]
    bench_pipeline.record(receipt, runs)
    assert receipt.found["preprocess_time_spark_over_torch"] == (10, 10, 20, 3, "range")
    assert receipt.found["preprocess_time_spark"] == (30, 20, 50, 3, "range")
    assert receipt.found["end_to_end_spark_over_torch"].median == pytest.approx(40 / 13)
    assert receipt.found["end_to_end_torch"] == (13, 11, 15, 3, "range")
    assert receipt.found["preprocessing_share_spark"].median == pytest.approx(75)
    assert receipt.units["preprocess_time_spark"] == receipt.units["end_to_end_spark"] == "s"
    assert receipt.units["preprocess_memory_spark_over_torch"] == "×"
    assert not any("spark_over_spark" in name for name in receipt.found)


def test_twenty_rounds_of_two_hundred_thousand_rows_are_what_is_recorded(tmp_path, monkeypatch):
    made, asked = [], {}

    def raced(raw, rounds, behind, own, **options):
        asked.update(options, rounds=rounds, raw=raw, own=own)
        took = {"rows": 5, "seconds": 3.0, "cpu_s": 1.0, "peak_bytes": 7}
        return [
            took | {"engine": one, "behind": behind(turn)}
            for turn in range(rounds)
            for one in bench_pipeline.race.ENGINES
        ]

    monkeypatch.setattr(bench_pipeline.race, "race", raced)
    monkeypatch.setattr(bench_pipeline, "train_s", lambda features, epochs, place: 1.0 + epochs)
    for name in ("generate", "load"):
        monkeypatch.setattr(bench_pipeline.outbrain, name, lambda *given: made.append(given))
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    monkeypatch.setenv("REBUILT_TIER", "cpu")
    bench_pipeline.main(["--threads", "1"])
    assert made == [(asked["raw"], 40_000), (asked["raw"],)] and asked["rounds"] == 20
    assert asked["check"] is False and asked["threads"] == 1
    assert asked["own"] == {"torch": {"device": "cpu"}}
    content = json.loads((tmp_path / "wide_deep.cpu.pipeline.json").read_text())
    assert content["sizes"] == {"displays": 40_000, "rows": 5, "heap_mb": 2048, "epochs": 2}
    whole = content["metrics"]["end_to_end_spark"]
    assert (whole["value"], whole["repeats"], whole["interval"]) == (6, 20, "95 %")
    assert content["metrics"]["preprocess_memory_spark_over_polars"]["value"] == 1


def test_without_spark_no_ratio_is_recorded():
    receipt, rest = Receipt(), {"cpu_s": 1, "peak_bytes": 1e9, "behind": 10}
    bench_pipeline.record(receipt, [rest | {"engine": "polars", "seconds": 1}])
    assert receipt.found and not any("over" in name for name in receipt.found)


@pytest.mark.parametrize("place", ["cpu", "cuda"])
def test_a_gpu_s_gains_are_spark_s_time_and_memory_over_its_own(place):
    took = {"spark": (12.0, 9e9), "polars": (2.0, 1e9), "torch": (3.0, 3e9 / 2)}
    runs = [
        {"engine": name, "seconds": s, "cpu_s": 1, "peak_bytes": held, "behind": 1}
        for name, (s, held) in took.items()
    ]
    receipt = Receipt()
    bench_pipeline.record(receipt, runs, torch.device(place))
    gpu = place == "cuda"
    wanted = {"gpu_preprocessing_gain": 4, "gpu_preprocessing_memory_gain": 6} if gpu else {}
    found = {name: one.median for name, one in receipt.found.items() if name.startswith("gpu")}
    assert found == wanted
    here = {name for name, device in receipt.devices.items() if device == place}
    assert wanted.keys() | {"end_to_end_spark_over_torch", "preprocess_time_torch"} <= here
    assert receipt.devices["end_to_end_spark_over_polars"] == "cpu"


def test_what_answers_a_claim_about_gpus_says_on_what_it_ran():
    """Else a recording on a GPU would decide nothing."""
    notebook = next(Path(__file__).parents[1].glob("*.ipynb"))
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = "".join("".join(one["source"]) + "\n" for one in cells if one["cell_type"] == "code")
    calls = [one for one in ast.walk(ast.parse(code)) if isinstance(one, ast.Call)]
    told = {
        one.args[0].value: {word.arg for word in one.keywords}
        for one in calls
        if getattr(one.func, "attr", "") == "record" and isinstance(one.args[0], ast.Constant)
    }
    claims = cards.read(notebook.with_suffix(".yml"))["claims"]
    asked = {one["metric"] for one in claims if one["runs_on"] == "gpu" and "run" not in one}
    measured = {"evaluation_rate"}  # a Measurement brings its device
    assert asked - measured and asked <= told.keys()
    assert {name for name in asked - measured if "device" not in told[name]} == set()


def test_the_peer_s_time_stands_over_ours_round_by_round():
    took = {"ours, dense gradients": (1.0, 2.0), "pytorch-widedeep": (3.0, 4.0)}
    found = {
        name: bench.Measurement(*bench.spread(times)[:3], times, None, "cpu")
        for name, times in took.items()
    }
    receipt = Receipt()
    bench_training.record_training(receipt, bench.Race(found, {}, ""), 64, 0.75)
    assert receipt.found["speedup_over_pytorch_widedeep"][:3] == (2.5, 2, 3)
    assert receipt.found["train_share_of_limit"] == 0.5  # the limit over our median


def test_the_limit_takes_products_and_traffic_at_the_measured_peaks(monkeypatch):
    monkeypatch.setattr(
        bench_training.bench, "peak", lambda place: bench.Peak(4e3, 2e3, place, "")
    )
    flops, moved = bench_training.work(SIZES, 10, 5)
    assert bench_training.limit_s(SIZES, 10, 5) == flops / 2e3 + moved / 4e3


def test_the_training_behind_the_features_is_timed(tmp_path, monkeypatch):
    outbrain.generate(tmp_path / "raw", 150)
    with_polars.build(tmp_path / "raw", tmp_path / "features", check=False)
    rows = []
    step = bench_pipeline.Trainer.step
    monkeypatch.setattr(
        bench_pipeline.Trainer,
        "step",
        lambda own, x: rows.append(len(x["clicked"])) or step(own, x),
    )
    assert 0 < bench_pipeline.train_s(tmp_path / "features", 2, batch=100) < 60
    parts = click_features.paths(tmp_path / "features", "train")
    assert sum(rows) == 2 * pl.read_parquet(parts).height and max(rows) == 100
    assert torch.is_grad_enabled()
