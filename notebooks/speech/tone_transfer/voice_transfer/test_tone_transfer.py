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
from sound_features.loss import spectral_loss
from tone_browser import export as bm
from tone_decoder import autoregressive as ar
from tone_decoder import networks as td
from tone_decoder import training as tt

from voice_transfer import bench_tone_transfer as bench
from voice_transfer import transfer as vt

torch.set_num_threads(1)  # two processes of tests share two cores
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


def test_crops_keep_sound_pitch_and_loudness_together():
    frame = torch.arange(600.0)
    one = tt.Recording(frame.repeat_interleave(sf.HOP), frame + 1, frame + 2, frame > 0)
    sound, f0, loudness = tt.crops([one, one], 3, torch.Generator().manual_seed(0))
    assert torch.equal(sound.view(3, 250, sf.HOP).amax(2), f0 - 1)
    assert torch.equal(sound.view(3, 250, sf.HOP).amin(2), loudness - 2)
    assert len(set(f0[:, 0].tolist())) > 1


def test_the_rate_rises_and_falls_along_a_cosine():
    assert tt._share(0, 1_000) == 1 / tt.WARM and tt._share(49, 1_000) > 0.99
    assert tt._share(500, 1_000) == pytest.approx(0.05 + 0.95 / 2)
    assert tt._share(250, 1_000) == pytest.approx(0.05 + 0.95 * (0.5 + 0.5 * 0.5**0.5))
    assert tt._share(1_000, 1_000) == pytest.approx(0.05)


def test_training_clips_the_gradient_and_follows_the_rate(recorded, monkeypatch):
    monkeypatch.setattr(tt, "CLIP", 1e-3)
    monkeypatch.setattr(tt, "WARM", 2)
    norms, rates, plain = [], [], torch.optim.Adam.step

    def step(adam, *given):
        own = [one.grad for group in adam.param_groups for one in group["params"]]
        norms.append(float(torch.cat([one.flatten() for one in own]).norm()))
        rates.append(adam.param_groups[0]["lr"])
        return plain(adam, *given)

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    tt.train(tt.new_decoder("conv16"), [recorded], 4, batch=1, rate=3e-3)
    assert norms == pytest.approx([1e-3] * 4, rel=0.01)
    assert rates == pytest.approx([3e-3 * tt._share(at, 4) for at in range(4)])
    assert rates[0] < rates[1] > rates[2] > rates[3]


def test_a_seed_draws_the_crops_and_no_two_steps_have_the_same_noise(recorded, monkeypatch):
    """A decoder that met one noise again and again could learn it by heart."""
    played, plain = [], tt.play

    def play(decoder, f0, loudness, seed=0):
        played.append((seed, f0.clone()))
        return plain(decoder, f0, loudness, seed)

    monkeypatch.setattr(tt, "play", play)
    for seed in (0, 0, 1):
        tt.train(tt.new_decoder("conv16"), [recorded], 2, batch=1, seed=seed)
    noises, pitches = zip(*played, strict=True)
    assert noises == (0, 1) * 3
    assert torch.equal(pitches[0], pitches[2]) and torch.equal(pitches[1], pitches[3])
    assert not torch.equal(pitches[0], pitches[4])


def test_a_start_is_at_a_phrases_level_and_its_noise_is_quiet(recorded):
    made = td.controls(torch.zeros(1, 1, 126))
    assert float(made.noise.max()) < 1e-4 < float(made.amplitude)
    decoder = tt.new_decoder("tiny").requires_grad_(False)
    x = td.inputs(recorded.f0[None], recorded.loudness[None])
    assert 0.02 < float(td.controls(decoder(x)[0]).amplitude.mean()) < 0.1


def test_rms_is_a_level_in_db():
    at = torch.arange(16_000) / 16_000
    sine = torch.sin(2 * torch.pi * 440 * at)
    for level, wanted in ((1.0, 1.0), (0.1, 0.75)):
        assert float(tt.recording(level * sine, "rms").loudness[100]) == pytest.approx(
            wanted, abs=2e-3
        )


