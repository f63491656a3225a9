"""Clips on what they promise: phonemes in time, a mouth that follows them, and a face that says
nothing of loudness.
"""

import dataclasses

import numpy as np
import pytest
import soundfile
from scipy.signal import resample_poly

from . import (
    FPS,
    SPEAKERS,
    Face,
    Script,
    Voice,
    draw_script,
    loudness_db,
    make_clip,
    make_clips,
    mouth_track,
    probe_r2,
    read_again,
    real_clip,
    render,
    say,
    split,
    spoken_words,
)
from .clips import WORDS
from .face import VISEMES


def script(**changes):
    return Script(
        **{"words": ("two", "five"), "pauses_s": (0.2, 0.4, 0.2), "emphasised": 1} | changes
    )


@pytest.fixture(scope="module")
def clip():
    return make_clip(
        script(), Voice("m3"), Face.draw(np.random.default_rng(0)), np.random.default_rng(0)
    )


def test_a_word_is_spoken_with_its_phonemes_in_order():
    sound, phonemes = say("zero", Voice("m3"))
    starts = [start for start, _ in phonemes]
    assert (
        starts == sorted(starts)
        and starts[-1] <= len(sound) / 22_050
        and "".join(ipa for _, ipa in phonemes).startswith("z")
    )


def test_a_higher_pitch_is_higher():
    from speech_scores import f0_track

    said = (say("nine", Voice("m3", pitch))[0] for pitch in (50, 90))
    low, high = (f0_track(resample_poly(sound, 320, 441)) for sound in said)  # to 16 kHz
    assert np.median(high[high > 0]) > 1.3 * np.median(low[low > 0])


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (("", Voice("m3")), "1 to 1,000"),
        (("a\0b", Voice("m3")), "NUL"),
        (("a", Voice("m3"), 20), "80 to 450"),
        (("a", Voice("nobody")), "no variant"),
        (("a", Voice("../../phontab")), "no variant"),
    ],
)
def test_refuses_what_cannot_be_said(what, words):
    with pytest.raises(ValueError, match=words):
        say(*what)


def test_a_clip_has_640_samples_a_frame_and_its_pauses(clip):
    assert len(clip.sound_N) == 640 * clip.frames and clip.face_THW.shape == (
        clip.frames,
        32,
        32,
    )
    (_, first, end), (_, second, _) = clip.words
    assert abs(first - 0.2) < 0.01 and abs(second - end - 0.4) < 0.01
    gap = clip.sound_N[round(end * 16_000) + 200 : round(second * 16_000) - 200]
    assert not gap.any() and clip.text == "two five"


def test_lips_close_for_m_and_open_for_a():
    track = mouth_track(((0.0, "m"), (0.2, "a"), (0.4, "")), 15)
    assert track[2, 0] < 0.05 and track[7, 0] > 0.9 and track[14, 0] < 0.05
    assert track.dtype == np.float32 and set("mbp") <= set(VISEMES)


def test_a_diphthong_moves_and_an_unknown_sound_is_a_schwa():
    track = mouth_track(((0.0, "aɪ"), (0.8, "")), 20)
    assert track[4, 0] > track[15, 0] + 0.4
    assert np.allclose(mouth_track(((0.0, "q"),), 9)[4], VISEMES["ə"], atol=1e-3)


def test_an_open_mouth_is_darker_and_a_still_face_is_still():
    still = dataclasses.replace(Face.draw(np.random.default_rng(1)), noise=0.0, sway=0.0)
    track = np.float32([[0, 0.5, 0, 0], [1, 0.5, 0, 0], [1, 0.5, 0, 0]])
    for view in ("face", "mouth"):
        shut, wide, again = render(still, track, np.zeros(3), view).astype(int)
        assert wide.sum() < shut.sum() and (wide == again).all()


def test_brows_are_in_the_face_and_not_in_the_mouth_crop():
    still = dataclasses.replace(Face.draw(np.random.default_rng(1)), noise=0.0, sway=0.0)
    track, brows = np.tile(np.float32([0, 0.5, 0, 0]), (2, 1)), np.float32([0, 1])
    assert np.ptp(render(still, track, brows, "face").astype(int), axis=0).max() > 20
    assert np.ptp(render(still, track, brows, "mouth").astype(int), axis=0).max() == 0


def test_refuses_another_view():
    with pytest.raises(ValueError, match="'mouth' are allowed"):
        render(Face.draw(np.random.default_rng(0)), np.zeros((1, 4)), np.zeros(1), "ear")


def test_groups_of_speakers_share_no_voice():
    variants = [{voice.variant for voice in group} for group in SPEAKERS.values()]
    assert not (
        variants[0] & variants[1] or variants[0] & variants[2] or variants[1] & variants[2]
    )


def test_a_split_hands_each_group_its_own_clips_and_refuses_a_voice_in_two(monkeypatch):
    made = split(train=(2, 1), test=(1, 7))
    assert list(made) == ["train", "test"] and [len(clips) for clips in made.values()] == [2, 1]
    assert (made["test"][0].sound_N == make_clips("test", 1, 7)[0].sound_N).all()
    monkeypatch.setitem(SPEAKERS, "train", SPEAKERS["test"])
    with pytest.raises(ValueError, match=r"'train' and 'test' share \['m4'\]"):
        split(train=(2, 1), test=(1, 7))


def test_known_words_are_all_twelve_at_one_level_and_nobody_is_emphasised():
    known = spoken_words(Voice("m3", 55), 160)
    assert set(known) == set(WORDS) and len(known) == 12
    assert all(np.isclose(np.sqrt(np.mean(sound**2)), 0.1) for sound in known.values())
    face, rng = Face.draw(np.random.default_rng(0)), np.random.default_rng(0)
    _, start, end = make_clip(script(emphasised=None), Voice("m3", 55), face, rng).words[0]
    assert len(known["two"]) == round(16_000 * (end - start))


