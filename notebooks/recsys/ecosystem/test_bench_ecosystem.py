"""The benches' own checks: what is not the same stops the race; what the receipt says."""

import json

import bench_ecosystem
import bench_hamiltonian
import numpy as np
import pytest
import torch
from helpers import bench, check
from helpers.device import Tier


def test_a_compiled_story_of_another_mean_stops_the_race():
    draw = np.random.default_rng(0)
    first, second = (type("Out", (), {"utility": draw.normal(size=(5, 6))})() for _ in "ab")
    assert bench_ecosystem.same_in_mean(first, second) < 4
    second.utility = second.utility + 3
    with pytest.raises(check.Failed, match="standard errors away"):
        bench_ecosystem.same_in_mean(first, second)


def test_samplers_that_agree_pass_and_others_stop_the_race():
    noise = torch.Generator().manual_seed(0)
    kind = {"generator": noise, "dtype": torch.float64}
    ours, theirs = torch.randn(2, 200, 4, 3, **kind)
    told = bench_hamiltonian.compared(ours, theirs)
    assert told["worst_gap_of_means"] < 4 and 0.8 < told["least_ratio_of_deviations"] < 1.2
    wrong = {
        "means differ": theirs + torch.tensor([0.0, 0.3, 0.0]),
        "deviations differ": theirs * torch.tensor([1.0, 1.0, 1.5]),
        "too few effective": theirs.cumsum(0),
    }
    for message, draws in wrong.items():
        with pytest.raises(check.Failed, match=message):
            bench_hamiltonian.compared(ours, draws)


@pytest.fixture
def told(monkeypatch, tmp_path):
    """The metrics of a race of 3 worlds and 5 steps whose contestants take known seconds."""
    seconds = {"batch": 1.0, "compiled": 0.5, "world": 4.0, "one_user": 11.0}
    labels = {bench_ecosystem.NAMES[name]: took for name, took in seconds.items()}

    def raced(contestants, repeats, warmup, reference):
        results = {
            label: bench.Measurement(s, s, s, (s,) * repeats, None, "cpu")
            for label, s in labels.items()
            if label in contestants
        }
        ratios = {name: bench.ratio(results[reference], one) for name, one in results.items()}
        return bench.Race(results, ratios, reference)

    pairs = dict.fromkeys(labels, lambda: None)
    monkeypatch.setattr(bench_ecosystem, "agree", lambda: 0.0)
    monkeypatch.setattr(bench_ecosystem, "contestants", lambda *sizes: (pairs, 0.25))
    monkeypatch.setattr(bench_ecosystem, "same_in_mean", lambda first, second: 0.0)
    monkeypatch.setattr(bench_ecosystem.bench, "race", raced)
    monkeypatch.setattr(bench_ecosystem.device, "tier", lambda: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(bench_ecosystem.torch, "set_num_threads", lambda count: None)
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    bench_ecosystem.main(["--rounds", "6", "--worlds", "3", "--steps", "5"])
    content = json.loads((tmp_path / "ecosystem.cpu.race.json").read_text())
    return {name: one["value"] for name, one in content["metrics"].items()}


def test_a_batch_of_one_second_is_eleven_times_as_fast_as_a_user_at_a_time_of_eleven(told):
    wanted = {"batch": 11, "compiled": 22, "world": 11 / 4, "one_user": 1}
    assert {name: told[f"race_{name}_over_one_user"] for name in wanted} == wanted


def test_a_rate_counts_the_steps_of_all_worlds(told):
    wanted = {"batch": 15, "compiled": 30, "world": 15 / 4, "one_user": 15 / 11}
    assert {name: told[f"rate_{name}"] for name in wanted} == pytest.approx(wanted)
