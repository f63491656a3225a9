"""Rooms and their noise, on the laws that define them."""

import numpy as np
import pytest

from .utterance import room_noise, room_response


@pytest.mark.parametrize("t60_s", [0.2, 0.6])
def test_a_room_decays_by_60_db_in_its_reverberation_time(t60_s):
    level_db = []
    for seed in range(30):
        response = room_response(t60_s, 6.0, np.random.default_rng(seed))
        left = np.cumsum(response[:0:-1] ** 2)[::-1]  # Schroeder: the energy still to come
        level_db.append(10 * np.log10(left / left[0]))
    fall = np.mean(level_db, axis=0)[: round(16_000 * t60_s / 3)]  # the first 20 dB
    slope = np.polyfit(np.arange(len(fall)) / 16_000, fall, 1)[0]
    assert abs(-60 / slope - t60_s) < 0.02 * t60_s  # mean of 30 rooms


def test_a_room_has_its_direct_to_reverberant_ratio():
    response = room_response(0.4, 7.0, np.random.default_rng(1))
    assert response[0] == 1 and np.isclose(np.sum(response[1:] ** 2), 10**-0.7)


def test_room_noise_has_the_spectrum_of_hoth():
    noise = room_noise(16_000 * 64, np.random.default_rng(0))
    power = np.abs(np.fft.rfft(noise)) ** 2
    hz = np.fft.rfftfreq(len(noise), 1 / 16_000)
    band_db = [
        10 * np.log10(power[(hz > f * 0.95) & (hz < f * 1.05)].mean()) for f in (200, 3150)
    ]
    assert abs(band_db[0] - band_db[1] - (27.6 - 7.8)) < 0.5  # IEEE 269 allows 3 dB
    assert np.isclose(np.mean(noise**2), 1) and power[hz < 100].max() < 1e-9 * power.max()


@pytest.mark.parametrize("samples", [1, 2, 997])
def test_room_noise_has_as_many_samples_as_asked(samples):
    noise = room_noise(samples, np.random.default_rng(0))
    assert noise.shape == (samples,) and np.isclose(np.mean(noise**2), 1)


@pytest.mark.parametrize("t60_s", [0, -1.0, float("nan")])
def test_refuses_a_time_that_is_none(t60_s):
    with pytest.raises(ValueError, match="above zero"):
        room_response(t60_s, 6.0, np.random.default_rng(0))
