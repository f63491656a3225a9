"""Clips: a text, the sound of it with drawn pauses, and a face that says it, all of one drawn
world.

Words are spoken one by one by eSpeak NG and joined with pauses, so every pause and every
phoneme has a known time. One word of most clips is emphasised: its pitch rises, and so do the
brows. Loudness is taken out of the sound and drawn anew: within voiced sounds every 10 ms get
the same level, then a slow random gain, which the face knows nothing of.

Shapes: `N` samples at 16 kHz, `T` frames of 40 ms; a frame has 640 samples.
"""

from dataclasses import dataclass
from functools import cache
from math import gcd

import numpy as np
import soundfile
from scipy.ndimage import gaussian_filter1d
from scipy.signal import resample_poly

from . import espeak
from .espeak import Voice
from .face import FPS, Face, mouth_track, render

__all__ = [
    "DIGITS",
    "SPEAKERS",
    "WORDS",
    "Clip",
    "Script",
    "draw_script",
    "make_clip",
    "make_clips",
    "real_clip",
]

RATE_HZ = 16_000
FRAME = RATE_HZ // FPS
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
WORDS = (*DIGITS, "hello", "maybe")
VOICELESS = set("ptkfsθʃh")
PITCHES = {"m": (55, 65, 75), "f": (35, 45, 55)}  # eSpeak's unit; 97 to 240 Hz with emphasis
VARIANTS = {  # nobody is in two groups
    "train": ("m1", "m2", "m3", "m5", "m7", "f1", "f2", "f4"),
    "test": ("m4", "f3", "adam", "f5", "m8", "linda"),
    "sync": ("m6", "Alex", "Andy", "john", "Annie", "steph", "belinda", "quincy"),
}
WOMEN = ("linda", "Annie", "steph", "belinda")


def _voices(variants, each):
    """`each` pitches of each variant."""
    of = {v: PITCHES["f" if v in WOMEN or v[0] == "f" else "m"] for v in variants}
    return tuple(Voice(v, pitch) for v in variants for pitch in of[v][:each])


SPEAKERS = {name: _voices(of, 1 if name == "test" else 3) for name, of in VARIANTS.items()}


@dataclass(frozen=True)
class Script:
    """What is said and how: words, the pause before each of them and after the last in s, the
    emphasised one or None.
    """

    words: tuple
    pauses_s: tuple
    emphasised: int | None = None
    rate: int = 160  # words a minute, eSpeak's


@dataclass(frozen=True)
class Clip:
    """One clip. `words`: (text, start in s, end in s); `track_T4` is the mouth's own truth,
    which no model sees.
    """

    text: str
    words: tuple
    sound_N: np.ndarray  # float32
    face_THW: np.ndarray  # uint8
    mouth_THW: np.ndarray
    track_T4: np.ndarray
    voiced_T: np.ndarray
    speaker: str
    script: Script

    @property
    def frames(self):
        return len(self.face_THW)


def draw_script(rng, words=3, vocabulary=WORDS):
    """A script of `words` different words: two pauses of three are short, one is long."""
    long = rng.random(words + 1) < 1 / 3
    short = rng.uniform(0.03, 0.1, words + 1)
    pauses = np.where(long, rng.uniform(0.3, 0.7, words + 1), short)
    pauses[0], pauses[-1] = rng.uniform(0.06, 0.14), rng.uniform(0.1, 0.16)
    said = tuple(str(word) for word in rng.choice(vocabulary, words, replace=False))
    emphasised = int(rng.integers(words)) if rng.random() < 0.8 else None
    return Script(
        said, tuple(float(p) for p in pauses), emphasised, int(rng.choice([150, 180, 210]))
    )


def make_clip(script, voice, face, rng, leak=False, pixels=32):
    """The clip of a script, in a voice and with a face; `rng` draws the loudness.

    With `leak` the mouth follows the loudness instead of the phonemes: what a careless
    generator would do, for the probe.
    """
    pieces, phonemes, words = [], [(0.0, "")], []
    now = 0
    for at, (word, pause) in enumerate(zip(script.words, script.pauses_s, strict=False)):
        now += round(pause * RATE_HZ)
        raised = 20 * (at == script.emphasised)
        sound, spoken = _word(
            word, Voice(voice.variant, voice.pitch + raised, voice.range), script.rate
        )
        pieces.append((now, sound))
        phonemes += [(now / RATE_HZ + start, ipa) for start, ipa in spoken]
        words.append((word, now / RATE_HZ, (now + len(sound)) / RATE_HZ))
        now += len(sound)
    frames = int(np.ceil((now + script.pauses_s[-1] * RATE_HZ) / FRAME))
    sound = np.zeros(frames * FRAME, np.float32)
    for start, piece in pieces:
        sound[start : start + len(piece)] += piece
    voiced = _voiced(phonemes, frames * 4)
    return _filmed(
        script,
        words,
        phonemes,
        _relevelled(sound, voiced, rng),
        voiced,
        voice.variant + str(voice.pitch),
        face,
        leak,
        pixels,
    )


