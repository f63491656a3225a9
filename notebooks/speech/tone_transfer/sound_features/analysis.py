"""What is kept of a sound: pitch with a confidence, loudness, RMS, one value each for a frame
of 4 ms.

Pitch: YIN (de Cheveigné and Kawahara 2002), the first dip of the normalised difference of a
sound and itself, later. The paper behind the article uses a network (CREPE); YIN needs no
weights, runs in a page, and says how sure it is. Loudness: power of a spectrum, weighted by how
an ear hears quiet tones (A-weighting, IEC 61672), in dB below full scale, 0 for −80 dB and 1
for 0 dB.

Frames overlap by fifteen sixteenths, so a product of a sound and itself, later, is made once
for each 64 samples, by short real transforms, and sixteen are summed.

Shapes: `N` samples at 16 kHz, `T` = N // 64 frames, frame t centred at its first sample, `L`
lags. All float64: the page's JavaScript computes the same numbers.
"""

import math
from typing import NamedTuple

import numpy as np
import torch

SAMPLE_RATE, HOP = 16_000, 64
WINDOW = 1024  # samples compared
F0_LOW, F0_HIGH = 60.0, 1500.0  # Hz
LAGS = math.ceil(SAMPLE_RATE / F0_LOW) + 2  # from 0: of the longest period, and one more
SHORTEST = int(SAMPLE_RATE / F0_HIGH)  # lag that is looked for
SPAN = WINDOW + LAGS - 1  # samples that a frame's pitch is read from
# Samples of a span before its frame: half of a window, and of a middling lag. A span that began
# in the middle brought the pitch 30 ms late.
BEFORE = 576
SIZE = 336  # of a transform that holds a block and its longest lag, 332
DIP = 0.15  # a dip of the normalised difference below this is taken as the pitch
SPECTRUM = 512  # samples of loudness's spectrum
RANGE_DB = 80.0
BLOCK = 128  # frames at a time: they stay in the cache
SURE, AUDIBLE = 0.7, 0.25  # of confidence and loudness: below either, a frame has no pitch


class Features(NamedTuple):
    """What is kept of one sound, tensors of shape (T,), float64: f0 in Hz, confidence and
    loudness from 0 to 1, RMS.
    """

    f0: torch.Tensor
    confidence: torch.Tensor
    loudness: torch.Tensor
    rms: torch.Tensor

    @property
    def voiced(self):
        """True where there is a pitch to speak of."""
        return (self.confidence > SURE) & (self.loudness > AUDIBLE)


def features(sound_N, margin=0):
    """The `Features` of a sound (N,) at 16 kHz: `features(sound).f0[100]`, at 0.4 s.

    `margin`: samples at both ends that are context, a multiple of 64; their frames are left
    out. Raises ValueError for another shape, NaN or infinity.
    """
    sound_N = torch.as_tensor(sound_N).detach().double()
    if sound_N.ndim != 1 or len(sound_N) < HOP:
        raise ValueError(
            f"a sound of shape {tuple(sound_N.shape)} came; one channel of at least "
            f"{HOP} samples is allowed"
        )
    finite(sound_N)
    begin, end, found = margin // HOP, (len(sound_N) - margin) // HOP, []
    padded = torch.nn.functional.pad(sound_N, (BEFORE, SPAN - BEFORE))
    short_TS = frames(sound_N, SPECTRUM)
    for at in range(begin, end, BLOCK):
        last = min(at + BLOCK, end)
        part_TS = short_TS[at:last]
        rms = part_TS.square().mean(1).sqrt()
        pitch = yin(padded[at * HOP : (last - 1) * HOP + SPAN])
        found.append((*pitch, loudness_of(spectrum_power(part_TS)), rms))
    return Features(*(torch.cat(one) for one in zip(*found, strict=True)))


def finite(sound_N):
    """None; ValueError where a sample is no number."""
    if not torch.isfinite(sound_N).all():
        raise ValueError("the sound holds NaN or infinity; finite samples are allowed")


