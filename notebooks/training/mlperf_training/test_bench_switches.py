"""Switches are raced alone and one after the other, on equal answers; the account's bytes."""

import json
from copy import deepcopy
from dataclasses import asdict, replace

import bench_switches as race_of
import pytest
import step_switches as ss
import torch


def on(switches):
    return {name for name, is_on in asdict(switches).items() if is_on}


def test_each_step_of_the_waterfall_adds_one_switch():
    made = race_of.waterfall()
    assert list(made) == list(race_of.ORDER)
    for at, switches in enumerate(made.values()):
        assert on(switches) == set(race_of.ORDER[: at + 1])
    assert {*race_of.ALONE} == set(ss.Switches.__dataclass_fields__)


def test_contestants_have_the_switches_and_cores_that_they_are_named_for(monkeypatch):
    seen = []
    monkeypatch.setattr(
        ss, "run", lambda m, d, h, on, plan: seen.append((on, torch.get_num_threads()))
    )
    runs = race_of.contestants("model", None, None, ss.Plan())
    before = torch.get_num_threads()
    for name, run in runs.items():
        run()
        got, threads = seen.pop()
        assert threads == (2 if name == "both_cores" else 1)
        if name.endswith("_alone"):
            assert on(got) == {name.removesuffix("_alone")}
        elif name.endswith("_added"):
            assert got == race_of.waterfall()[name.removesuffix("_added")]
        else:
            assert not on(got)
    torch.set_num_threads(before)


def test_other_answers_are_found():
    model, data, held = race_of.job()
    plan = ss.Plan(steps=2, batch=1, falls=(1,))
    runs = {
        "baseline": lambda: ss.run(deepcopy(model), data, held, ss.Switches(), plan),
        "other": lambda: ss.run(
            deepcopy(model), data, held, ss.Switches(), replace(plan, rate=0.5)
        ),
    }
    race_of.agree({"baseline": runs["baseline"]})
    with pytest.raises(AssertionError, match="differ"):
        race_of.agree(runs)


def test_the_account_counts_bytes_of_the_shapes():
    given = race_of.job()
    found = race_of.account(*given, ss.Plan(steps=4, batch=3))
    cells = 4 * 3 * 32 * 32  # steps, pictures, a grid
    assert found["fused_gelu"] == (16 * cells * 256, 0)
    assert found["bool_mask"] == (4 * cells * (32 + 2 * 64), 0)
    assert found["folded_norm"] == (24 * cells * 160, 0)
    assert found["pooled"] == (12 * sum(one.numel() for one in given[1][0]), 0)
    # multiply-adds of 8 pictures, twice: convolutions, then the head's two products
    layers = 9 * 32 + 2 * (32 * 16 + 9 * 16 * 16 + 16 * 32) + 32 * 256 + 256 * 5
    assert found["asynchronous"] == (0, 2 * 2 * 8 * 1024 * layers)
    assert found["held_back"][1] * 2 == found["asynchronous"][1]


def test_a_prediction_adds_the_time_of_bytes_and_of_products(monkeypatch):
    peak = race_of.bench.Peak(2e9, 1e12, "cpu", "float32")
    monkeypatch.setattr(race_of.bench, "peak", lambda where: peak)
    monkeypatch.setattr(race_of, "account", lambda *given: {"a": (4e6, 3e9), "b": (2e6, 0)})
    assert race_of.predicted() == pytest.approx({"a": 5.0, "b": 1.0})


def test_a_contestant_in_half_the_time_is_twice_as_fast(monkeypatch, tmp_path):
    def raced(ways, repeats, warmup, reference, device):
        made = race_of.bench.Measurement
        took = {name: 1.0 if name == "fused_gelu_alone" else 2.0 for name in ways}
        results = {n: made(t, t, t, (t,) * repeats, None, "cpu") for n, t in took.items()}
        ratios = {n: race_of.bench.ratio(results[reference], one) for n, one in results.items()}
        return race_of.bench.Race(results, ratios, reference)

    monkeypatch.setattr(race_of.bench, "race", raced)
    monkeypatch.setattr(race_of, "agree", lambda runs: None)
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    before = torch.get_num_threads()
    race_of.main(["--rounds", "6", "--steps", "2"])
    torch.set_num_threads(before)
    found = json.loads(next(tmp_path.glob("*.json")).read_text())["metrics"]
    assert found["switch_fused_gelu_alone"]["value"] == 2
    assert found["switch_fused_gelu_added"]["value"] == 1
    assert found["switches_baseline_time"]["value"] == 2
    assert all(found[f"switch_{name}_predicted"]["value"] > 0 for name in race_of.ALONE)


def test_what_is_held_out_is_in_no_batch():
    _, data, held = race_of.job()
    known = [one.flatten() for one in ss.ready(data)[0]]
    assert not any(torch.equal(one.flatten(), other) for one in held[0] for other in known)
    assert len(held[0]) == race_of.HELD and len(data[0]) == race_of.PICTURES
