"""What the race of features records: librosa's time over ours, seconds of speech a second."""

import numpy as np
import pytest
import threadpoolctl
import torch
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
    clocks = []

    def raced(*given, **named):
        clocks.append(named["device"])
        return kept

    monkeypatch.setattr(bench_quartznet.bench, "race", raced)
    race = bench_quartznet.race_at(1, None, 6, "cuda")
    assert clocks == ["cpu"], "the wall's clock, since librosa has no GPU"
    assert {name: one.device for name, one in race.results.items()} == {
        "ours": "cuda",
        "ours, one by one": "cuda",
        "librosa": "cpu",
        "librosa, one by one": "cpu",
    }


@pytest.mark.parametrize("threads", [1, 2])
def test_ours_and_librosa_have_the_same_threads_until_the_race_has_ended(monkeypatch, threads):
    seen, before = [], torch.get_num_threads()

    def raced(pairs, rounds, reference, device):
        pools = threadpoolctl.threadpool_info()
        blas = {one["num_threads"] for one in pools if one["user_api"] == "blas"}
        seen.append((torch.get_num_threads(), blas, rounds, reference, device))
        return bench.Race({}, {}, reference)

    monkeypatch.setattr(bench_quartznet, "contestants", lambda signal_BN, where: {})
    monkeypatch.setattr(bench_quartznet.bench, "race", raced)
    bench_quartznet.race_at(threads, np.zeros((1, 1600), np.float32), 6)
    assert seen == [(threads, {threads}, 6, "librosa", "cpu")]
    assert torch.get_num_threads() == before


def test_one_thread_and_all_are_raced_over_the_same_speech(monkeypatch, tmp_path):
    raced, kept = [], []
    monkeypatch.setattr(bench_quartznet, "race_at", lambda *of: raced.append(of) or "race")
    monkeypatch.setattr(bench_quartznet, "record_race", lambda *of: kept.append(of[1:]))
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    monkeypatch.setenv("REBUILT_TIER", "cpu")
    sizes = ["--utterances", "3", "--seconds", "0.5"]
    bench_quartznet.main(["--threads", "2", "--rounds", "6", *sizes])
    assert [(one[0], one[1].shape, one[2]) for one in raced] == [
        (threads, (3, 8000), 6) for threads in (1, 2)
    ]
    assert raced[0][1] is raced[1][1], "both race over the same sound"
    assert kept == [("race", 1.5, 1), ("race", 1.5, 2)]


def test_contestants_hear_the_same_and_librosa_s_numbers_are_ours():
    signal_BN = bench_quartznet.noise_and_tones(2, 0.4)
    pairs = bench_quartznet.contestants(signal_BN)
    assert list(pairs) == list(SECONDS)
    ours, theirs = pairs["ours"]().numpy(), pairs["librosa"]()
    for alone, batch in (("ours, one by one", ours), ("librosa, one by one", theirs)):
        for one, wanted in zip(pairs[alone](), batch, strict=True):
            np.testing.assert_allclose(np.asarray(one)[0], wanted, atol=5e-3)
    assert ours.shape == theirs.shape == (2, 64, 40)


def test_librosa_makes_its_filters_once_as_ours_does(monkeypatch):
    pairs = bench_quartznet.contestants(bench_quartznet.noise_and_tones(2, 0.2))
    monkeypatch.setattr(bench_quartznet.librosa.filters, "mel", None)  # would be called
    for name in ("librosa", "librosa, one by one"):
        pairs[name]()