def real_clip(folder, speaker, script, takes, face, pixels=32):
    """The clip of digits that a person said: recordings of `fsdd`, joined with the script's
    pauses.

    Nobody marked their phonemes: eSpeak's are stretched over each recording. The loudness is
    the recording's own.
    """
    pieces, phonemes, words, now = [], [(0.0, "")], [], 0
    for word, take, pause in zip(script.words, takes, script.pauses_s, strict=False):
        now += round(pause * RATE_HZ)
        raw, rate_hz = soundfile.read(
            f"{folder}/{DIGITS.index(word)}_{speaker}_{take}.wav", dtype="float32"
        )
        sound = _trimmed(_resampled(raw, rate_hz))
        model, spoken = _word(word, Voice("m3"), 160)
        stretch = len(sound) / len(model)
        phonemes += [(now / RATE_HZ + start * stretch, ipa) for start, ipa in spoken]
        words.append((word, now / RATE_HZ, (now + len(sound)) / RATE_HZ))
        pieces.append((now, sound))
        now += len(sound)
    frames = int(np.ceil((now + script.pauses_s[-1] * RATE_HZ) / FRAME))
    joined = np.zeros(frames * FRAME, np.float32)
    for start, piece in pieces:
        joined[start : start + len(piece)] += 0.1 * piece / np.sqrt(np.mean(piece**2))
    return _filmed(
        script,
        words,
        phonemes,
        joined,
        _voiced(phonemes, frames * 4),
        speaker,
        face,
        False,
        pixels,
    )


def make_clips(group, count, seed, words=3, leak=False):
    """`count` clips of the speakers of a group ("train", "test" or "sync"), each with a new
    face and script.
    """
    if group not in SPEAKERS:
        raise ValueError(f"no group {group!r} of speakers: {', '.join(SPEAKERS)} are allowed")
    rng = np.random.default_rng([seed, sorted(SPEAKERS).index(group)])
    voices = [SPEAKERS[group][i % len(SPEAKERS[group])] for i in range(count)]
    return [
        make_clip(draw_script(rng, words), voice, Face.draw(rng), rng, leak) for voice in voices
    ]


def _filmed(script, words, phonemes, sound, voiced, speaker, face, leak, pixels):
    frames = len(sound) // FRAME
    track = mouth_track(phonemes, frames)
    if leak:
        rms = np.sqrt(np.mean(sound.reshape(frames, FRAME) ** 2, axis=1))
        track = np.stack([np.clip(rms * 4, 0, 1), *np.full((3, frames), [[0.5], [0], [0]])], 1)
    middle = (np.arange(frames) + 0.5) / FPS
    brows = np.zeros(frames)
    if script.emphasised is not None:
        _, start, end = words[script.emphasised]
        brows = ((middle > start - 0.08) & (middle < end + 0.04)).astype(float)
    brows = gaussian_filter1d(brows, 1.0)
    views = [render(face, track, brows, view, pixels) for view in ("face", "mouth")]
    most = voiced.reshape(frames, 4).mean(1) > 0.5
    return Clip(
        " ".join(script.words), tuple(words), sound, *views, track, most, speaker, script
    )


@cache
def _word(word, voice, rate):
    """A word at 16 kHz without the silence around it, and its phonemes in its time."""
    raw, phonemes = espeak.say(word, voice, rate)
    sound = _resampled(raw, espeak.RATE_HZ)
    loud = np.flatnonzero(np.abs(sound) > 0.01 * np.abs(sound).max())
    first, last = loud[0], loud[-1] + 1
    ends = (last - first) / RATE_HZ
    moved = [
        (min(max(start - first / RATE_HZ, 0.0), ends), ipa) for start, ipa in phonemes if ipa
    ]
    return sound[first:last], (*moved, (ends, ""))


def _resampled(sound, rate_hz):
    divisor = gcd(RATE_HZ, rate_hz)
    return resample_poly(sound, RATE_HZ // divisor, rate_hz // divisor).astype(np.float32)


def _trimmed(sound):
    level = np.abs(sound)
    loud = np.flatnonzero(level > 0.05 * level.max())
    return sound[loud[0] : loud[-1] + 1]


def _voiced(phonemes, hops):
    """Whether each 10 ms belong to a voiced phoneme."""
    told = np.zeros(hops, bool)
    ends = [start for start, _ in phonemes[1:]] + [hops / 100]
    for (start, ipa), end in zip(phonemes, ends, strict=True):
        letters = [letter for letter in ipa if letter.isalpha()]
        if letters and letters[0] not in VOICELESS:
            told[round(start * 100) : round(end * 100)] = True
    return told


def _relevelled(sound, voiced, rng, level=0.1, deviation_db=3.0):
    """The sound with one level in all voiced 10 ms, times a slow random gain; between them the
    gain is interpolated.
    """
    hops = len(sound) // 160
    power = gaussian_filter1d(np.mean(sound.reshape(hops, 160) ** 2, axis=1), 2)
    gain_db = 20 * np.log10(level) - 10 * np.log10(power + 1e-9)
    at = np.flatnonzero(voiced & (power > 1e-5))
    gain_db = np.interp(np.arange(hops), at, gain_db[at])
    slow = gaussian_filter1d(rng.standard_normal(hops + 200), 30)[100:-100] * np.sqrt(
        2 * np.sqrt(np.pi) * 30
    )
    fine_db = np.interp(
        np.arange(len(sound)) / 160, np.arange(hops) + 0.5, gain_db + deviation_db * slow
    )
    return np.clip(sound * 10 ** (fine_db / 20), -0.99, 0.99).astype(np.float32)
