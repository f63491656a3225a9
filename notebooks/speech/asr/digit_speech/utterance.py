"""Connected-digit utterances from single recordings: real voices, composed pauses and room.

The Free Spoken Digit Dataset has six men who say "zero" to "nine" in English with four accents,
at 8 kHz. We join their recordings to utterances such as "three one four" and put them into a
room, with the place of every word kept. Joined words lack the coarticulation of fluent speech,
so error rates on them are no error rates of free speech.

    pause   log-normal, brief (below 0.2 s) inside a group of digits, medium (0.2 to 1 s)
            between groups: the classes of Campione and Veronis, Speech Prosody 2002, pp.
            199-202; that logarithms of pauses are close to two Gaussians, of Demol et al.,
            Interspeech 2007. Medians and spread inside the classes are our choice.
    room    h(t) = delta(t) + n(t) 10^(-3 t / T60), n white Gaussian noise scaled to the
            direct-to-reverberant ratio: a diffuse room (Moorer 1979; Polack 1988), without
            single early echoes, one T60 for all frequencies
    noise   Gaussian, with the spectrum that Hoth measured in rooms (IEEE 269), at an SNR

Shapes: `N` samples at 16 kHz; signals are float32 tensors in [-1, 1]."""

import zlib
from collections import namedtuple
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import soundfile
import torch
from scipy import fft
from scipy.signal import fftconvolve, resample_poly

RATE_HZ = 16_000
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# from the data set's own metadata.py; all six are men
ACCENTS = {"jackson": "USA", "theo": "USA", "lucas": "DEU", "yweweler": "DEU"}
ACCENTS |= {"nicolas": "BEL", "george": "GRC"}
# the official test split is 0-4; of the training split, 5-49, the registry has 5-24
SPLITS = {"test": range(5), "train": range(5, 25)}
# power density in dB (SPL per Hz, at 50 dBA) at the centres of third-octave
# bands, after IEEE 269
_HOTH_HZ = (100, 125, 160, 200, 250, 315, 400, 500, 630, 800)
_HOTH_HZ += (1000, 1250, 1600, 2000, 2500, 3150, 4000, 5000, 6300, 8000)
_HOTH_DB = (32.4, 30.9, 29.1, 27.6, 26.0, 24.4, 22.7, 21.1, 19.5, 17.8)
_HOTH_DB += (16.2, 14.6, 12.9, 11.3, 9.6, 7.8, 5.4, 2.6, -1.3, -6.6)


@dataclass(frozen=True)
class Style:
    """How utterances are put together. A pair is the lowest and highest value of an even draw;
    a pause has its median, geometric standard deviation, lowest and highest value."""

    digits: tuple = (3, 8)
    group: tuple = (2, 4)  # digits said without a medium pause, as in a telephone number
    brief_s: tuple = (0.08, 1.6, 0.02, 0.2)
    medium_s: tuple = (0.4, 1.5, 0.2, 1.0)
    lead_s: tuple = (0.15, 0.4)  # before the first word
    trail_s: tuple = (0.3, 0.6)  # after the last, as an endpointer sees it
    level_db: tuple = (-29.0, -23.0)  # of the words, relative to a full-scale square wave
    word_db: tuple = (-2.0, 2.0)  # of one word against the others
    t60_s: tuple | None = (0.2, 0.6)  # None: no room
    direct_db: tuple = (3.0, 15.0)  # direct-to-reverberant ratio
    snr_db: tuple | None = (10.0, 30.0)  # None: no noise

    def __post_init__(self):
        for name, value in vars(self).items():
            low, high = (value or (0, 0))[-2:]
            above = name in ("digits", "group", "t60_s") and value  # above zero
            good = low <= high and (low > 0 or not above)
            if name in ("brief_s", "medium_s"):  # else a draw might never lie in its bounds
                good = 0 <= low <= value[0] <= high and 1.01 * low < high and value[1] > 1
            if not good:
                raise ValueError(f"Style({name}={value}): the docstring has the values' order")


# one spoken word and where it lies, in seconds from the start of its utterance
Word = namedtuple("Word", "text start_s end_s recording")