def test_judged_is_the_loss_of_the_whole_phrase(recorded):
    decoder = tt.new_decoder("conv16").requires_grad_(False)
    made = tt.play(decoder, recorded.f0[None], recorded.loudness[None])
    wanted = spectral_loss(made, recorded.sound[None, : made.shape[1]])
    assert (
        float(tt.judged(decoder, [recorded])[0]) == pytest.approx(float(wanted)) and wanted > 1
    )


def test_the_plainest_decoder_is_a_linear_map_of_each_frame():
    decoder, x = tt.new_decoder("linear").double(), torch.rand(2, 3, 7, 2).double()
    one, other, both = (decoder(part)[0] for part in (x[0], x[1], (x[0] + x[1]) / 2))
    torch.testing.assert_close(both, (one + other) / 2)
    torch.testing.assert_close(decoder(x[0][:, 3:5])[0], one[:, 3:5])
    assert td.count(decoder) == 384


def test_a_recording_that_is_too_short_is_refused(recorded):
    short = recorded._replace(f0=recorded.f0[:100])
    with pytest.raises(ValueError, match="shorter than 251 frames"):
        tt.crops([short], 1, torch.Generator())


def test_an_unknown_decoder_or_instrument_is_refused():
    for kind in ("lstm", "conv", "paper64", "grumpy"):
        with pytest.raises(ValueError, match="'conv64'"):
            tt.new_decoder(kind)
    with pytest.raises(ValueError, match="bansuri, shehnai"):
        vt.load("tuba")


@pytest.mark.parametrize("kind", KINDS)
def test_the_player_is_the_whole_whatever_the_chunks(kind, phrase, recorded):
    decoder = tt.new_decoder(kind).eval().requires_grad_(False)
    instrument = vt.Instrument(decoder, *vt.place([recorded]))
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


@pytest.mark.parametrize(
    ("note", "octaves"), [(51, 0), (62, 0), (73.5, 0), (49, 1), (38, 2), (75, -1), (87, -2)]
)
def test_a_voice_within_the_instruments_range_keeps_its_octave(note, octaves):
    f0 = torch.full((50,), 440 * 2 ** ((note - 69) / 12), dtype=torch.float64)
    loud = torch.full_like(f0, 0.5)
    found = sf.Features(f0, torch.ones(50), loud, loud)
    wide = vt.Instrument(None, 62.0, 50.0, 74.0, 0.6, 0.1)
    assert vt.shift_of(found, wide).octaves == octaves


def test_an_instruments_place_is_where_it_plays():
    f0 = 440 * 2 ** ((torch.linspace(60, 80, 2_001, dtype=torch.float64) - 69) / 12)
    loud = torch.linspace(0.4, 0.6, 2_001)
    one = tt.Recording(torch.zeros(1), f0, loud, torch.ones(2_001).bool())
    assert vt.place([one]) == pytest.approx((70, 61, 79, 0.5, 0.0577), abs=1e-3)


def test_frames_without_a_pitch_are_held_and_hushed():
    yes, no = (torch.tensor(one, dtype=torch.float64) for one in ([0.9], [0.1]))
    loud = torch.tensor([0.5, 0.5, 0.0, 0.5], dtype=torch.float64)
    found = sf.Features(
        torch.tensor([300.0, 100, 100, 200]).double(),
        torch.cat([yes, no, no, yes]),
        loud,
        loud,
    )
    f0, level = vt.moved(found, vt.Shift(1, 1.0, 0.1))
    assert f0.tolist() == [600, 600, 600, 400]
    assert level.tolist() == pytest.approx([0.6, 0.6 - vt.HUSHED, 0, 0.6])
    unsure = found._replace(confidence=0 * loud)
    assert vt.moved(unsure, vt.Shift(0, 1.0, 0.0))[0].tolist() == [220] * 4
    assert vt.moved(unsure, vt.Shift(0, 1.0, 0.0), last=99.0)[0].tolist() == [99] * 4


def test_a_voice_of_one_loudness_is_stretched_at_most_twice():
    flat = torch.full((20,), 0.5, dtype=torch.float64)
    found = sf.Features(flat * 600, flat * 2, flat, flat)
    assert vt.shift_of(found, vt.Instrument(None, 62.0, 58.0, 66.0, 0.6, 0.1)).gain == 2.0


