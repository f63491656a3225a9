"""What the race records: what is plainly written and what writes sample by sample over ours;
that all do the same work, and what WORLD is given.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import bench, check, receipts
from helpers.device import Tier
from instrument_sounds import rendering as ins
from sound_features import analysis as sf
from tone_decoder import autoregressive as ar
from tone_decoder import training as tt

from voice_transfer import bench_tone_transfer as race_of
from voice_transfer import transfer as vt

SECONDS = {"decoder and synthesiser": 1.0, "the same, plainly written": 3.0}
SECONDS |= {"the whole transfer, from the voice": 2.0}
SECONDS |= {"its first part, pitch and loudness": 0.5}
SECONDS |= {"one sample after the other, compiled": 8.0}


@pytest.fixture
def raced(monkeypatch):
    """Runs a race over 0.4 s of silence whose contestants take the seconds above; `off`: by how
    much the plainly written sound differs. Gives the metrics and the threads.
    """
    return lambda off=0.0: _raced(monkeypatch, off)


@pytest.fixture
def told(raced):
    return raced()[0]


def _raced(monkeypatch, off):
    def race(contestants, repeats, reference):
        results = {
            name: bench.Measurement(s, s, s, (s,) * repeats, None, "cpu")
            for name, s in SECONDS.items()
            if name in contestants
        }
        ratios = {name: bench.ratio(results[reference], one) for name, one in results.items()}
        return bench.Race(results, ratios, reference)

    silence, flat = torch.zeros(1, 6400), SimpleNamespace(f0=torch.zeros(9), loudness=None)
    flat.loudness, network = flat.f0, torch.nn.Linear(2, 2)
    driven, threads = SimpleNamespace(amplitude=None, partials=None, noise=None), []
    stand_ins = {
        race_of.ins: {"kept": {race_of.ins.HELD_OUT: np.zeros(6400)}, "can_render": False},
        race_of.vt: {"load": SimpleNamespace(decoder=network), "shift_of": None},
        race_of.td: {"inputs": torch.zeros(1, 2), "controls": driven},
        race_of.hs: {"synthesise_plain": silence + off, "whole_noise": silence, "living": 8.0},
        race_of.tt: {"recording": flat, "play": silence},
        race_of.sf: {"features": None},
        race_of.ar: {"SampleBySample": network},
        race_of.device: {"tier": Tier("cpu", "cpu", "")},
    }
    for module, answers in stand_ins.items():
        for name, answer in answers.items():
            monkeypatch.setattr(module, name, lambda *given, answer=answer, **named: answer)
    receipt = receipts.start("tone_transfer", "cpu", 1)
    monkeypatch.setattr(receipt, "write", lambda name: name)
    monkeypatch.setattr(race_of.receipts, "start", lambda *given, **named: receipt)
    monkeypatch.setattr(race_of.torch, "set_num_threads", threads.append)
    monkeypatch.setattr(race_of.bench, "race", race)
    race_of.main(["--rounds", "6"])
    return {name: one["value"] for name, one in receipt.metrics.items()}, threads


def test_ours_is_three_times_as_fast_as_what_is_plainly_written(told):
    assert told["over_plain"] == 3


def test_ours_is_eight_times_as_fast_as_sample_after_sample(told):
    assert told["over_sample_by_sample"] == 8


def test_real_time_is_the_sound_s_seconds_over_each_way_s_own(told):
    wanted = {"decoder": 0.4, "plain": 0.4 / 3, "transfer": 0.2, "analysis": 0.8}
    wanted["sample_by_sample"] = 0.05
    assert {name: told[f"{name}_real_time"] for name in wanted} == pytest.approx(wanted)


def test_the_race_is_on_one_core(raced):
    assert raced()[1] == [1]


def test_a_bank_that_makes_another_sound_is_not_raced(raced):
    with pytest.raises(check.Failed, match="values differ"):
        raced(off=1e-3)


def test_all_make_the_same_seconds_from_the_same_sound_and_ours_is_the_plain_sound(monkeypatch):
    for name in ("_loop", "_value"):  # as Python: the compiler takes half a minute
        monkeypatch.setattr(ar, name, getattr(ar, name).py_func)
    sound = ins.tensor(ins.kept("oboe")[ins.HELD_OUT])[12_800:16_000]
    one, instrument = tt.recording(sound), vt.load("shehnai")
    network = ar.SampleBySample(8)
    pairs = race_of.contestants(instrument, sound, one.f0[None], one.loudness[None], network)
    assert set(pairs) == set(SECONDS)
    made = {name: call() for name, call in pairs.items()}
    analysed = made.pop("its first part, pitch and loudness")
    assert {name: one.numel() for name, one in made.items()} == dict.fromkeys(made, len(sound))
    assert torch.equal(analysed.f0, sf.features(sound).f0)
    ours, plain, whole = (made[name].flatten() for name in list(SECONDS)[:3])
    torch.testing.assert_close(plain, ours, rtol=0, atol=1e-4)
    assert ours.abs().max() > 0.01 and not torch.equal(whole, ours), "it analyses the voice"


def placed(f0, level_db, tilt):
    """Frames as WORLD's: a pitch, an envelope of two bins with a level and a tilt in dB."""
    f0, level_db, tilt = np.broadcast_arrays(*map(np.asarray, (f0, level_db, tilt)))
    both = 10 ** (np.stack([0 * tilt, tilt], 1) / 10)
    envelope = both / both.sum(1, keepdims=True) * 10 ** (level_db[:, None] / 10)
    return f0.astype(float), envelope, np.full_like(envelope, 0.2)


