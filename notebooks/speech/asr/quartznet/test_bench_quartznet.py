"""What the race of features records: librosa's time over ours, seconds of speech a second."""

import pytest
from helpers import bench, receipts

from . import bench_quartznet

SECONDS = {"ours": 2.0, "ours, one by one": 4.0, "librosa": 6.0, "librosa, one by one": 10.0}


@pytest.fixture
def told():
    """The metrics of a race of 64 s of speech on three threads that took the seconds above."""
    results = {n: bench.Measurement(s, s, s, (s,) * 6, None, "cpu") for n, s in SECONDS.items()}
    ratios = {name: bench.ratio(results["librosa"], one) for name, one in results.items()}
    receipt = receipts.start("asr_finetuning", "cpu", 3)
    bench_quartznet.record_race(receipt, bench.Race(results, ratios, "librosa"), 64, 3)
    return {name: one["value"] for name, one in receipt.metrics.items()}


def test_a_speedup_is_librosa_s_time_over_ours(told):
    assert told["features_speedup_3_threads"] == 3


def test_one_by_one_is_librosa_s_alone_and_stands_over_our_batch(told):
    assert told["features_speedup_one_by_one_3_threads"] == 5


def test_the_rate_is_seconds_of_speech_a_second(told):
    assert told["features_rate_3_threads"] == 32


def test_on_a_gpu_librosa_is_not_said_to_have_run_there(monkeypatch):
    results = {n: bench.Measurement(s, s, s, (s,) * 6, None, "cpu") for n, s in SECONDS.items()}
    pairs = dict.fromkeys(SECONDS, lambda: None)
    monkeypatch.setattr(bench_quartznet, "contestants", lambda signal_BN, where: pairs)
    kept = bench.Race(results, {}, "librosa")
    monkeypatch.setattr(bench_quartznet.bench, "race", lambda *given, **named: kept)
    race = bench_quartznet.race_at(1, None, 6, "cuda")
    assert {name: one.device for name, one in race.results.items()} == {
        "ours": "cuda",
        "ours, one by one": "cuda",
        "librosa": "cpu",
        "librosa, one by one": "cpu",
    }
