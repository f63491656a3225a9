"""Mel-cepstral distortion on spectra whose cepstra are known, on plain loops, and beside
librosa.
"""

import math

import librosa
import numpy as np
import pytest

from . import (
    cepstra,
    mel_cepstral_distortion,
    mel_cepstral_distortion_reference,
    warped_distances,
    warping_path,
)


def ripples(*amplitudes, mels=80):
    """ln amplitudes of one step whose power has these cepstra c_0, c_1, ..."""
    at = (np.arange(mels) + 0.5) / mels
    waves = [(2 if d else 1) * c * np.cos(np.pi * d * at) for d, c in enumerate(amplitudes)]
    return np.sum(waves, axis=0)[None] / 2


def test_a_ripple_has_its_own_cepstrum_and_loudness_has_none():
    found = cepstra(ripples(5.0, 0.0, 0.7))
    assert np.allclose(found, [[0, 0.7, *[0] * 11]], atol=1e-12)


def test_two_ripples_differ_by_their_distance_in_db():
    a, b = cepstra(ripples(0, 1.0)), cepstra(ripples(9.0, 0.5, 0.5))
    assert math.isclose(mel_cepstral_distortion(a, b), 10 / math.log(10) * math.sqrt(2 * 0.5))


def test_a_distortion_is_the_rms_difference_of_smooth_spectra_in_db():
    """Parseval: for spectra of few ripples the sum over coefficients is the mean over bands."""
    a, b = ripples(0, 0.3, -0.2, 0.1), ripples(0, -0.1, 0.4)
    rms_db = math.sqrt(np.mean((20 / math.log(10) * (a - b)) ** 2))
    assert math.isclose(mel_cepstral_distortion(cepstra(a), cepstra(b)), rms_db)


def test_it_equals_the_plain_loop():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 7, 13))
    assert math.isclose(
        mel_cepstral_distortion(a, b), mel_cepstral_distortion_reference(a.tolist(), b.tolist())
    )


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (6, 1), (13, 17), (30, 11)])
def test_the_warping_path_costs_what_librosas_does(shape):
    cost = np.random.default_rng(2).random(shape)
    path = warping_path(cost)
    total, _ = librosa.sequence.dtw(C=cost)
    assert math.isclose(cost[path[:, 0], path[:, 1]].sum(), total[-1, -1])
    assert tuple(path[0]) == (0, 0) and tuple(path[-1]) == (shape[0] - 1, shape[1] - 1)
    assert {tuple(step) for step in np.diff(path, axis=0)} <= {(0, 1), (1, 0), (1, 1)}


def test_warping_forgives_a_delay_and_in_step_does_not():
    word, silence = np.random.default_rng(3).normal(size=(20, 13)), np.zeros((10, 13))
    early, late = (
        np.concatenate([silence[:1], word, silence]),
        np.concatenate([silence, word, silence[:1]]),
    )
    assert (
        mel_cepstral_distortion(early, late, warp=True)
        < 1e-6
        < 5
        < mel_cepstral_distortion(early, late)
    )


def test_warped_distances_are_librosas_symmetric_ones_whatever_stands_beside():
    rng = np.random.default_rng(4)
    said, others = rng.normal(size=(11, 3)), [rng.normal(size=(n, 3)) for n in (1, 7, 19)]
    found = warped_distances(said, others)
    for other, got in zip(others, found, strict=True):
        cost = np.linalg.norm(said[:, None] - other, axis=-1)
        sums, _ = librosa.sequence.dtw(C=cost, weights_mul=np.array([2.0, 1, 1]))
        wanted = (sums[-1, -1] + cost[0, 0]) / (len(said) + len(other))  # its start counts once
        assert math.isclose(got, wanted)
        assert math.isclose(warped_distances(said, [other])[0], got)
    assert warped_distances(said, [said, np.repeat(said, 2, axis=0)]) == pytest.approx(
        0, abs=1e-6
    )


@pytest.mark.parametrize("bad", [np.zeros((0, 13)), np.zeros(13), np.full((2, 13), np.nan)])
def test_refuses_what_are_no_cepstra(bad):
    with pytest.raises(ValueError, match="cepstra of shape"):
        mel_cepstral_distortion(bad, bad)


def test_refuses_other_lengths_in_step():
    with pytest.raises(ValueError, match="warp=True"):
        mel_cepstral_distortion(np.zeros((3, 13)), np.zeros((4, 13)))