def frames(sound_N, size):
    """Frames of shape (N // 64, size), each centred at a multiple of 64, zeros beyond
    the ends.
    """
    padded = torch.nn.functional.pad(sound_N, (size // 2, size // 2))
    return padded.unfold(0, size, HOP)[: len(sound_N) // HOP]


def difference(sound_N):
    """How unlike a sound is to itself, later, every 64 samples: d(lag) = Σ (x_i − x_{i+lag})²
    over 1,024 samples, shape (T, L), T = (N − 1,292) // 64 + 1.

    d = energy + energy of the later one − 2 · product; the product is that of sixteen blocks.
    """
    blocks_TS = sound_N.unfold(0, HOP + LAGS - 1, HOP)
    spectrum = torch.fft.rfft(blocks_TS, SIZE)
    spectrum *= torch.fft.rfft(blocks_TS[:, :HOP], SIZE).conj()
    product_TL = torch.fft.irfft(spectrum, SIZE)[:, :LAGS]
    for reach in (1, 2, 4, 8):
        product_TL = product_TL[:-reach] + product_TL[reach:]
    sums = torch.nn.functional.pad(sound_N.square().cumsum(0), (1, 0))
    energy_TL = (sums[WINDOW:] - sums[:-WINDOW]).unfold(0, LAGS, HOP)
    return (energy_TL[:, :1] + energy_TL - 2 * product_TL).clamp_min(0)


def yin(sound_N):
    """(f0 in Hz, confidence), shape (T,) each, T as in `difference`. Confidence is 1 minus the
    normalised difference at the chosen dip.
    """
    d_TL = difference(sound_N)
    lag_L = torch.arange(1, LAGS, dtype=d_TL.dtype)
    sums = d_TL[:, 1:].cumsum(1)
    normal_TL = torch.cat(
        [torch.ones_like(sums[:, :1]), d_TL[:, 1:] * lag_L / sums.clamp_min(1e-12)], 1
    )
    silent = sums[:, -1] < 1e-9
    inside = normal_TL[:, SHORTEST:-1]
    before, after = normal_TL[:, SHORTEST - 1 : -2], normal_TL[:, SHORTEST + 1 :]
    dips = (inside <= before) & (inside < after)
    deep = dips & (inside < DIP)
    deepest = torch.where(dips, inside, 9.0).argmin(1)
    first = SHORTEST + torch.where(deep.any(1), deep.byte().argmax(1), deepest)
    a, b, c = (normal_TL.gather(1, (first + step)[:, None])[:, 0] for step in (-1, 0, 1))
    bend = a - 2 * b + c
    shift = torch.where(bend > 1e-12, (a - c) / (2 * bend.clamp_min(1e-12)), 0.0).clamp(-1, 1)
    confidence = torch.where(silent, 0.0, (1 - (b - (a - c) * shift / 4)).clamp(0, 1))
    return SAMPLE_RATE / (first + shift), confidence


def spectrum_power(frames_TS):
    """Power |X|² of shape (T, S // 2 + 1) under a Hann window, on the scale on which a full
    sine has its largest bin at 1.
    """
    window = torch.hann_window(frames_TS.shape[1], periodic=True, dtype=frames_TS.dtype)
    return torch.fft.rfft(frames_TS * window).abs().square() * (2 / window.sum()) ** 2


def a_weights(bins):
    """Weights of power (bins,), 1 at 1 kHz: IEC 61672's curve A."""
    f2 = (torch.arange(bins, dtype=torch.float64) * SAMPLE_RATE / 2 / (bins - 1)).square()
    a, b, c, d = (value**2 for value in (20.598997, 107.65265, 737.86223, 12194.217))
    gain = d * f2.square() / ((f2 + a) * ((f2 + b) * (f2 + c)).sqrt() * (f2 + d))
    return (gain * 10 ** (2.0 / 20)).square()


def loudness_of(power_TF):
    """Loudness from 0 (−80 dB) to 1 (0 dB), shape (T,): the weighted power of all bins, of a
    frame.
    """
    # a Hann window spreads a tone's power over 1.5 bins
    power = (power_TF * a_weights(power_TF.shape[1])).sum(1) / 1.5
    return (1 + 10 * torch.log10(power.clamp_min(1e-12)) / RANGE_DB).clamp(0, 1)


def held(f0_T, voiced_T, last=None):
    """Pitch with the last sure value held through frames without one, shape (T,).

    `last`: what an earlier chunk ended on; before any sure pitch 220 Hz, so that no later frame
    is asked.
    """
    f0_T, voiced_T = np.asarray(f0_T), np.asarray(voiced_T)
    at = np.maximum.accumulate(np.where(voiced_T, np.arange(len(f0_T)), -1))
    before = 220.0 if last is None else last
    return torch.from_numpy(np.where(at >= 0, f0_T[np.maximum(at, 0)], before))


def midi(f0):
    """Semitones above a very low C: 69 is 440 Hz, twelve an octave."""
    return 69 + 12 * torch.log2(torch.as_tensor(f0).clamp_min(1e-3) / 440)
