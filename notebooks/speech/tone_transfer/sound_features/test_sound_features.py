"""Pitch, loudness and the loss: equal to plain loops, right on known tones; what cannot be used
is refused.
"""

import cmath
import math

import numpy as np
import pytest
import torch

from sound_features import analysis as sf
from sound_features import sound_input
from sound_features.loss import spectral_loss

torch.set_num_threads(1)  # two processes of tests share two cores
AT = torch.arange(16_000, dtype=torch.float64) / 16_000


def tone(f0, partials=6):
    return 0.3 * sum(torch.sin(2 * math.pi * k * f0 * AT) / k for k in range(1, partials + 1))


def chord(*notes):
    return sum(tone(note, 4) / len(notes) for note in notes).numpy()


def whistle(f0):
    return 0.3 * np.sin(2 * np.pi * f0 * AT.numpy())


def difference_reference(span, lags):
    """The same for one span as a list of floats: two loops."""
    return [
        sum((span[i] - span[i + lag]) ** 2 for i in range(sf.WINDOW)) for lag in range(lags)
    ]


def yin_reference(span):
    """(f0, confidence) of one span of floats, as the paper's steps read, in plain Python."""
    d = difference_reference(span, sf.LAGS)
    normal, total = [1.0], 0.0
    for lag in range(1, sf.LAGS):
        total += d[lag]
        normal.append(d[lag] * lag / max(total, 1e-12))
    lags = range(sf.SHORTEST, sf.LAGS - 1)
    dips = [n for n in lags if normal[n - 1] >= normal[n] < normal[n + 1]]
    deep = [n for n in dips if normal[n] < sf.DIP]
    at = deep[0] if deep else min(dips, key=normal.__getitem__, default=sf.SHORTEST)
    a, b, c = normal[at - 1 : at + 2]
    bend = a - 2 * b + c
    shift = min(1.0, max(-1.0, (a - c) / (2 * bend))) if bend > 1e-12 else 0.0
    sure = min(1.0, max(0.0, 1 - (b - (a - c) * shift / 4))) if total >= 1e-9 else 0.0
    return sf.SAMPLE_RATE / (at + shift), sure


