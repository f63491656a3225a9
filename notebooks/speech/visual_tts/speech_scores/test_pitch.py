"""Pitch errors on cases by hand, and the tracker on sounds of known pitch and beside Praat."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from . import (
    f0_errors_reference,
    f0_frame_error,
    f0_track,
    gross_pitch_error,
    normalised_f0,
    voicing_error,
)

RATE_HZ = 16_000


def glide(first_hz, last_hz, seconds=1.0, harmonics=8):
    """A voice-like sound whose pitch glides, and its pitch at the middle of each 10 ms."""
    f0 = np.geomspace(first_hz, last_hz, round(seconds * RATE_HZ))
    phase = 2 * np.pi * np.cumsum(f0) / RATE_HZ
    return sum(np.sin(k * phase) / k for k in range(1, harmonics + 1)) * 0.1, f0[80::160]


CASES = [
    ([100, 100], [100, 100], (0, 0, 0)),
    ([121, 119], [100, 100], (0.5, 0, 0.5)),  # more than a fifth, and less
    ([0, 100, 0, 100], [0, 0, 100, 100], (0, 0.5, 0.5)),
    ([200, 0, 100, 100], [100, 100, 100, 0], (0.5, 0.5, 0.75)),
    ([80, 79], [100, 100], (0.5, 0, 0.5)),  # a fifth itself is no gross error
]


@pytest.mark.parametrize(("said", "true", "wanted"), CASES)
def test_errors_of_cases_by_hand(said, true, wanted):
    assert (
        gross_pitch_error(said, true),
        voicing_error(said, true),
        f0_frame_error(said, true),
    ) == wanted
    assert f0_errors_reference(said, true) == wanted


def test_without_a_frame_voiced_in_both_there_is_no_gross_error_to_speak_of():
    assert (
        math.isnan(gross_pitch_error([0, 100], [100, 0]))
        and voicing_error([0, 100], [100, 0]) == 1
    )


@given(
    st.lists(
        st.tuples(st.sampled_from([0, 90, 100, 130]), st.sampled_from([0, 100, 120])),
        min_size=1,
        max_size=30,
    )
)
def test_frame_error_is_both_errors_and_never_below_voicing(pairs):
    said, true = (list(column) for column in zip(*pairs, strict=True))
    assert voicing_error(said, true) <= f0_frame_error(said, true) <= 1
    assert np.allclose(
        f0_errors_reference(said, true)[1:],
        (voicing_error(said, true), f0_frame_error(said, true)),
    )


def test_normalised_pitch_has_mean_one_where_voiced():
    found = normalised_f0([0, 100, 200, 0, 300])
    assert found.tolist() == [0, 0.5, 1, 0, 1.5] and normalised_f0([0, 0]).tolist() == [0, 0]


@pytest.mark.parametrize("ends_hz", [(80, 120), (140, 300), (400, 220)])
def test_the_tracker_follows_a_glide(ends_hz):
    sound, true = glide(*ends_hz)
    found = f0_track(sound)
    assert found.shape == true.shape and (found[3:-3] > 0).all()
    assert np.abs(found[3:-3] / true[3:-3] - 1).max() < 0.02


@pytest.mark.parametrize("offset", [0.0, 0.3])
def test_noise_and_silence_are_unvoiced(offset):
    noise = np.random.default_rng(0).normal(size=RATE_HZ) * 0.1 + offset
    assert (f0_track(noise) > 0).mean() < 0.05 and not f0_track(np.zeros(RATE_HZ)).any()


def test_a_high_voice_is_not_heard_an_octave_low():
    formant = np.sin(2 * np.pi * 3030 * np.arange(RATE_HZ) / RATE_HZ) * 0.05
    sound, true = glide(225, 240)
    found = f0_track(sound * (1 + formant) + formant)[5:-5]
    assert np.abs(found / true[5:-5] - 1).max() < 0.05


@pytest.mark.parametrize("sound", [[], np.zeros(100), [math.nan] * 800, np.zeros((2, 800))])
def test_refuses_what_has_no_pitch_to_track(sound):
    with pytest.raises(ValueError, match="160 finite samples"):
        f0_track(sound)


def test_praat_hears_the_same_pitch():
    parselmouth = pytest.importorskip("parselmouth")
    sound, true = glide(110, 260)
    praat = parselmouth.Sound(sound, RATE_HZ).to_pitch_ac(0.01, 70.0, pitch_ceiling=450.0)
    theirs = np.interp(
        np.arange(len(true)) / 100 + 0.005, praat.xs(), praat.selected_array["frequency"]
    )
    assert np.abs(f0_track(sound)[5:-5] / theirs[5:-5] - 1).max() < 0.02


@pytest.mark.parametrize(
    "bad", [([100], [100, 100]), ([], []), ([-1], [100]), ([math.nan], [1])]
)
def test_refuses_what_are_no_tracks(bad):
    with pytest.raises(ValueError, match="pitch"):
        f0_frame_error(*bad)
