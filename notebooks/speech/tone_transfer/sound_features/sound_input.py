"""What somebody hands in: read, mended where that can be said, or refused in words that help.

Mended and said: another sample rate, two channels, clipping, more than half a minute. Refused:
what is no sound, silence, noise, notes beyond the range of the pitch, several at once where
that can be told. The page's script says the same sentences.

Shapes: `N` samples.
"""

import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
import torch
from scipy.signal import resample_poly

from . import analysis as sf

LONGEST_S, SHORTEST_S = 30, 0.5
CLIPPED = 0.002  # share of samples in a run at the largest value
PITCHED = 0.4  # of the audible frames need a pitch
FLAT = 0.1  # geometric over arithmetic mean of power: above it, noise, if without pitch
HOLLOW = 1e-3  # of the strongest partial's power: a partial below it is missing
LONG = 2048  # samples of a spectrum in which partials are told apart
BELOW = 0.01  # share of the power that a note within the range has below its upper end
CANCELLED = 0.01  # of the channels' power, below which their mix has lost the sound


class Heard(NamedTuple):
    """A sound (N,) at 16 kHz, its `Features`, and what was done to it, as sentences."""

    sound: torch.Tensor
    features: sf.Features
    remarks: list


def read(source):
    """The `Heard` of a file (path or bytes); ValueError with a sentence for a person where it
    cannot be used.
    """
    try:
        file = io.BytesIO(source) if isinstance(source, bytes) else str(Path(source))
        with soundfile.SoundFile(file) as opened:
            rate, whole_s = opened.samplerate, opened.frames / max(opened.samplerate, 1)
            values = opened.read(
                min(opened.frames, LONGEST_S * rate), dtype="float32", always_2d=True
            )
    except (soundfile.LibsndfileError, OSError, TypeError) as error:
        told = "this file is no sound that can be read; WAV, FLAC, OGG or MP3 are"
        raise ValueError(told) from error
    return heard(values, rate, whole_s)


def heard(values_NC, rate, whole_s=None):
    """The `Heard` of samples (N,) or (N, channels) at any rate from 4 to 192 kHz; ValueError
    where they cannot be used.
    """
    values = np.asarray(values_NC, dtype=np.float32)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or values.shape[1] > len(values) > 0:
        told = "(N,) or (N, channels) are allowed: transpose what has its channels first"
        raise ValueError(f"samples of shape {values.shape} came; {told}")
    if not 4_000 <= rate <= 192_000 or rate != int(rate):
        told = "whole numbers from 4,000 to 192,000 are allowed"
        raise ValueError(f"a sample rate of {rate} Hz came; {told}")
    rate = int(rate)
    sf.finite(torch.from_numpy(values))
    whole_s, remarks = len(values) / rate if whole_s is None else whole_s, []
    if whole_s < SHORTEST_S:
        raise ValueError(
            f"the sound is {whole_s:.2f} s long; at least {SHORTEST_S} s are needed"
        )
    if whole_s > LONGEST_S:
        values = values[: LONGEST_S * rate]
        remarks.append(f"The sound is {whole_s:.0f} s long: its first {LONGEST_S} s are used.")
    mono = values.mean(1)
    if values.shape[1] > 1:
        power = np.square(values).mean(0)
        done = f"{values.shape[1]} channels were mixed into one."
        if np.square(mono).mean() < CANCELLED * power.max():
            mono = values[:, power.argmax()]
            done = "The channels cancel each other: the loudest one is used."
        remarks.append(done)
    if rate != sf.SAMPLE_RATE:
        lost = " What lies above 4 kHz is not in it." if rate <= 8_000 else ""
        remarks.append(f"Resampled from {rate:,} to {sf.SAMPLE_RATE:,} Hz.{lost}")
    if max(clipped(channel) for channel in values.T) > CLIPPED:
        remarks.append(
            "The sound is clipped: its pitch holds, its loudness is squeezed. "
            "Record it at a lower level."
        )
    sound = torch.from_numpy(resampled(mono, rate))
    found = sf.features(sound)
    refuse(sound, found)
    return Heard(sound, found, remarks)


def clipped(values_N):
    """The share of samples that equal the two before them, near the largest value: a wave cut
    flat. A lossy format or a resampler hides it.
    """
    size = np.abs(values_N)
    near = size[2:] >= 0.999 * size.max()
    flat = (values_N[2:] == values_N[1:-1]) & (values_N[1:-1] == values_N[:-2])
    return float((near & flat).mean()) if size.max() > 0.02 else 0.0


def refuse(sound_N, found):
    """None; ValueError where there is nothing to play: silence, noise, what lies too high or
    too low, several notes at once.
    """
    audible = found.loudness > sf.AUDIBLE
    if audible.double().mean() < 0.02:
        raise ValueError("the sound is silent: check the microphone and its level")
    power = sf.spectrum_power(sf.frames(sound_N.double(), sf.SPECTRUM)).mean(0) + 1e-12
    unsure, width = found.voiced.sum() < PITCHED * audible.sum(), sf.SAMPLE_RATE / sf.SPECTRUM
    one, wrong = "One voice at a time is allowed", ""
    if unsure and power.log().mean().exp() > FLAT * power.mean():  # 0.6 of white noise's
        wrong = "is noise: no pitch was found. Sing or hum one note at a time"
    elif power[2 : int(sf.F0_HIGH / width)].sum() < BELOW * power[2:].sum():
        wrong = "is too high: notes from 60 to 1,500 Hz can be played"
    elif unsure and power.argmax() <= sf.F0_LOW / width:
        wrong = "is too low: notes from 60 to 1,500 Hz can be played"
    elif unsure:
        raise ValueError(f"no single pitch was found: several notes at once, or a drum. {one}")
    elif hollow(sound_N, found):
        raise ValueError(f"several notes sound at once. {one}")
    if wrong:
        raise ValueError(f"the sound {wrong}")


def hollow(sound_N, found, every=25):
    """Whether in most pitched frames the first partial is missing, and three or more of the
    first seven: a chord whose common measure YIN took for a note.

    Two voices an octave apart have no holes, nor a voice three times as loud as the others.
    """
    picked = torch.nonzero(found.voiced).flatten()[::every]
    padded = torch.nn.functional.pad(sound_N.double(), (sf.BEFORE, LONG - sf.BEFORE))
    power_PF = sf.spectrum_power(padded.unfold(0, LONG, sf.HOP)[picked])
    at_P7 = (found.f0[picked, None] * torch.arange(1, 8) * LONG / sf.SAMPLE_RATE).round()
    bins = (at_P7[..., None].long() + torch.arange(-2, 3)).clamp(0, power_PF.shape[1] - 1)
    partials_P7 = power_PF.gather(1, bins.flatten(1)).view(len(picked), 7, 5).sum(2)
    missing_P7 = partials_P7 < HOLLOW * partials_P7.amax(1, keepdim=True)
    return bool((missing_P7[:, 0] & (missing_P7.sum(1) >= 3)).double().mean() > 0.5)


def resampled(sound, rate):
    """The sound at 16 kHz: a polyphase filter of SciPy's."""
    if rate == sf.SAMPLE_RATE:
        return sound
    common = np.gcd(int(rate), sf.SAMPLE_RATE)
    made = resample_poly(sound, sf.SAMPLE_RATE // common, int(rate) // common)
    return made.astype(np.float32)
