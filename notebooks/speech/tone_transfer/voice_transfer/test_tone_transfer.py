"""Decoders, training, the transfer in chunks, files for the browser, the miniature that writes
sample by sample.
"""

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from instrument_sounds import rendering as ins
from sound_features import analysis as sf
from tone_browser import export as bm
from tone_decoder import autoregressive as ar
from tone_decoder import networks as td
from tone_decoder import training as tt

from voice_transfer import transfer as vt

KINDS = ("conv16", "gru24")


@pytest.fixture(scope="module")
def phrase():
    return ins.tensor(ins.kept("oboe")[ins.HELD_OUT])[:24_000]


@pytest.fixture(scope="module")
def recorded(phrase):
    return tt.recording(phrase)


def test_the_recurrent_decoder_has_the_published_counts():
    assert td.count(td.RecurrentDecoder(512, 3)) == td.WEIGHTS["paper"] == 4_801_150
    assert td.count(td.RecurrentDecoder(256, 0)) == td.WEIGHTS["tiny"] == 232_314
    assert bm.half_bytes(td.RecurrentDecoder(256, 0)) == 464_628


def test_exp_sigmoid_is_positive_bounded_and_tenfold():
    x = torch.tensor([-30.0, 0.0, 30.0], dtype=torch.float64)
    assert td.exp_sigmoid(x).tolist() == pytest.approx(
        [1e-7, 2 * 0.5**2.302585093 + 1e-7, 2.0], rel=1e-4
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_decoder_in_chunks_is_the_whole_and_sees_no_future(kind):
    decoder, x = tt.new_decoder(kind).eval(), torch.rand(1, 60, 2)
    whole, _ = decoder(x)
    first, state = decoder(x[:, :23])
    second, _ = decoder(x[:, 23:], state)
    torch.testing.assert_close(torch.cat([first, second], 1), whole, rtol=0, atol=1e-5)
    later = x.clone()
    later[:, 40:] += 1
    torch.testing.assert_close(decoder(later)[0][:, :40], whole[:, :40], rtol=0, atol=1e-6)


def test_training_lowers_the_loss_and_repeats(recorded):
    runs = []
    for _ in range(2):
        decoder = tt.new_decoder("conv16")
        runs.append(tt.train(decoder, [recorded], 6, batch=1, rate=3e-3))
    assert torch.equal(*runs) and runs[0][-1] < runs[0][0] - 1


def test_a_reverb_learns_beside_the_decoder(recorded):
    reverb = td.Reverb(800)
    before = reverb.tail.detach().clone()
    tt.train(tt.new_decoder("conv16"), [recorded], 2, batch=1, reverb=reverb)
    assert not torch.equal(before, reverb.tail.detach())
    dry = torch.zeros(1, 2_000)
    dry[0, 10] = 1
    wet = reverb(dry)
    torch.testing.assert_close(
        wet[0, 11:811], reverb.tail, rtol=0, atol=1e-5
    )  # an echo begins a sample later


def test_a_recording_that_is_too_short_is_refused(recorded):
    short = recorded._replace(f0=recorded.f0[:100])
    with pytest.raises(ValueError, match="shorter than 251 frames"):
        tt.crops([short], 1, torch.Generator())


def test_an_unknown_decoder_or_instrument_is_refused():
    with pytest.raises(ValueError, match="'conv64'"):
        tt.new_decoder("lstm")
    with pytest.raises(ValueError, match="bansuri, shehnai"):
        vt.load("tuba")


@pytest.mark.parametrize("kind", KINDS)
def test_the_player_is_the_whole_whatever_the_chunks(kind, phrase, recorded):
    instrument = vt.trained_instrument(tt.new_decoder(kind).requires_grad_(False), [recorded])
    shift = vt.shift_of(sf.features(phrase), instrument)
    whole = vt.transfer(phrase, instrument, shift, seed=5)
    for sizes in ((24_000,), (1_000,), (7, 4_999, 64, 63, 2_500)):
        player, at, made = vt.Player(instrument, shift, seed=5), 0, []
        while at < len(phrase):
            size = sizes[len(made) % len(sizes)]
            made.append(player.push(phrase[at : at + size]))
            at += size
        joined = torch.cat([*made, player.finish()])
        torch.testing.assert_close(joined[: len(whole)], whole, rtol=0, atol=2e-6)


@settings(max_examples=10, deadline=None)
@given(st.integers(-3, 3), st.floats(0.2, 1.5))
def test_a_voice_is_moved_into_the_instruments_octave(octaves, gain):
    f0 = torch.full((50,), 300.0 * 2.0**octaves, dtype=torch.float64)
    loud = 0.5 + 0.1 * gain * torch.sin(torch.arange(50.0)).double()
    found = sf.Features(f0, torch.ones(50), loud, loud)
    instrument = vt.Instrument(None, 62.0, 58.0, 66.0, 0.6, 0.1)
    shift = vt.shift_of(found, instrument)
    moved, level = vt.moved(found, shift)
    assert abs(float(sf.midi(moved).median()) - 62) <= 6
    assert float(level.mean()) == pytest.approx(0.6, abs=1e-3)


def test_a_whisper_has_no_shift():
    noise = 0.1 * torch.randn(16_000, generator=torch.Generator().manual_seed(0))
    found = sf.features(noise)
    with pytest.raises(ValueError, match="no frame has a sure pitch"):
        vt.shift_of(found._replace(confidence=0 * found.confidence), vt.load("shehnai"))


def test_the_player_refuses_nan():
    with pytest.raises(ValueError, match="finite samples"):
        vt.Player(vt.load("shehnai"), vt.Shift(0, 1.0, 0.0)).push(torch.tensor([torch.nan]))


@pytest.mark.parametrize("kind", KINDS)
def test_the_exported_decoder_is_pytorchs_and_carries_its_state(kind):
    decoder = tt.new_decoder(kind).eval().requires_grad_(False)
    file, x = bm.exported(decoder), torch.rand(1, 50, 2)
    state = {f"s{n}": one.numpy() for n, one in enumerate(bm.start_state(decoder))}
    first = bm.run(file, x=x[:, :20].numpy(), **state)
    second = bm.run(file, x=x[:, 20:].numpy(), **dict(zip(state, first[1:], strict=True)))
    wanted = decoder(x)[0].numpy()
    np.testing.assert_allclose(
        np.concatenate([first[0], second[0]], 1), wanted, rtol=0, atol=1e-5
    )


def test_fills_change_no_bit_and_save_what_repeats():
    decoder = tt.new_decoder("conv16").eval().requires_grad_(False)
    whole = bm.exported_whole(decoder, 40)
    small, saved = bm.filled(whole)
    feed = {
        "x": np.random.default_rng(0).random((1, 40, 2), np.float32),
        "f0": np.full((1, 40), 220, np.float32),
    }
    assert np.array_equal(bm.run(whole, **feed)[0], bm.run(small, **feed)[0])
    assert saved > 39 * 60 * 64 * 4 and len(small) == len(whole) - saved
    kept = onnx.load_from_string(small).graph.initializer
    assert all(one.dims != [39, 60, 64] for one in kept)


def test_the_compiled_loop_is_the_plain_one():
    torch.manual_seed(0)
    network, draws, controls = (
        ar.SampleBySample(8),
        torch.rand(60, dtype=torch.float64),
        torch.rand(60, 2),
    )
    got, wanted = (
        ar.written(network, controls, draws),
        ar.written_reference(network, controls, draws),
    )
    assert float((got - wanted).abs().max()) < 1e-6


def test_phrases_repeat_are_never_polyphonic_and_are_held_out():
    notes = ins.phrase(3)
    assert notes == ins.phrase(3) != ins.phrase(ins.HELD_OUT)
    assert all(a[0] + a[1] <= b[0] + 1e-9 for a, b in zip(notes, notes[1:], strict=False))
    assert ins.midi_file(notes, 73)[:4] == b"MThd"


def test_a_rendered_phrase_has_the_drawn_pitch():
    if not ins.can_render():
        with pytest.raises(RuntimeError, match="fluidsynth"):
            ins.rendered("bansuri", 0)
        pytest.skip("no fluidsynth here")
    sound = ins.tensor(ins.rendered("oboe", 1, 4.0))
    found = sf.features(sound)
    for start, length, note, _, glide in ins.phrase(1, ins.LOWEST["oboe"], 4.0):
        frames = slice(int((start + 0.17) * 250), int((start + length - 0.05) * 250))
        heard = sf.midi(found.f0[frames])[found.voiced[frames]]
        if glide == 0 and len(heard) > 10:
            assert abs(float(heard.median()) - note) < 0.5


def test_study_and_race_find_what_they_use():
    from voice_transfer import bench_tone_transfer, study_tone_transfer

    assert study_tone_transfer._options(["ship", "--names", "bansuri"]).names == ["bansuri"]
    assert bench_tone_transfer._options([]).threads == 1
