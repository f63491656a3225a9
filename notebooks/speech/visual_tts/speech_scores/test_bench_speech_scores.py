"""What the races record: librosa's time over ours, of pitch and of Griffin-Lim."""

import numpy as np
import pytest
from helpers import bench, receipts
from helpers.device import Tier

from . import bench_speech_scores as race_of

PITCH = {"ours": 1.0, "Praat": 5.0, "librosa yin": 4.0}
VOCODER = {"ours": 2.0, "librosa": 6.0}


@pytest.fixture
def told(monkeypatch):
    """The metrics of both races, whose contestants are the seconds that they take."""

    def raced(contestants, repeats, reference):
        results = {
            name: bench.Measurement(*3 * (call.s,), (call.s,) * repeats, None, "cpu")
            for name, call in contestants.items()
        }
        ratios = {name: bench.ratio(results[reference], one) for name, one in results.items()}
        return bench.Race(results, ratios, reference)

    def taking(seconds):
        calls = {name: lambda: np.zeros(30) for name in seconds}
        for name, call in calls.items():
            call.s = seconds[name]
        return calls

    receipt = receipts.start("visual_tts", "cpu", 1)
    monkeypatch.setattr(receipt, "write", lambda name: name)
    monkeypatch.setattr(race_of.receipts, "start", lambda *given, **named: receipt)
    monkeypatch.setattr(race_of.device, "tier", lambda: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(race_of.torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(race_of, "gross_pitch_error", lambda found, true: 0)
    monkeypatch.setattr(race_of, "pitch_contestants", lambda sound: taking(PITCH))
    monkeypatch.setattr(race_of, "vocoder_contestants", lambda sound: taking(VOCODER))
    monkeypatch.setattr(race_of.bench, "race", raced)
    race_of.main(["--rounds", "6"])
    return {name: one["value"] for name, one in receipt.metrics.items()}


def test_pitch_s_speedup_is_yin_s_time_over_ours(told):
    assert told["pitch_speedup"] == 4


def test_griffin_lim_s_speedup_is_librosa_s_time_over_ours(told):
    assert told["vocoder_speedup"] == 3


def test_praat_s_time_beside_the_same_yin_is_not_lost(told):
    assert told["praat_speedup"] == 0.8