def test_what_is_saved_is_what_is_loaded(tmp_path):
    one = vt.Instrument(tt.new_decoder("conv64").eval(), 62.0, 58.0, 66.0, 0.5, 0.125)
    vt.save({"kazoo": one, "other": one}, tmp_path / "some.safetensors")
    got = vt.load("kazoo", tmp_path / "some.safetensors")
    assert got[1:] == one[1:]
    for mine, theirs in zip(got.decoder.parameters(), one.decoder.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-6)


def test_a_cross_fade_of_chunks_that_agree_is_the_whole(monkeypatch):
    monkeypatch.setattr(vt, "transfer", lambda piece, *more, **named: piece)
    sound = torch.sin(torch.arange(40_000) / 50)
    got = vt.cross_faded(sound, None, None)
    torch.testing.assert_close(got, sound[: len(got)], rtol=0, atol=1e-6)
    assert len(got) == 40_000


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
    state = {f"s{n}": one.numpy() for n, one in enumerate(decoder.start(x[:, 0, 0]))}
    first = bm.run(file, x=x[:, :20].numpy(), **state)
    second = bm.run(file, x=x[:, 20:].numpy(), **dict(zip(state, first[1:], strict=True)))
    wanted = decoder(x)[0].numpy()
    np.testing.assert_allclose(
        np.concatenate([first[0], second[0]], 1), wanted, rtol=0, atol=1e-5
    )


def test_fills_change_no_bit_and_save_what_repeats():
    decoder = tt.new_decoder("conv24").eval().requires_grad_(False)  # norms start as 24 ones
    whole = bm.exported_whole(decoder, 40)
    small, saved = bm.filled(whole)
    feed = {
        "x": np.random.default_rng(0).random((1, 40, 2), np.float32),
        "f0": np.full((1, 40), 220, np.float32),
    }
    assert np.array_equal(bm.run(whole, **feed)[0], bm.run(small, **feed)[0])
    assert saved > 39 * 60 * 64 * 4 and len(small) == len(whole) - saved
    kept = onnx.load_from_string(small).graph.initializer
    assert all(one.dims != [40, 60, 64] for one in kept)
    known = {tuple(one.dims) for one in onnx.load_from_string(whole).graph.initializer}
    known |= {
        tuple(node.attribute[0].t.dims)
        for node in onnx.load_from_string(whole).graph.node
        if node.op_type == "Constant"
    }
    assert (40, 60, 64) in known, "no zeros were stored that a fill could stand for"


def written_reference(network, controls_N2, draws_N):
    """A sound (N,) sample by sample, by PyTorch's own GRU."""
    state, last, sound = None, torch.zeros(1), []
    with torch.inference_mode():
        for control, draw in zip(controls_N2, draws_N, strict=True):
            made, state = network.gru(torch.cat([last, control])[None, None], state)
            chances = network.out(made[0, 0]).double().softmax(0).cumsum(0)
            chosen = int(torch.searchsorted(chances, draw.double()).clamp_max(ar.LEVELS - 1))
            last = torch.tensor([ar._value(chosen)], dtype=torch.float32)
            sound.append(last)
    return torch.cat(sound)


def test_the_loop_that_is_compiled_is_the_plain_one(monkeypatch):
    for name in ("_loop", "_value"):  # as Python: the compiler takes half a minute
        monkeypatch.setattr(ar, name, getattr(ar, name).py_func)
    torch.manual_seed(0)
    network, draws = ar.SampleBySample(8), torch.rand(60, dtype=torch.float64)
    told = network, torch.rand(60, 2), draws
    assert float((ar.written(*told) - written_reference(*told)).abs().max()) < 1e-6


def test_phrases_repeat_are_never_polyphonic_and_are_held_out():
    notes = ins.phrase(3)
    assert notes == ins.phrase(3) != ins.phrase(ins.HELD_OUT)
    assert all(a[0] + a[1] <= b[0] + 1e-9 for a, b in zip(notes, notes[1:], strict=False))
    assert ins.midi_file(notes, 73)[:4] == b"MThd"


