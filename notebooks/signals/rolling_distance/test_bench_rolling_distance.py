"""What the race records: a peer's time over ours, alignments a second, each way's own curve."""

import math

import bench_rolling_distance as race_of
import pytest
import torch
from helpers import bench, receipts

SECONDS = {"ours_float64": 1.0, "ours_float32": 0.5, "sdist": 0.25, "mdist": 0.2}
SECONDS |= {"stumpy": 3.0, "ready_stumpy": 2.0, "torch_float64": 4.0, "torch_float32": 2.5}


@pytest.fixture
def told():
    """The metrics of a race over ten points whose contestants take the seconds above."""
    results = {
        race_of.LABELS[name]: bench.Measurement(s, s, s, (s,) * 6, None, "cpu")
        for name, s in SECONDS.items()
    }
    ours = race_of.LABELS["ours_float64"]
    ratios = {name: bench.ratio(results[ours], one) for name, one in results.items()}
    receipt = receipts.start("rolling_distance", "cpu", 1)
    race_of.record_race(receipt, bench.Race(results, ratios, ours), 10)
    return {name: one["value"] for name, one in receipt.metrics.items()}


@pytest.mark.parametrize(("kind", "wanted"), [("float64", (3, 2, 4)), ("float32", (6, 4, 5))])
def test_a_speedup_is_the_peer_s_time_over_ours(told, kind, wanted):
    peers = "stumpy", "ready_stumpy", "torch"
    assert tuple(told[f"speedup_over_{peer}_{kind}"] for peer in peers) == wanted


def test_a_rate_is_of_all_points_in_the_measure_s_own_time(told):
    wanted = {"zdist_float64": 10, "zdist_float32": 20, "sdist_float64": 40}
    wanted |= {"mdist_float64": 50}
    assert {name: told[f"{name}_rate"] for name in wanted} == pytest.approx(wanted)


def test_each_way_s_curve_is_of_its_own_least_times(monkeypatch):
    """A call that returns its way takes that way's seconds, in other rounds one or two more."""
    took = {"naive": 1.0, "whole": 3.0, "fft": 2.0}

    def raced(ways, repeats, warmup):
        times = {
            name: [took[call()] + more for more in (1, 0, 2)] for name, call in ways.items()
        }
        results = {
            name: bench.Measurement(*bench.spread(own)[:3], tuple(own), None, "cpu")
            for name, own in times.items()
        }
        return bench.Race(results, {}, "fft")

    monkeypatch.setattr(race_of.rd, "zdist", lambda query, stream, mode: mode)
    monkeypatch.setattr(race_of, "whole_length_zdist", lambda query, stream: "whole")
    monkeypatch.setattr(race_of.bench, "race", raced)
    found = race_of.by_length(torch.arange(4000.0), [8, 2048, 2049], 3)
    assert found["whole"] == [3, 3, 3] and found["fft"] == [2, 2, 2]
    assert found["naive"][:2] == [1, 1] and math.isnan(found["naive"][2])
