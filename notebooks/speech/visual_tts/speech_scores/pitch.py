"""Pitch, and how wrong it is: a tracker by autocorrelation, and the errors GPE, VDE and FFE.

The tracker is Boersma's (1993) without its path search: the autocorrelation of a Hann window of
40 ms, divided by the window's own; the highest peak between 75 and 450 Hz, slightly preferring
short lags, wins. A frame is voiced where that peak is above 0.45.

    GPE = #(both voiced, |f - f'| > 0.2 f') / #(both voiced)
    VDE = #(voicing differs) / N
    FFE = (#(both voiced, |f - f'| > 0.2 f') + #(voicing differs)) / N

f' is the reference (Chu and Alwan 2009).

Shapes: `N` frames of 10 ms. A pitch of 0 means unvoiced.
"""

import math

import numpy as np
import torch

__all__ = ["f0_errors_reference", "f0_frame_error", "f0_track", "gross_pitch_error"]
__all__ += ["normalised_f0", "voicing_error"]

RATE_HZ, HOP, WINDOW, SIZE = 16_000, 160, 640, 1024
LOWEST_HZ, HIGHEST_HZ = 75.0, 450.0
FINER = 2  # lags of half a sample: between samples a high voice's peak is missed
GROSS, VOICED, QUIET, OCTAVE = 0.2, 0.45, 0.03, 0.06


def f0_track(sound_N):
    """The pitch in Hz at each 10 ms of a sound at 16 kHz, 0 where unvoiced: float64 of shape
    (samples // 160,).

    Raises ValueError for a sound of less than 10 ms or one that is not finite.
    """
    sound = torch.from_numpy(np.array(sound_N, np.float64))
    if sound.ndim != 1 or len(sound) < HOP or not sound.isfinite().all():
        raise ValueError(
            f"a sound of shape {tuple(sound.shape)}: one axis of {HOP} finite samples or more "
            "is needed for a pitch"
        )
    frames = len(sound) // HOP
    padded = torch.nn.functional.pad(sound, (WINDOW // 2 - HOP // 2, WINDOW))
    pieces = padded.unfold(0, WINDOW, HOP)[:frames]
    window = torch.hann_window(WINDOW, dtype=torch.float64)
    pieces = pieces - pieces.mean(1, keepdim=True)
    level = pieces.square().mean(1).sqrt()
    shape = _autocorrelation(window)
    found = _autocorrelation(pieces * window)
    lags = torch.arange(int(FINER * RATE_HZ / HIGHEST_HZ), int(FINER * RATE_HZ / LOWEST_HZ) + 2)
    ratio = found / found[:, :1].clamp_min(1e-12) * (shape[0] / shape)
    strength = ratio[:, lags] - OCTAVE * torch.log2(lags * LOWEST_HZ / (FINER * RATE_HZ))
    best = lags[strength[:, 1:-1].argmax(1) + 1]
    before, here, after = (ratio.gather(1, (best + side)[:, None])[:, 0] for side in (-1, 0, 1))
    bend = 2 * here - before - after
    shift = torch.where(bend > 1e-9, (after - before) / (2 * bend).clamp_min(1e-9), 0.0)
    shift = shift.clamp(-1, 1)
    voiced = (here > VOICED) & (bend > 0) & (level > QUIET * level.max().clamp_min(1e-9))
    return torch.where(voiced, FINER * RATE_HZ / (best + shift), 0.0).numpy()


def gross_pitch_error(said_N, true_N):
    """The share of frames voiced in both whose pitch is off by more than a fifth; NaN where no
    frame is voiced in both.
    """
    said, true = _pair(said_N, true_N)
    both = (said > 0) & (true > 0)
    return float((np.abs(said - true) > GROSS * true)[both].mean()) if both.any() else math.nan


def voicing_error(said_N, true_N):
    """The share of frames that are voiced in one and unvoiced in the other, VDE."""
    said, true = _pair(said_N, true_N)
    return float(((said > 0) != (true > 0)).mean())


def f0_frame_error(said_N, true_N):
    """The share of frames with either error, FFE: never below `voicing_error`.

    >>> f0_frame_error([100, 0, 130, 100], [100, 100, 100, 0])
    0.75
    """
    said, true = _pair(said_N, true_N)
    gross = (said > 0) & (true > 0) & (np.abs(said - true) > GROSS * true)
    return float((gross | ((said > 0) != (true > 0))).mean())


def normalised_f0(f0_N):
    """The pitch over its mean in voiced frames, as the article plots it; unvoiced frames stay
    0.
    """
    f0 = np.asarray(f0_N, np.float64)
    return f0 / f0[f0 > 0].mean() if (f0 > 0).any() else f0


def f0_errors_reference(said, true):
    """(GPE, VDE, FFE) by one plain loop."""
    both = gross = differs = 0
    for f, f_true in zip(said, true, strict=True):
        if f > 0 and f_true > 0:
            both += 1
            gross += abs(f - f_true) > GROSS * f_true
        elif f > 0 or f_true > 0:
            differs += 1
    gpe = gross / both if both else math.nan
    return gpe, differs / len(true), (gross + differs) / len(true)


def _autocorrelation(values):
    """Lags of 1 / FINER of a sample, up to the lowest pitch's: longer ones wrap around."""
    power = torch.fft.rfft(values, SIZE).abs().square()
    return torch.fft.irfft(power, FINER * SIZE)[..., : FINER * (SIZE - WINDOW)]


def _pair(said, true):
    said, true = (np.asarray(values, np.float64) for values in (said, true))
    if said.shape != true.shape or said.ndim != 1 or not len(true):
        raise ValueError(
            f"pitch of shapes {said.shape} and {true.shape}: two tracks of one length, "
            "one frame at least, are allowed"
        )
    both = np.stack([said, true])
    if not (np.isfinite(both).all() and both.min() >= 0):
        raise ValueError(
            "a pitch is below zero or not finite: 0 marks an unvoiced frame, "
            "Hz above it a voiced one"
        )
    return said, true