def test_yin_equals_the_reference():
    noisy = tone(233) + 0.05 * torch.randn(
        16_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    span = sf.frames(noisy, sf.SPAN)[100:101]
    got, wanted = sf.yin(span[0]), yin_reference(span[0].tolist())
    assert [float(got[0]), float(got[1])] == pytest.approx(wanted, abs=1e-8)


def test_blocks_that_frames_share_give_each_frame_its_own_difference():
    random = torch.Generator().manual_seed(1)
    sound = 0.2 + torch.randn(sf.SPAN + 5 * 64, generator=random, dtype=torch.float64)
    found = sf.difference(sound)
    assert found.shape == (6, sf.LAGS)
    for t in (0, 5):
        wanted = difference_reference(sound[64 * t :].tolist(), sf.LAGS)
        assert found[t].tolist() == pytest.approx(wanted, abs=1e-9)


def test_more_frames_than_a_block_have_the_pitch_of_a_few():
    sound = torch.sin(torch.arange(64.0 * (2 * sf.BLOCK + 3)).double() ** 1.2 / 40)
    few = sf.features(sound[64 * 100 : 64 * 160], margin=64 * 20)
    whole = sf.features(sound)
    assert len(whole.f0) == 2 * sf.BLOCK + 3
    torch.testing.assert_close(few.f0, whole.f0[120:140], rtol=1e-9, atol=0)


def loudness_reference(frame):
    """Loudness of one frame as a list of floats: the sum of each bin written out."""
    size = len(frame)
    window = [0.5 - 0.5 * math.cos(2 * math.pi * n / size) for n in range(size)]
    values = [x * w for x, w in zip(frame, window, strict=True)]
    weights, power = sf.a_weights(size // 2 + 1).tolist(), 0.0
    for k, weight in enumerate(weights):
        turned = (x * cmath.exp(2j * math.pi * k * n / size) for n, x in enumerate(values))
        power += weight * abs(sum(turned)) ** 2 * (2 / sum(window)) ** 2
    return min(1.0, max(0.0, 1 + 10 * math.log10(max(power / 1.5, 1e-12)) / sf.RANGE_DB))


def test_loudness_equals_the_reference():
    frame = (tone(440) + 0.01)[:256]
    got = sf.loudness_of(sf.spectrum_power(frame[None]))
    assert float(got) == pytest.approx(loudness_reference(frame.tolist()), abs=1e-9)


@pytest.mark.parametrize("f0", [65.0, 110.0, 233.3, 440.0, 987.0, 1_400.0])
def test_the_pitch_of_a_tone_is_right_to_fifteen_cents(f0):
    found = sf.features(tone(f0))
    middle = slice(40, -40)
    assert (
        1200 * torch.log2(found.f0[middle] / f0)
    ).abs().max() < 15  # a parabola through whole lags: 11 of 1,400 Hz
    assert found.voiced[middle].all()


def test_a_full_tone_at_1_khz_has_loudness_one_and_10_db_are_an_eighth():
    loud = [
        float(sf.features(a * torch.sin(2 * math.pi * 1_000 * AT)).loudness[100])
        for a in (1.0, 10**-0.5)
    ]
    assert loud == pytest.approx([1.0, 0.875], abs=2e-3)


def test_noise_and_silence_have_no_sure_pitch():
    noise = torch.randn(16_000, generator=torch.Generator().manual_seed(0))
    assert sf.features(0.1 * noise).voiced.double().mean() < 0.05
    assert not sf.features(torch.zeros(16_000)).voiced.any()


def test_a_glides_pitch_is_that_of_its_moment():
    at = torch.arange(16_000, dtype=torch.float64) / 16_000
    cycles = 200 * at + 200 * at.square()  # 400 Hz a second: 30 ms late would be 12 Hz
    sound = sum(torch.sin(2 * torch.pi * k * cycles) / k for k in (1, 2, 3))
    wanted = 200 + 400 * torch.arange(250) * 64 / 16_000
    assert float((sf.features(0.3 * sound).f0 - wanted)[20:-40].abs().max()) < 4


def test_pitch_is_held_through_gaps_and_from_an_earlier_chunk():
    f0, sure = (
        torch.tensor([9.0, 1.0, 9.0, 2.0, 9.0]),
        torch.tensor([False, True, False, True, False]),
    )
    assert sf.held(f0, sure, 7.0).tolist() == [7, 1, 1, 2, 2]


def test_context_makes_the_frames_of_the_whole():
    sound = tone(300)
    whole = sf.features(sound)
    part = sf.features(sound[64 * 30 : 64 * 130], margin=64 * 20)
    torch.testing.assert_close(part.f0, whole.f0[50:110], rtol=1e-9, atol=0)


@pytest.mark.parametrize("sound", [torch.zeros(2, 100), torch.zeros(63)])
def test_what_is_no_sound_of_one_channel_is_refused(sound):
    with pytest.raises(ValueError, match="one channel of at least 64 samples"):
        sf.features(sound)


def spectral_loss_reference(got, want, sizes):
    """The same for one pair of lists: every sum written out, float64."""
    total = 0.0
    for size in sizes:
        pairs = list(zip(_reference(got, size), _reference(want, size), strict=True))
        logs = (abs(math.log((a + 1e-5) / (b + 1e-5))) for a, b in pairs)
        total += (sum(abs(a - b) for a, b in pairs) + sum(logs)) / len(pairs)
    return total


def _reference(sound, size):
    half, turn = size // 2, 2 * math.pi / size
    padded = [*sound[half:0:-1], *sound, *sound[-2 : -half - 2 : -1]]
    window, found = [0.5 - 0.5 * math.cos(turn * n) for n in range(size)], []
    for start in range(0, len(padded) - size + 1, size // 4):
        for k in range(half + 1):
            wave = (padded[start + n] * window[n] for n in range(size))
            turned = sum(x * cmath.exp(-1j * turn * k * n) for n, x in enumerate(wave))
            found.append(math.sqrt(abs(turned) ** 2 + 1e-14))
    return found


def test_the_loss_equals_the_reference():
    a, b = torch.randn(
        2, 1, 200, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    wanted = spectral_loss_reference(a[0].tolist(), b[0].tolist(), (64, 32))
    assert float(spectral_loss(a, b, (64, 32))) == pytest.approx(wanted, rel=1e-9)


def test_the_losss_gradient_is_the_finite_difference_and_silence_has_one():
    a, b = torch.randn(
        2, 1, 80, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    assert torch.autograd.gradcheck(
        lambda x: spectral_loss(x, b, (32, 16)), (a.requires_grad_(),)
    )
    silent = torch.zeros(1, 4_000, requires_grad=True)
    spectral_loss(silent, torch.randn(1, 4_000)).backward()
    assert torch.isfinite(silent.grad).all()


def test_the_loss_adds_six_sizes_and_hears_silence():
    a, b = 0.1 * torch.randn(2, 1, 5_000, generator=torch.Generator().manual_seed(0))
    each = [spectral_loss(a, b, (size,)) for size in (2048, 1024, 512, 256, 128, 64)]
    assert float(spectral_loss(a, b)) == pytest.approx(float(sum(each)), rel=1e-5)
    assert float(spectral_loss(a, a)) == 0
    quiet = torch.zeros(1, 4_000)
    quiet[0, 2_000] = 1e-3  # an impulse: magnitudes of 1e-3 · window in the frames that hold it
    assert 0.5 < float(spectral_loss(quiet, 0 * quiet, (2048,))) < math.log(1e-3 / 1e-5)


def test_sounds_of_other_lengths_are_not_compared():
    with pytest.raises(ValueError, match="equal shapes"):
        spectral_loss(torch.zeros(1, 4_000), torch.zeros(1, 4_001))


@pytest.mark.parametrize("partials", [range(2, 9), range(3, 26), range(1, 10, 2), [1]])
def test_one_voice_with_missing_partials_is_no_chord(partials):
    wave = sum(0.1 * torch.sin(2 * math.pi * 140 * k * AT + k) / k for k in partials)
    assert sound_input.heard(wave.numpy(), 16_000).remarks == []


def test_a_cut_wave_is_told_on_any_channel_at_any_level():
    wave = np.sin(2 * np.pi * 220 * np.arange(16_000) / 16_000)
    for level in (0.05, 0.2, 1.0):
        both = np.stack([0.4 * level * wave, level * np.clip(2 * wave, -0.5, 0.5)], 1)
        assert any("clipped" in one for one in sound_input.heard(both, 16_000).remarks)


@pytest.mark.parametrize("rate", [8_000, 22_050, 48_000])
def test_another_rate_is_resampled_and_said(rate):
    at = np.arange(rate) / rate
    heard = sound_input.heard(0.3 * np.sin(2 * np.pi * 440 * at), rate)
    assert heard.remarks[0].startswith(f"Resampled from {rate:,} to 16,000 Hz")
    assert abs(float(heard.features.f0[120]) - 440) < 2


def test_channels_that_cancel_each_other_are_not_silent():
    left = tone(220).numpy()
    heard = sound_input.heard(np.stack([left, -0.9 * left], 1), 16_000.0)
    assert heard.remarks == ["The channels cancel each other: the loudest one is used."]
    assert float((heard.sound - torch.tensor(left)).abs().max()) < 1e-6
    left = np.tile(left, 2)
    one = sound_input.heard(np.stack([left, 0 * left], 1), 48_000.0)
    assert one.remarks[:2] == [
        "2 channels were mixed into one.",
        "Resampled from 48,000 to 16,000 Hz.",
    ]


@pytest.mark.parametrize("note", [65, 80, 1_300, 1_450])
def test_a_note_at_either_end_of_the_range_is_played(note):
    heard = sound_input.heard(whistle(note), 16_000)
    assert abs(float(heard.features.f0[100]) / note - 1) < 0.01


@pytest.mark.parametrize("level", [0.01, 0.3, 0.99])
def test_a_clean_sine_is_not_called_clipped(level):
    sine = level * np.sin(2 * np.pi * 100 * np.arange(48_000) / 48_000)
    assert sound_input.clipped(np.round(sine * 32767) / 32768) <= sound_input.CLIPPED


@pytest.mark.parametrize(
    ("values", "rate", "told"),
    [
        (np.zeros(16_000), 16_000, "silent"),
        (np.full(16_000, np.nan), 16_000, "NaN"),
        (np.zeros(100), 16_000, "at least 0.5 s"),
        (np.zeros(16_000), 10, "4,000 to 192,000"),
        (np.zeros(16_000), 16_000.5, "whole numbers"),
        (np.zeros((2, 16_000)), 16_000, r"shape \(2, 16000\) came; .* channels first"),
        *((whistle(f0), 16_000, "too high: notes from 60") for f0 in (1_800, 2_000, 2_500)),
        (whistle(3_000) + whistle(6_000) / 3, 16_000, "too high"),
        (whistle(5_500), 16_000, "too high"),
        (whistle(40), 16_000, "too low: notes from 60"),
        (whistle(40) + whistle(80) / 3, 16_000, "too low"),
        (whistle(2_000) + whistle(440), 16_000, "several notes"),
        (chord(220, 330), 16_000, "several notes"),
        (chord(262, 330), 16_000, "several notes"),
        (chord(300, 400), 16_000, "several notes"),
        (chord(200, 300, 400), 16_000, "several notes"),
        (chord(262, 330, 392), 16_000, "several notes"),
    ],
)
def test_what_cannot_be_used_is_refused(values, rate, told):
    with pytest.raises(ValueError, match=told):
        sound_input.heard(values, rate)