class Utterance(namedtuple("Utterance", "name signal text speaker accent split words")):
    """One composed utterance: `signal` is float32 of shape (N,), `words` a tuple of Word."""

    @property
    def duration_s(self):
        return len(self.signal) / RATE_HZ


def utterances(folder, split, speakers=None, count=100, seed=0, style=None):
    """A list of `count` Utterances for each speaker, from the recordings in `folder`.

    >>> spoken = utterances(data.fetch("fsdd"), "test", ["george"], count=2)
    >>> spoken[0].text, spoken[0].accent, spoken[0].words[0]
    ('zero nine zero two nine four one three', 'GRC',
     Word(text='zero', start_s=0.28625, end_s=0.58425, recording='0_george_0.wav'))

    An utterance depends on seed, split, speaker, style and its number alone. `split` is "test"
    or "train": no recording is in both. Raises ValueError for another split or speaker,
    FileNotFoundError for a recording that is not there."""
    if split not in SPLITS:
        raise ValueError(f"split {split!r}: the recordings are split into {sorted(SPLITS)}")
    speakers = [speakers] if isinstance(speakers, str) else list(speakers or ACCENTS)
    if wrong := [name for name in speakers if name not in ACCENTS]:
        raise ValueError(f"speakers {wrong}: the data set has {sorted(ACCENTS)}")
    style, made = style or Style(), []
    for speaker in speakers:
        stream = zlib.crc32(f"{split}/{speaker}".encode())
        for number in range(count):
            rng = np.random.default_rng([seed, number, stream])
            digits = rng.integers(0, 10, rng.integers(*style.digits, endpoint=True))
            picked = [(digit, rng.choice(SPLITS[split])) for digit in digits]
            name = f"{speaker}-{split}-{seed}-{number:05d}"
            words, signal = _composed(Path(folder), speaker, picked, rng, style)
            text = " ".join(word.text for word in words)
            rest = speaker, ACCENTS[speaker], split, tuple(words)
            made.append(Utterance(name, signal, text, *rest))
    return made


def _composed(folder, speaker, picked, rng, style):
    """(words, signal) of the recordings `picked`, pairs of digit and index."""
    level_db = rng.uniform(*style.level_db)
    pauses_s = [*_pauses(len(picked), rng, style), rng.uniform(*style.trail_s)]
    pieces, words = [np.zeros(_samples(rng.uniform(*style.lead_s)))], []
    at = len(pieces[0])
    for (digit, index), pause_s in zip(picked, pauses_s, strict=True):
        recording = f"{digit}_{speaker}_{index}.wav"
        gain = 10 ** ((level_db + rng.uniform(*style.word_db)) / 20)
        sound_N = gain * read_digit(folder / recording)
        span_s = at / RATE_HZ, (at + len(sound_N)) / RATE_HZ
        words.append(Word(WORDS[digit], *span_s, recording))
        pieces += [sound_N, np.zeros(_samples(pause_s))]
        at += len(sound_N) + len(pieces[-1])
    wet_N = _in_room(np.concatenate(pieces), words, rng, style)
    wet_N = wet_N * min(1.0, 0.99 / np.abs(wet_N).max())
    return words, torch.from_numpy(wet_N.astype(np.float32))


def save(spoken, folder):
    """Manifest entries of the utterances, in order, written as 16-bit `folder/<name>.wav`."""
    folder, entries = Path(folder), []
    folder.mkdir(parents=True, exist_ok=True)
    for one in spoken:
        path = folder / f"{one.name}.wav"
        soundfile.write(path, one.signal.numpy(), RATE_HZ, subtype="PCM_16")
        entry = {"audio_filepath": str(path), "duration": one.duration_s, "text": one.text}
        entry |= {"speaker": one.speaker, "accent": one.accent}
        entries.append(entry)
    return entries