def test_clips_are_drawn_again_from_their_seed_and_differ_by_it():
    one, same, other = (make_clips("test", 1, seed, words=1)[0] for seed in (1, 1, 2))
    assert (one.face_THW == same.face_THW).all() and (one.sound_N == same.sound_N).all()
    assert one.face_THW.shape != other.face_THW.shape or (one.face_THW != other.face_THW).any()


def test_refuses_another_group():
    with pytest.raises(ValueError, match="no group 'nobody'"):
        make_clips("nobody", 1, 0)


def test_a_script_draws_different_words_and_pauses_of_both_kinds():
    rng = np.random.default_rng(0)
    scripts = [draw_script(rng) for _ in range(50)]
    inner = np.array([pause for one in scripts for pause in one.pauses_s[1:-1]])
    assert all(len(set(one.words)) == 3 for one in scripts)
    assert 0.2 < (inner >= 0.3).mean() < 0.5 and not ((inner > 0.1) & (inner < 0.3)).any()


def test_the_face_keeps_loudness_to_itself_and_both_probes_would_see_it():
    honest, leaky = (make_clips("train", 42, 1, words=2, leak=leak) for leak in (False, True))
    for track in (False, True):
        r2 = [probe_r2(one[:30], one[30:], track=track) for one in (honest, leaky)]
        assert r2[0] < 0.2 < 0.25 < r2[1]
    assert probe_r2(honest[:30], honest[30:], within="all") > 0.4  # silence may be seen


def test_a_clip_read_again_has_its_words_and_voice_and_other_pauses():
    clip = make_clips("test", 1, 4)[0]
    again = read_again(clip, np.random.default_rng(0))
    spoken = sum(end - start for _, start, end in clip.words) * 16_000
    assert abs(len(again) - len(clip.sound_N)) > 160 and len(again) > spoken
    assert (again != 0).sum() < 1.02 * spoken


def test_the_emphasised_word_is_higher_and_raises_the_brows_of_the_face_alone():
    from speech_scores import f0_track

    face = dataclasses.replace(Face.draw(np.random.default_rng(1)), noise=0.0, sway=0.0)
    plain, raised = (
        make_clip(script(emphasised=at), Voice("m3"), face, np.random.default_rng(0))
        for at in (None, 1)
    )
    for word, higher in enumerate((False, True)):
        _, start, end = plain.words[word]
        two = [
            f0_track(one.sound_N)[round(100 * start) : round(100 * end)]
            for one in (plain, raised)
        ]
        low, high = (np.median(track[track > 0]) for track in two)
        assert (high > 1.1 * low) == higher and high > 0.98 * low
    (_, _, before), (_, start, end) = raised.words
    frames = min(plain.frames, raised.frames)
    brows = slice(4, 12)  # rows of pixels, above the eyes
    moved = np.abs(
        raised.face_THW[:frames, brows].astype(int) - plain.face_THW[:frames, brows]
    ).max((1, 2))
    assert moved[round((start + 0.1) * FPS) : round((end - 0.1) * FPS)].min() > 20
    assert moved[: round((before - 0.1) * FPS)].max() == 0
    quiet = slice(0, round((before - 0.1) * FPS))
    assert (raised.mouth_THW[quiet] == plain.mouth_THW[quiet]).all()


@pytest.mark.parametrize(
    ("pauses_s", "emphasised"), [((0.1, 0.1), None), ((0.1, -0.1, 0.1), None), ((0.1,) * 3, 2)]
)
def test_refuses_a_script_that_does_not_fit_together(pauses_s, emphasised):
    odd = Script(("two", "five"), pauses_s, emphasised)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="one pause more than words"):
        make_clip(odd, Voice("m3"), Face.draw(rng), rng)


def test_loudness_within_voiced_frames_is_not_the_phonemes(clip):
    rng = np.random.default_rng(0)
    face = Face.draw(rng)
    flat = [
        make_clip(script(), Voice("m3"), face, np.random.default_rng(seed))
        for seed in range(12)
    ]
    levels = np.stack([loudness_db(one)[one.voiced_T] for one in flat])
    assert levels.std(0).mean() > 2 and np.ptp(levels.mean(0)) < 12


def recording(folder, sound):
    for digit in range(10):
        soundfile.write(folder / f"{digit}_theo_0.wav", sound, 8000)


def test_real_digits_get_a_face_of_their_own_length_and_no_emphasis(tmp_path):
    recording(tmp_path, 0.1 * np.sin(2 * np.pi * 150 * np.arange(3200) / 8000))
    face = Face.draw(np.random.default_rng(0))
    clips = [real_clip(tmp_path, "theo", script(emphasised=e), (0, 0), face) for e in (None, 1)]
    _, start, end = clips[0].words[0]
    assert abs(end - start - 0.4) < 0.02
    assert clips[0].frames == np.ceil((0.8 + 2 * 0.4) * FPS)
    assert (clips[0].face_THW == clips[1].face_THW).all()


@pytest.mark.parametrize("shape", [(800,), (800, 2)])
def test_refuses_a_recording_that_is_silent_or_has_two_channels(tmp_path, shape):
    recording(tmp_path, np.zeros(shape) + 0.1 * (len(shape) > 1))
    with pytest.raises(ValueError, match="one channel that is not silent"):
        real_clip(tmp_path, "theo", script(), (0, 0), Face.draw(np.random.default_rng(0)))