def test_a_notes_loudness_is_its_swells():
    """Expression (controller 11) of each note: of its drawn loudness, 60 % to all of it."""
    notes = [(0.0, 0.5, 69, 0.4, 0.0), (1.0, 0.5, 69, 0.8, 0.0)]
    track = ins.midi_file(notes, 73)
    at = [n + 2 for n in range(len(track) - 2) if track[n : n + 2] == b"\xb0\x0b"]
    first, second = np.array([track[n] for n in at]).reshape(2, -1)
    assert (first.min(), first.max()) == pytest.approx((0.6 * 0.4 * 127, 0.4 * 127), abs=1)
    assert second == pytest.approx(2 * first, abs=1)


def test_a_rendered_phrase_has_the_drawn_pitch_and_its_glides():
    if not ins.can_render():
        with pytest.raises(RuntimeError, match="fluidsynth"):
            ins.rendered("bansuri", 0)
        pytest.skip("no fluidsynth here")
    found = sf.features(ins.tensor(ins.rendered("oboe", 1, 4.0)))
    glides = 0
    for start, length, note, _, glide in ins.phrase(1, ins.LOWEST["oboe"], 4.0):
        first, last = (int((start + at) * 250) for at in (0.17, length - 0.05))
        heard = sf.midi(found.f0[first:last])[found.voiced[first:last]]
        if len(heard) > 10:
            assert abs(float(heard.median()) - note) < 0.5
        begin = slice(int((start + 0.04) * 250), int((start + 0.07) * 250))
        if glide and found.voiced[begin].all():
            off = float(sf.midi(found.f0[begin]).median()) - note
            assert off * glide > 0.3 * glide**2
            glides += 1
    assert glides


def tone_of(*levels_db, f0=330):
    """A second of a tone whose partials have these levels."""
    at = torch.arange(16_000, dtype=torch.float64) / 16_000
    pairs = enumerate(levels_db, 1)
    return sum(10 ** (db / 20) * torch.sin(2 * torch.pi * k * f0 * at) for k, db in pairs) / 9


def test_timbre_is_the_levels_of_the_partials():
    truth = tone_of(0, -6, -12)
    assert bench.timbre_distance(truth, truth) == 0
    assert bench.timbre_distance(0.1 * truth, truth) < 1e-6
    found = bench.partial_levels(truth, torch.full((250,), 330.0).double())[100, :4]
    share = 10 * np.log10(1 + 10**-0.6 + 10**-1.2)
    assert found.tolist() == pytest.approx([-share, -6 - share, -12 - share, -40], abs=0.1)
    duller = bench.timbre_distance(tone_of(0, -12, -24), truth)
    assert duller == pytest.approx((0.905 + 5.095 + 11.095) / 3, abs=0.1)
    assert bench.timbre_distance(tone_of(0, -6, -12, -10), truth) > 5  # one that is not there
    noise = torch.randn(16_000, generator=torch.Generator().manual_seed(0)).double()
    assert bench.timbre_distance(noise, truth) > 5, "at the truth's pitch, if there is no other"


def test_a_timbre_is_not_compared_where_the_truth_is_faint():
    fall = torch.where(torch.arange(16_000) < 8_000, 1.0, 0.05)  # by 26 dB
    truth, dull = fall * tone_of(0, -6, -12), fall * tone_of(0, -12, -24)
    late = torch.cat([truth[:8_500], dull[8_500:]])
    early = torch.cat([dull[:7_500], truth[7_500:]])
    assert bench.timbre_distance(late, truth) < 0.5 < 4 < bench.timbre_distance(early, truth)


def test_faint_noise_hardly_moves_the_timbre_and_another_instrument_does(phrase):
    truth = ins.tensor(ins.kept("shehnai")[ins.HELD_OUT])
    faint = bench.timbre_distance(bench.with_noise(truth, 0), truth)
    level = (bench.with_noise(truth, 0) - truth).square().mean() / truth.square().mean()
    assert 10 * np.log10(float(level)) == pytest.approx(-40, abs=0.2)
    oboe = ins.tensor(ins.kept("oboe")[ins.HELD_OUT])
    assert 0 < faint < 0.1 * bench.timbre_distance(oboe[: len(truth)], truth[: len(oboe)])
