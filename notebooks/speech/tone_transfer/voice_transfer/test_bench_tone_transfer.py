"""What the race records: what is plainly written and what writes sample by sample over ours."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import bench, receipts
from helpers.device import Tier

from voice_transfer import bench_tone_transfer as race_of

SECONDS = {"decoder and synthesiser": 1.0, "the same, plainly written": 3.0}
SECONDS |= {"the whole transfer, from the voice": 2.0}
SECONDS |= {"its first part, pitch and loudness": 0.5}
SECONDS |= {"one sample after the other, compiled": 8.0}


@pytest.fixture
def told(monkeypatch):
    """The metrics of a race over 0.4 s of silence whose contestants take the seconds above."""

    def raced(contestants, repeats, reference):
        results = {
            name: bench.Measurement(s, s, s, (s,) * repeats, None, "cpu")
            for name, s in SECONDS.items()
            if name in contestants
        }
        ratios = {name: bench.ratio(results[reference], one) for name, one in results.items()}
        return bench.Race(results, ratios, reference)

    silence, flat = torch.zeros(1, 6400), SimpleNamespace(f0=torch.zeros(9), loudness=None)
    flat.loudness, network = flat.f0, torch.nn.Linear(2, 2)
    driven = SimpleNamespace(amplitude=None, partials=None, noise=None)
    stand_ins = {
        race_of.ins: {"kept": {race_of.ins.HELD_OUT: np.zeros(6400)}, "can_render": False},
        race_of.vt: {"load": SimpleNamespace(decoder=network), "shift_of": None},
        race_of.td: {"inputs": torch.zeros(1, 2), "controls": driven},
        race_of.hs: {"synthesise_plain": silence, "whole_noise": silence, "living": 8.0},
        race_of.tt: {"recording": flat, "play": silence},
        race_of.sf: {"features": None},
        race_of.ar: {"SampleBySample": network},
        race_of.device: {"tier": Tier("cpu", "cpu", "")},
        race_of.torch: {"set_num_threads": None},
    }
    for module, answers in stand_ins.items():
        for name, answer in answers.items():
            monkeypatch.setattr(module, name, lambda *given, answer=answer, **named: answer)
    receipt = receipts.start("tone_transfer", "cpu", 1)
    monkeypatch.setattr(receipt, "write", lambda name: name)
    monkeypatch.setattr(race_of.receipts, "start", lambda *given, **named: receipt)
    monkeypatch.setattr(race_of.bench, "race", raced)
    race_of.main(["--rounds", "6"])
    return {name: one["value"] for name, one in receipt.metrics.items()}


def test_ours_is_three_times_as_fast_as_what_is_plainly_written(told):
    assert told["over_plain"] == 3


def test_ours_is_eight_times_as_fast_as_sample_after_sample(told):
    assert told["over_sample_by_sample"] == 8


def test_real_time_is_the_sound_s_seconds_over_each_way_s_own(told):
    wanted = {"decoder": 0.4, "plain": 0.4 / 3, "transfer": 0.2, "analysis": 0.8}
    wanted["sample_by_sample"] = 0.05
    assert {name: told[f"{name}_real_time"] for name in wanted} == pytest.approx(wanted)