@lru_cache(2048)
def read_digit(path):
    """One recording at 16 kHz, float32 (N,): offset taken away, silence at the ends cut, RMS 1,
    then 5 ms fades; read-only, since it is kept for the next call. Raises ValueError where the
    file is not 8 kHz mono, or holds nothing but silence."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"no recording {path}; helpers.data.fetch gets the data set")
    sound, rate_hz = soundfile.read(path, dtype="float64")
    if rate_hz != 8000 or sound.ndim != 1 or not len(sound) or np.ptp(sound) == 0:
        got = f"{rate_hz} Hz, shape {sound.shape}, largest {np.abs(sound).max(initial=0):g}"
        raise ValueError(f"{path}: needed are sounds of 8000 Hz, mono, not silent; got {got}")
    sound = resample_poly(_trim(sound - sound.mean(), rate_hz), RATE_HZ, rate_hz)
    sound = (sound / np.sqrt(np.mean(sound**2))).astype(np.float32)
    fade = np.linspace(0, 1, min(80, len(sound) // 2))
    sound[: len(fade)] *= fade
    sound[len(sound) - len(fade) :] *= fade[::-1]
    sound.flags.writeable = False
    return sound


def _in_room(dry_N, words, rng, style):
    """The words in their room with its noise."""
    wet_N = dry_N
    if style.t60_s is not None:
        t60_s, direct_db = rng.uniform(*style.t60_s), rng.uniform(*style.direct_db)
        wet_N = fftconvolve(dry_N, room_response(t60_s, direct_db, rng))[: len(dry_N)]
    if style.snr_db is not None:
        gain = 10 ** (-rng.uniform(*style.snr_db) / 20)
        spans = [slice(_samples(word.start_s), _samples(word.end_s)) for word in words]
        rms = np.sqrt(np.mean(np.concatenate([wet_N[span] for span in spans]) ** 2))
        wet_N = wet_N + room_noise(len(wet_N), rng) * (rms * gain)
    return wet_N


def room_response(t60_s, direct_db, rng):
    """An impulse response of shape (16,000 T60,): 1 for the direct sound, then noise of energy
    10^(-direct_db / 10) that fades by 60 dB in T60 seconds, else than above zero a
    ValueError."""
    if not t60_s > 0:
        raise ValueError(f"a reverberation time of {t60_s} s: above zero is allowed")
    t_N = np.arange(max(2, round(t60_s * RATE_HZ))) / RATE_HZ
    tail_N = rng.standard_normal(len(t_N)) * 10 ** (-3 * t_N / t60_s)
    tail_N[0] = 0
    tail_N *= 10 ** (-direct_db / 20) / np.sqrt(np.sum(tail_N**2))
    tail_N[0] = 1
    return tail_N


def room_noise(samples, rng):
    """Gaussian noise of RMS 1 and shape (samples,), with Hoth's spectrum from 100 Hz up."""
    size = fft.next_fast_len(max(samples, 1600), real=True)  # prime sizes are slow
    hz = fft.rfftfreq(size, 1 / RATE_HZ)
    gain_db = np.interp(np.log(np.maximum(hz, 1)), np.log(_HOTH_HZ), _HOTH_DB)
    shaped = fft.rfft(rng.standard_normal(size)) * 10 ** (gain_db / 20) * (hz >= _HOTH_HZ[0])
    noise = fft.irfft(shaped, size)[:samples]
    return noise / np.sqrt(np.mean(noise**2))


def _pauses(count, rng, style):
    """The count - 1 pauses between words, in seconds."""
    pauses, left = [], rng.integers(*style.group, endpoint=True)
    for _ in range(count - 1):
        left -= 1
        median_s, spread, low_s, high_s = style.brief_s if left else style.medium_s
        left = left or rng.integers(*style.group, endpoint=True)
        pause_s = -1.0
        while not low_s <= pause_s < high_s:  # drawn again, so that none gather at the bounds
            pause_s = median_s * spread ** rng.standard_normal()
        pauses.append(pause_s)
    return pauses


def _trim(sound, rate_hz):
    """`sound` from its first to its last 10 ms within 40 dB of the loudest, and 50 ms around:
    lower would keep clicks in tails of lucas, higher cut the faint "s" of jackson's "six"."""
    step, margin = rate_hz // 100, 5
    frames = np.pad(sound, (0, -len(sound) % step)).reshape(-1, step)
    energy = np.mean(frames**2, axis=1)
    heard = np.flatnonzero(energy > energy.max() * 1e-4)
    return sound[max(0, heard[0] - margin) * step : (heard[-1] + 1 + margin) * step]


def _samples(seconds):
    return round(seconds * RATE_HZ)
