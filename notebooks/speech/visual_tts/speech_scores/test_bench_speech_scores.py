"""What the races record: librosa's time over ours, of pitch and of Griffin-Lim; who is checked,
and that all do the same work.
"""

import librosa
import numpy as np
import pytest
from helpers import bench, check, receipts
from helpers.device import Tier

from . import bench_speech_scores as race_of

PITCH = {"ours": 1.0, "Praat": 5.0, "librosa yin": 4.0}
VOCODER = {"ours": 2.0, "librosa": 6.0}
TRUE = race_of.glide(race_of.SECONDS)[1]


@pytest.fixture
def raced(monkeypatch):
    """Runs both races, whose contestants are the seconds that they take; `off`: by what share
    Praat's pitch is wrong in one frame. Gives the metrics and the threads.
    """
    return lambda off=0.0: _raced(monkeypatch, off)


@pytest.fixture
def told(raced):
    return raced()[0]


def _raced(monkeypatch, off):
    def race(contestants, repeats, reference):
        results = {
            name: bench.Measurement(*3 * (call.s,), (call.s,) * repeats, None, "cpu")
            for name, call in contestants.items()
        }
        ratios = {name: bench.ratio(results[reference], one) for name, one in results.items()}
        return bench.Race(results, ratios, reference)

    def taking(seconds):
        wrong = np.where(np.arange(len(TRUE)) == 300, 1 + off, 1)
        calls = {
            name: lambda name=name: TRUE * (wrong if name == "Praat" else 1) for name in seconds
        }
        for name, call in calls.items():
            call.s = seconds[name]
        return calls

    receipt = receipts.start("visual_tts", "cpu", 1)
    monkeypatch.setattr(receipt, "write", lambda name: name)
    monkeypatch.setattr(race_of.receipts, "start", lambda *given, **named: receipt)
    monkeypatch.setattr(race_of.device, "tier", lambda: Tier("cpu", "cpu", ""))
    threads = []
    monkeypatch.setattr(race_of.torch, "set_num_threads", threads.append)
    monkeypatch.setattr(race_of, "pitch_contestants", lambda sound: taking(PITCH))
    monkeypatch.setattr(race_of, "vocoder_contestants", lambda sound: taking(VOCODER))
    monkeypatch.setattr(race_of.bench, "race", race)
    race_of.main(["--rounds", "6"])
    return {name: one["value"] for name, one in receipt.metrics.items()}, threads


def test_pitch_s_speedup_is_yin_s_time_over_ours(told):
    assert told["pitch_speedup"] == 4


def test_griffin_lim_s_speedup_is_librosa_s_time_over_ours(told):
    assert told["vocoder_speedup"] == 3


def test_praat_s_time_beside_the_same_yin_is_not_lost(told):
    assert told["praat_speedup"] == 0.8


def test_all_run_on_one_thread_since_the_peers_use_no_second(raced):
    assert raced()[1] == [1]


@pytest.mark.parametrize("off", [0.03, -0.03])
def test_a_tracker_that_is_off_in_a_frame_is_not_raced(raced, off):
    with pytest.raises(check.Failed, match="Praat is off by 3.0% of the pitch"):
        raced(off)


def test_both_vocoders_get_the_same_magnitudes_rounds_and_momentum(monkeypatch):
    sound, given = race_of.glide(0.5)[0], {}
    ours, theirs = race_of.griffin_lim, librosa.griffinlim

    def mine(magnitude, rounds, **more):
        given["ours"] = np.asarray(magnitude)[0], rounds, more
        return ours(magnitude, rounds, **more)

    def its(magnitude, **how):
        given["librosa"] = magnitude, how
        return theirs(magnitude, **how)

    monkeypatch.setattr(race_of, "griffin_lim", mine)
    monkeypatch.setattr(librosa, "griffinlim", its)
    contestants = race_of.vocoder_contestants(sound)
    assert set(contestants) == set(given) == set(VOCODER)
    (mags, rounds, more), (whole, how) = given["ours"], given["librosa"]
    assert np.array_equal(mags, whole[:, :-1]) and whole.dtype == mags.dtype == np.float32
    assert (rounds, more) == (how["n_iter"], {}) and how.get("momentum", 0.99) == 0.99
    assert (how["n_fft"], how["hop_length"]) == (1024, 160)


def test_a_vocoder_that_stops_early_is_not_raced(monkeypatch):
    plain = race_of.griffin_lim
    monkeypatch.setattr(race_of, "griffin_lim", lambda magnitude, rounds: plain(magnitude, 1))
    with pytest.raises(check.Failed, match="equal quality"):
        race_of.vocoder_contestants(race_of.glide(0.5)[0])


def test_each_tracker_follows_the_glide_at_the_middle_of_each_10_ms():
    sound, true = race_of.glide(race_of.SECONDS)
    for name, track in race_of.pitch_contestants(sound).items():
        off = np.abs(track()[5:-5] / true[5:-5] - 1)
        assert off.max() < race_of.WORST, name
