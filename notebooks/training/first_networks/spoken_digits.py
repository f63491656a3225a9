"""Spoken digits as rows of numbers, one speaker left out at a time.

Recordings of the Free Spoken Digit Dataset: six men, each says each digit 25 times here, at
8 kHz. A recording becomes the means and standard deviations of mel-frequency cepstral
coefficients (Davis and Mermelstein, 1980) in thirds of its length: which sound comes first is
kept, how long it takes is not.

A random split puts each speaker on both sides and flatters. `leave_one_out` holds one speaker
out: six shares, one a speaker, and no interval, since six men are no sample of speakers.

Shapes: `N` recordings, `D` numbers each, `K` coefficients, `F` frames.
"""

from pathlib import Path

import numpy as np
import scipy.fft

SPEAKERS = ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")
RATE_HZ, PARTS, COEFFICIENTS = 8000, 3, 13
WINDOW, HOP = 256, 80  # samples: 32 and 10 ms
FLOOR = 1e-6  # beside a largest sample of 1: digital silence has no logarithm


def mel_filters(bands=26, window=WINDOW, rate_hz=RATE_HZ):
    """(bands, window // 2 + 1): triangles of height 1, evenly spaced on the mel scale, which is
    2595 · log10(1 + f / 700), from 0 Hz to half the rate."""
    top = 2595 * np.log10(1 + rate_hz / 2 / 700)
    edges_hz = 700 * (10 ** (np.linspace(0, top, bands + 2) / 2595) - 1)
    f = np.arange(window // 2 + 1) * rate_hz / window
    low, middle, high = (edges_hz[i : i + bands, None] for i in range(3))
    return np.minimum((f - low) / (middle - low), (high - f) / (high - middle)).clip(0)


def coefficients(sound):
    """(F, 13) mel-frequency cepstral coefficients of a sound, one row each 10 ms.

    Windows of 32 ms, power, energy in mel bands, logarithm, cosine transform. A sound shorter
    than a window is filled with zeros.
    """
    sound = np.pad(sound, (0, max(0, WINDOW - len(sound))))
    frames = np.lib.stride_tricks.sliding_window_view(sound, WINDOW)[::HOP] * np.hanning(WINDOW)
    power = abs(np.fft.rfft(frames)) ** 2
    energy = np.log(power @ mel_filters().T + FLOOR)
    return scipy.fft.dct(energy, norm="ortho")[:, :COEFFICIENTS]


def summary(sound, rate_hz=RATE_HZ):
    """(D,) = 2 · 3 · 13 numbers: the mean and the deviation of each coefficient in each third.

    Loudness is taken out: the largest sample counts as 1. Raises ValueError for another rate,
    two channels, or a sound that is empty, constant or holds NaN.
    """
    sound = np.asarray(sound, dtype=np.float64)
    if rate_hz != RATE_HZ or sound.ndim != 1 or not sound.size or not np.ptp(sound) > 0:
        raise ValueError(
            f"a sound of shape {sound.shape} at {rate_hz} Hz; one channel at {RATE_HZ} Hz that "
            "is not silent is needed"
        )
    found_FK = coefficients(sound / np.abs(sound).max())
    more = max(0, PARTS - len(found_FK))  # a click has fewer frames than parts
    parts = np.array_split(np.pad(found_FK, ((0, more), (0, 0)), mode="edge"), PARTS)
    return np.concatenate([f(part, axis=0) for part in parts for f in (np.mean, np.std)])


def table(folder, takes=range(25)):
    """(features (N, D), digits (N,), speakers (N,)) of the recordings in a folder."""
    import soundfile

    rows, digits, speakers = [], [], []
    for speaker in SPEAKERS:
        for digit in range(10):
            for take in takes:
                path = Path(folder) / f"{digit}_{speaker}_{take}.wav"
                rows.append(summary(*soundfile.read(path)))
                digits.append(digit)
                speakers.append(speaker)
    return np.array(rows), np.array(digits), np.array(speakers)


def leave_one_out(learn, x, y, speakers):
    """{speaker: share of right answers}, each by a classifier that has not heard the speaker.

    `learn(x, y)` returns a function from samples to labels. Raises ValueError for fewer than
    two speakers.
    """
    names = np.unique(speakers)
    if len(names) < 2:
        raise ValueError(f"the speakers {names.tolist()}; one is left out, so two are needed")
    found = {}
    for name in names.tolist():
        out = speakers == name
        answer = learn(x[~out], y[~out])
        found[name] = float((answer(x[out]) == y[out]).mean())
    return found