def test_world_takes_the_envelopes_of_the_nearest_frames_and_keeps_pitch_and_level(monkeypatch):
    """Frames of the instrument, 32 low ones that tilt by −30 and −10 dB in turn, 32 high ones
    that tilt by 0 and +20 dB, 12 dB above the source's level: a mean over all 32 is heard.
    """
    known_f0 = np.repeat([220.0, 880.0], 32)
    tilts = np.concatenate([np.tile([-30.0, -10.0], 16), np.tile([0.0, 20.0], 16)])
    twice = np.repeat(known_f0, 2), -18.0, np.repeat(tilts, 2)  # every second one is taken
    frames = {"instrument": placed(*twice)}
    frames["source"] = placed([0.0, 230.0, 860.0, 860.0], [-60.0, -30.0, -30.0, -27.0], 0.0)
    given = []

    def synthesize(*what):
        given.append(what)
        return np.arange(9.0)

    monkeypatch.setattr(race_of, "analysed", frames.get)
    world = SimpleNamespace(synthesize=synthesize)
    monkeypatch.setattr(race_of, "pyworld", world, raising=False)
    known = race_of.world_frames(["instrument"])
    assert [len(one) for one in known] == [64] * 3
    monkeypatch.setattr(race_of, "_fitted", lambda values, length: values[:length])
    assert len(race_of.world_transfer("source", known)) == len("source")
    ((f0, shape, rough, *_),) = given
    own_f0, own, _ = frames["source"]
    assert f0.tolist() == own_f0.tolist() and np.allclose(shape.sum(1), own.sum(1))
    tilt = 10 * np.log10(shape[1:, 1] / shape[1:, 0])
    assert tilt == pytest.approx([-20, 10, 10], abs=0.01)
    assert rough[0].tolist() == [1, 1] and np.allclose(rough[1:], 0.2)


def test_a_level_is_matched_to_the_instruments_before_the_nearest_frames_are_sought(
    monkeypatch,
):
    levels = np.repeat([-40.0, -20.0, 0.0], 2 * race_of.NEAREST)
    tilts = np.repeat([-5.0, 1.0, 5.0], 2 * race_of.NEAREST)
    frames = {"instrument": placed(440.0, levels, tilts)}
    frames["source"] = placed(440.0, [-61.0, -60.0, -59.0], 0.0)  # its median: the middle third
    given = []
    world = SimpleNamespace(synthesize=lambda *what: given.append(what) or np.zeros(9))
    monkeypatch.setattr(race_of, "analysed", frames.get)
    monkeypatch.setattr(race_of, "pyworld", world, raising=False)
    monkeypatch.setattr(race_of, "_fitted", lambda values, length: values)
    race_of.world_transfer("source", race_of.world_frames(["instrument"]))
    shape = given[0][1]
    assert 10 * np.log10(shape[:, 1] / shape[:, 0]) == pytest.approx([1, 1, 1], abs=0.01)


def test_transfers_are_judged_at_the_truths_level_and_in_its_octave(monkeypatch):
    """A transfer that is right but louder loses nothing, and nobody changes octaves."""
    shifts, truth = [], 0.1 * torch.randn(6_400, generator=torch.Generator().manual_seed(0))
    sounds = {"oboe": truth.flip(0).numpy(), "shehnai": (3 * truth).numpy()}
    monkeypatch.setattr(ins, "rendered", lambda name, seed: sounds[name])
    monkeypatch.setattr(race_of, "pyworld", None)
    monkeypatch.setattr(sf, "features", lambda sound: None)
    shift = vt.Shift(2, 1.5, 0.1)
    monkeypatch.setattr(vt, "shift_of", lambda found, instrument: shift)

    def transfer(source, instrument, by):
        shifts.append(by)
        return 9 * source.flip(0)

    monkeypatch.setattr(vt, "transfer", transfer)
    compared = []

    def distance(got, want):
        compared.append(float((got - want).abs().max()))
        return 0.0

    monkeypatch.setattr(race_of, "timbre_distance", distance)
    found = race_of.quality(None, phrases=2)
    assert shifts == [shift._replace(octaves=0)] * 2
    assert found["ours"][:, 0] == pytest.approx([0, 0], abs=1e-3)
    ours, untouched, noisy = compared[:3]
    assert ours < 1e-4 < 1e-3 < noisy < 0.03 < 0.3 < untouched


def test_world_hears_as_high_as_ours_and_puts_together_what_it_took_apart(monkeypatch):
    asked = {}

    def harvest(values, rate, **how):
        asked["harvest"] = values.dtype, rate, how
        return np.array([440.0]), np.array([0.0])

    def synthesize(*given):
        asked["synthesize"] = given
        return np.ones(5)

    parts = {"cheaptrick": lambda *given: "envelope", "d4c": lambda *given: "roughness"}
    world = SimpleNamespace(harvest=harvest, synthesize=synthesize, **parts)
    monkeypatch.setattr(race_of, "pyworld", world, raising=False)
    copied = race_of.world_copy(torch.zeros(7))
    assert copied.tolist() == [1, 1, 1, 1, 1, 0, 0]  # as long as the sound
    own = {"f0_ceil": sf.F0_HIGH, "frame_period": 5.0}
    assert asked["harvest"] == (np.float64, 16_000, own)
    f0, *rest = asked["synthesize"]
    assert f0.tolist() == [440] and rest == ["envelope", "roughness", 16_000, 5.0]
