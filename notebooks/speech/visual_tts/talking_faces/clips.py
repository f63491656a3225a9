"""Clips: a text, the sound of it with drawn pauses, and a face that says it, all of one drawn
world.

Words are spoken one by one by eSpeak NG and joined with pauses, so every pause and every
phoneme has a known time. One word of most clips is emphasised: its pitch rises, and so do the
brows. Loudness is taken out of the sound and drawn anew: within voiced sounds every 10 ms get
the same level, then a slow random gain, which the face knows nothing of.

Shapes: `N` samples at 16 kHz, `T` frames of 40 ms; a frame has 640 samples.
"""

from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from math import gcd

import numpy as np
import soundfile
from scipy.ndimage import gaussian_filter1d
from scipy.signal import resample_poly

from . import espeak
from .espeak import Voice
from .face import FPS, Face, mouth_track, render

__all__ = ["DIGITS", "SPEAKERS", "WORDS", "Clip", "Script", "draw_script", "make_clip"]
__all__ += ["make_clips", "read_again", "real_clip", "split", "spoken_words"]

RATE_HZ = 16_000
FRAME = RATE_HZ // FPS
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
WORDS = (*DIGITS, "hello", "maybe")
VOICELESS = set("ptkfsθʃh")
PITCHES = {"m": (55, 65, 75), "f": (35, 45, 55)}  # eSpeak's unit; 97 to 240 Hz with emphasis
VARIANTS = {  # of one synthesiser; none is in two groups, which `split` holds
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
    voice: Voice | None = None  # None for a person's

    @property
    def frames(self):
        return len(self.face_THW)


def draw_script(rng, words=3, vocabulary=WORDS):
    """A script of `words` different words: two pauses of three are short, one is long."""
    pauses_s = _draw_pauses(rng, words)
    said = tuple(str(word) for word in rng.choice(vocabulary, words, replace=False))
    emphasised = int(rng.integers(words)) if rng.random() < 0.8 else None
    return Script(said, pauses_s, emphasised, int(rng.choice([150, 180, 210])))


def _draw_pauses(rng, words):
    is_long, short = rng.random(words + 1) < 1 / 3, rng.uniform(0.03, 0.1, words + 1)
    pauses_s = np.where(is_long, rng.uniform(0.3, 0.7, words + 1), short)
    pauses_s[0], pauses_s[-1] = rng.uniform(0.06, 0.14), rng.uniform(0.1, 0.16)
    return tuple(float(pause) for pause in pauses_s)


def make_clip(script, voice, face, rng, leak=False, pixels=32):
    """The clip of a script, in a voice and with a face; `rng` draws the loudness.

    With `leak` the mouth follows the loudness instead of the phonemes: what a careless
    generator would do, for the probe. Raises ValueError for a script that does not fit
    together.
    """
    spoken = []
    for at, word in enumerate(script.words):
        raised = voice.pitch + 20 * (at == script.emphasised)
        spoken.append(_word(word, Voice(voice.variant, raised, voice.range), script.rate))
    sound, phonemes, words = _joined(script, spoken)
    sound = _relevelled(sound, _voiced(phonemes, len(sound) // 160), rng)
    name = voice.variant + str(voice.pitch)
    return _filmed(script, words, phonemes, sound, name, face, leak, pixels, voice)


def real_clip(folder, speaker, script, takes, face, pixels=32):
    """The clip of digits that a person said: recordings of `fsdd`, joined with the script's
    pauses.

    Nobody marked their phonemes: eSpeak's are stretched over each recording. The loudness is
    the recording's own, and no word is emphasised, whatever the script says.
    """
    spoken = []
    for word, take in zip(script.words, takes, strict=True):
        file = f"{folder}/{DIGITS.index(word)}_{speaker}_{take}.wav"
        raw, rate_hz = soundfile.read(file, dtype="float32")
        if raw.ndim > 1 or not np.abs(raw).max(initial=0) > 0:
            raise ValueError(f"{file}: a recording of one channel that is not silent is needed")
        sound = _trimmed(_resampled(raw, rate_hz), 0.05)[0]
        model, phonemes = _word(word, Voice("m3"), 160)
        stretch = len(sound) / len(model)
        level = 0.1 / np.sqrt(np.mean(sound**2))
        spoken.append((level * sound, [(start * stretch, ipa) for start, ipa in phonemes]))
    script = replace(script, emphasised=None)
    sound, phonemes, words = _joined(script, spoken)
    return _filmed(script, words, phonemes, sound, speaker, face, False, pixels)


def read_again(clip, rng, most_s=6.0):
    """The clip's words once more in its own voice, with newly drawn pauses: float32 (N,).

    This is what a perfect reader would say who does not see the face.
    """
    script = replace(clip.script, pauses_s=_draw_pauses(rng, len(clip.script.words)))
    return make_clip(script, clip.voice, Face.draw(rng), rng).sound_N[: round(most_s * RATE_HZ)]


def _joined(script, spoken):
    """Sound, phonemes and words of a script from its words' (sound, phonemes)."""
    counts = (len(script.words), len(script.pauses_s))
    fits = counts[0] > 0 and counts[1] == counts[0] + 1 and min(script.pauses_s) >= 0
    if not fits or script.emphasised not in (None, *range(counts[0])):
        raise ValueError(
            f"a script of {counts[0]} words, {counts[1]} pauses and emphasis on "
            f"{script.emphasised}: one pause more than words, none below zero, is allowed"
        )
    phonemes, words, starts, now = [(0.0, "")], [], [], 0
    each = zip(script.words, script.pauses_s, spoken, strict=False)
    for word, pause_s, (sound, told) in each:
        now += round(pause_s * RATE_HZ)
        starts.append(now)
        phonemes += [(now / RATE_HZ + start, ipa) for start, ipa in told]
        words.append((word, now / RATE_HZ, (now + len(sound)) / RATE_HZ))
        now += len(sound)
    frames = int(np.ceil((now + script.pauses_s[-1] * RATE_HZ) / FRAME))
    joined = np.zeros(frames * FRAME, np.float32)
    for start, (sound, _) in zip(starts, spoken, strict=True):
        joined[start : start + len(sound)] += sound
    return joined, phonemes, words


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


def split(**drawn):
    """{group: clips} of groups of speakers, each `group=(count, seed)`: who trains, who judges
    and who is tested. ValueError where two of them share a variant of eSpeak's.
    """
    made = {group: make_clips(group, *how) for group, how in drawn.items()}
    variants = {group: {clip.voice.variant for clip in clips} for group, clips in made.items()}
    for one, other in combinations(made, 2):
        if both := sorted(variants[one] & variants[other]):
            raise ValueError(
                f"the groups {one!r} and {other!r} share {both}: a voice of one group is "
                "allowed in no other, or a test would hear what was trained on"
            )
    return made


def spoken_words(voice, rate):
    """{word: sound (N,)} of all WORDS in a voice at the level of a clip, none emphasised."""
    said = {word: _word(word, voice, rate)[0] for word in WORDS}
    return {word: sound * (0.1 / np.sqrt(np.mean(sound**2))) for word, sound in said.items()}


def _filmed(script, words, phonemes, sound, speaker, face, leak, pixels, voice=None):
    frames = len(sound) // FRAME
    track = mouth_track(phonemes, frames)
    if leak:
        rms = np.sqrt(np.mean(sound.reshape(frames, FRAME) ** 2, axis=1))
        track = np.stack([np.clip(rms * 4, 0, 1), *np.full((3, frames), [[0.5], [0], [0]])], 1)
    brows = np.zeros(frames)
    if script.emphasised is not None:
        middle, (_, start, end) = (np.arange(frames) + 0.5) / FPS, words[script.emphasised]
        brows[(middle > start - 0.08) & (middle < end + 0.04)] = 1
    brows = gaussian_filter1d(brows, 1.0)
    views = [render(face, track, brows, view, pixels) for view in ("face", "mouth")]
    most = _voiced(phonemes, frames * 4).reshape(frames, 4).mean(1) > 0.5
    text = " ".join(script.words)
    return Clip(text, tuple(words), sound, *views, track, most, speaker, script, voice)


@cache
def _word(word, voice, rate):
    """A word at 16 kHz without the silence around it, and its phonemes in its time."""
    raw, phonemes = espeak.say(word, voice, rate)
    sound = _resampled(raw, espeak.RATE_HZ)
    sound, first = _trimmed(sound, 0.01)
    before, ends = first / RATE_HZ, len(sound) / RATE_HZ
    moved = [(min(max(start - before, 0.0), ends), ipa) for start, ipa in phonemes if ipa]
    return sound, (*moved, (ends, ""))


def _resampled(sound, rate_hz):
    divisor = gcd(RATE_HZ, rate_hz)
    return resample_poly(sound, RATE_HZ // divisor, rate_hz // divisor).astype(np.float32)


def _trimmed(sound, share):
    """The sound between what is above a share of its largest value, and where that begins."""
    loud = np.flatnonzero(np.abs(sound) > share * np.abs(sound).max())
    return sound[loud[0] : loud[-1] + 1], loud[0]


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
    slow = gaussian_filter1d(rng.standard_normal(hops + 200), 30)[100:-100]
    gain_db = gain_db + deviation_db * slow * np.sqrt(2 * np.sqrt(np.pi) * 30)
    fine_db = np.interp(np.arange(len(sound)) / 160, np.arange(hops) + 0.5, gain_db)
    return np.clip(sound * 10 ** (fine_db / 20), -0.99, 0.99).astype(np.float32)
