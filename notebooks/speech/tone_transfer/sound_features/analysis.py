"""What is kept of a sound: pitch with a confidence, loudness, RMS, one value each for a frame
of 4 ms.

Pitch: YIN (de Cheveigné and Kawahara 2002), the first dip of the normalised difference of a
sound and itself, later. The paper behind the article uses a network (CREPE); YIN needs no
weights, runs in a page, and says how sure it is. Loudness: power of a spectrum, weighted by how
an ear hears quiet tones (A-weighting, IEC 61672), in dB below full scale, 0 for −80 dB and 1
for 0 dB.

Shapes: `N` samples at 16 kHz, `T` = N // 64 frames, frame t centred at its first sample, `L`
lags. All float64: the page's JavaScript computes the same numbers.
"""

import cmath
import math
from typing import NamedTuple

import numpy as np
import torch

SAMPLE_RATE, HOP = 16_000, 64
WINDOW, SPAN = 1024, 2048  # samples compared, and looked at: the longest lag fits, too
F0_LOW, F0_HIGH = 60.0, 1500.0  # Hz
BEFORE = 576  # samples of a span before its frame: half of a window, and of a middling lag
DIP = 0.15  # a dip of the normalised difference below this is taken as the pitch
SPECTRUM = 512  # samples of loudness's spectrum
RANGE_DB = 80.0
BLOCK = 32  # frames at a time
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
    first, count = margin // HOP, len(sound_N) // HOP - 2 * (margin // HOP)
    spans_TS = spans(sound_N)[first : first + count]
    middle, found = BEFORE - SPECTRUM // 2, []
    for part_TS in spans_TS.split(BLOCK):  # a block stays in the cache
        short_TS = part_TS[:, middle : middle + SPECTRUM]
        rms = short_TS.square().mean(1).sqrt()
        found.append((*yin(part_TS), loudness_of(spectrum_power(short_TS)), rms))
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


def spans(sound_N):
    """What pitch is read from, (N // 64, 2048): frame t's begins 576 samples before its middle.

    So what is compared lies around it; from the middle of 2,048 on, pitch came 30 ms late.
    """
    padded = torch.nn.functional.pad(sound_N, (BEFORE, SPAN - BEFORE))
    return padded.unfold(0, SPAN, HOP)[: len(sound_N) // HOP]


def difference(spans_TS):
    """How unlike a frame is to itself, later: d(lag) = Σ (x_i − x_{i+lag})², shape (T, L), by
    one correlation.

    The window of 1,024 samples stands still at the start of the span; d = energy + energy of
    the later one − 2 · product.
    """
    lags = longest_lag() + 2
    spans_TS = spans_TS - spans_TS.mean(1, keepdim=True)
    spectrum = torch.fft.rfft(spans_TS, SPAN)
    window = torch.fft.rfft(spans_TS[:, :WINDOW], SPAN)
    product_TL = torch.fft.irfft(spectrum * window.conj(), SPAN)[:, :lags]
    squares = torch.nn.functional.pad(spans_TS.square().cumsum(1), (1, 0))
    energy_TL = squares[:, WINDOW : WINDOW + lags] - squares[:, :lags]
    return (energy_TL[:, :1] + energy_TL - 2 * product_TL).clamp_min(0)


def difference_reference(span, lags):
    """The same for one span as a list of floats: two loops."""
    return [sum((span[i] - span[i + lag]) ** 2 for i in range(WINDOW)) for lag in range(lags)]


def yin(spans_TS):
    """(f0 in Hz, confidence), shape (T,) each. Confidence is 1 minus the normalised difference
    at the chosen dip.
    """
    d_TL = difference(spans_TS)
    lag_L = torch.arange(1, d_TL.shape[1], dtype=torch.float64)
    sums = d_TL[:, 1:].cumsum(1)
    normal_TL = torch.nn.functional.pad(
        d_TL[:, 1:] * lag_L / sums.clamp_min(1e-12), (1, 0), value=1.0
    )
    silent = sums[:, -1] < 1e-9
    low, high = shortest_lag(), longest_lag()
    inside = normal_TL[:, low : high + 1]
    before, after = normal_TL[:, low - 1 : high], normal_TL[:, low + 1 : high + 2]
    dips = (inside <= before) & (inside < after)
    deep = dips & (inside < DIP)
    deepest = torch.where(dips, inside, 9.0).argmin(1)
    first = low + torch.where(deep.any(1), deep.double().argmax(1), deepest)
    a, b, c = (normal_TL.gather(1, (first + step)[:, None])[:, 0] for step in (-1, 0, 1))
    bend = a - 2 * b + c
    shift = torch.where(bend > 1e-12, (a - c) / (2 * bend.clamp_min(1e-12)), 0.0).clamp(-1, 1)
    confidence = torch.where(silent, 0.0, (1 - (b - (a - c) * shift / 4)).clamp(0, 1))
    return SAMPLE_RATE / (first + shift), confidence


def yin_reference(span):
    """(f0, confidence) of one span of floats, as the paper's steps read, in plain Python."""
    low, high = shortest_lag(), longest_lag()
    middle = sum(span) / len(span)
    d = difference_reference([value - middle for value in span], high + 2)
    normal, total = [1.0], 0.0
    for lag in range(1, high + 2):
        total += d[lag]
        normal.append(d[lag] * lag / max(total, 1e-12))
    dips = [n for n in range(low, high + 1) if normal[n - 1] >= normal[n] < normal[n + 1]]
    deep = [n for n in dips if normal[n] < DIP]
    at = deep[0] if deep else min(dips, key=normal.__getitem__, default=low)
    a, b, c = normal[at - 1 : at + 2]
    bend = a - 2 * b + c
    shift = min(1.0, max(-1.0, (a - c) / (2 * bend))) if bend > 1e-12 else 0.0
    sure = min(1.0, max(0.0, 1 - (b - (a - c) * shift / 4))) if total >= 1e-9 else 0.0
    return SAMPLE_RATE / (at + shift), sure


def shortest_lag():
    """Samples of the shortest period that is looked for."""
    return int(SAMPLE_RATE / F0_HIGH)


def longest_lag():
    """Samples of the longest period that is looked for."""
    return math.ceil(SAMPLE_RATE / F0_LOW)


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


def loudness_reference(frame):
    """Loudness of one frame as a list of floats: the sum of each bin written out."""
    size = len(frame)
    window = [0.5 - 0.5 * math.cos(2 * math.pi * n / size) for n in range(size)]
    values = [x * w for x, w in zip(frame, window, strict=True)]
    weights, power = a_weights(size // 2 + 1).tolist(), 0.0
    for k, weight in enumerate(weights):
        turned = (x * cmath.exp(2j * math.pi * k * n / size) for n, x in enumerate(values))
        power += weight * abs(sum(turned)) ** 2 * (2 / sum(window)) ** 2
    return min(1.0, max(0.0, 1 + 10 * math.log10(max(power / 1.5, 1e-12)) / RANGE_DB))


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
