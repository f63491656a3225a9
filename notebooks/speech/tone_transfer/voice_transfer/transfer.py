"""A voice becomes an instrument: its pitch and loudness are kept, moved to where the instrument
plays, and played.

Steps: `features` → confidence mask → octave and loudness normalised → decoder → oscillators and
noise. `Player` does it in chunks of any length and carries everything over: context of the
analysis, pitch, the decoder's state, phase, the noise's counter and tail. `cross_faded` is the
usual way, chunks of a second that begin from nothing, faded over.

Shapes: `N` samples at 16 kHz, `T` frames of 64.
"""

from pathlib import Path
from typing import NamedTuple

import torch
from harmonic_synth import oscillators as hs
from safetensors.torch import load_file, save_file
from sound_features import analysis as sf
from tone_decoder import networks as td
from tone_decoder.training import new_decoder, play

CHECKPOINT = Path(__file__).with_name("instruments.safetensors")
INSTRUMENTS = ("bansuri", "shehnai", "sarangi", "saxophone", "trumpet", "cello")
KIND = "conv64"
HUSHED = 0.25  # loudness (20 dB) taken away where there is no sure pitch: consonants and breath
# samples around a frame that its features may depend on, in whole frames
CONTEXT = 768


class Instrument(NamedTuple):
    """A decoder, and where its instrument plays: pitch (MIDI; median and the middle 90 %),
    loudness (mean and spread).
    """

    decoder: torch.nn.Module
    centre: float
    low: float
    high: float
    loud: float
    spread: float


class Shift(NamedTuple):
    """How a voice is moved: octaves added, and loudness = gain · loudness + offset."""

    octaves: int
    gain: float
    offset: float


def place(recordings):
    """Where an instrument plays, as in `Instrument`: the statistics of its training
    recordings.
    """
    pitch = torch.cat([sf.midi(one.f0[one.voiced]) for one in recordings])
    loud = torch.cat([one.loudness[one.voiced] for one in recordings])
    low, high = torch.quantile(pitch, pitch.new_tensor([0.05, 0.95])).tolist()
    return float(pitch.median()), low, high, float(loud.mean()), float(loud.std())


def save(instruments, path=CHECKPOINT):
    """None; writes instruments {name: Instrument} as float16."""
    weights = {}
    for name, one in instruments.items():
        weights |= {
            f"{name}.{key}": value.half() for key, value in one.decoder.state_dict().items()
        }
        weights[f"{name}.place"] = torch.tensor(one[1:])
    save_file(weights, path)


def names(path=CHECKPOINT):
    """The names of the instruments in a file."""
    return sorted({key.partition(".")[0] for key in load_file(path)})


def load(name, path=CHECKPOINT, kind=KIND):
    """The `Instrument` of that name from the shipped file; ValueError for another name."""
    if name not in names(path):
        known = ", ".join(INSTRUMENTS)
        raise ValueError(f"no instrument is called {name!r}; {known} are in {Path(path).name}")
    parts = ((key.partition("."), one) for key, one in load_file(path).items())
    weights = {key: one for (whose, _, key), one in parts if whose == name}
    where = weights.pop("place").tolist()
    decoder = new_decoder(kind).eval().requires_grad_(False)
    decoder.load_state_dict({key: value.float() for key, value in weights.items()})
    return Instrument(decoder, *where)


def shift_of(found, instrument):
    """The `Shift` that brings a voice's `Features` to an instrument: none within its range,
    else whole octaves towards its median, mean and spread of loudness.

    Raises ValueError where no frame has a sure pitch.
    """
    sure = found.voiced
    if not sure.any():
        raise ValueError(
            "no frame has a sure pitch: sing or hum one note at a time, nearer to "
            "the microphone"
        )
    median = float(sf.midi(found.f0[sure]).median())
    inside = instrument.low <= median <= instrument.high
    octaves = 0 if inside else round((instrument.centre - median) / 12)
    loud = found.loudness[sure]
    gain = min(2.0, instrument.spread / max(float(loud.std(correction=0)), 1e-3))
    return Shift(octaves, gain, instrument.loud - gain * float(loud.mean()))


def moved(found, shift, last=None):
    """(f0 (T,), loudness (T,)), float32: what the decoder is given, held and hushed where there
    is no pitch.
    """
    f0 = sf.held(found.f0, found.voiced, last) * 2.0**shift.octaves
    loud = found.loudness * shift.gain + shift.offset - HUSHED * ~found.voiced
    loud = torch.where(found.loudness > 0, loud, 0.0)
    return f0.float(), loud.clamp(0, 1).float()


@torch.inference_mode()
def transfer(sound_N, instrument, shift=None, seed=0):
    """The sound (T·64,) of an instrument that follows the voice; `shift` normalises, by default
    by the whole voice.
    """
    found = sf.features(sound_N)
    f0, loud = moved(found, shift or shift_of(found, instrument))
    return play(instrument.decoder, f0[None], loud[None], seed=seed)[0]


class Player:
    """The same sound chunk by chunk: `[*map(player.push, chunks), player.finish()]`, joined, is
    `transfer` of the whole.

    It is late by 768 samples of context and a frame, 52 ms. Raises ValueError for samples that
    are not finite.
    """

    def __init__(self, instrument, shift, seed=0):
        self.instrument, self.shift, self.seed = instrument, shift, seed
        self.heard = torch.zeros(CONTEXT)  # context, then what has not been analysed
        self.last, self.state, self.phase, self.before = None, None, None, None
        self.frames, self.tail, self.unplayed = 0, None, torch.zeros(1, 0)

    @torch.inference_mode()
    def push(self, chunk_N):
        """The samples (n,) that are ready after this chunk, perhaps none."""
        chunk = torch.as_tensor(chunk_N, dtype=torch.float32)
        sf.finite(chunk)
        self.heard = torch.cat([self.heard, chunk])
        ready = (len(self.heard) - 2 * CONTEXT) // sf.HOP * sf.HOP
        if ready <= 0:
            return torch.zeros(0)
        found = sf.features(self.heard[: ready + 2 * CONTEXT], margin=CONTEXT)
        self.heard = self.heard[ready:]
        return self._played(found)

    @torch.inference_mode()
    def finish(self):
        """The samples that were still late; the player is spent after it."""
        left = (len(self.heard) - CONTEXT) // sf.HOP * sf.HOP
        rest = CONTEXT - (len(self.heard) - CONTEXT - left) if left > 0 else 0
        sound = self.push(torch.zeros(rest))
        if self.before is None:
            return sound
        held = (torch.cat([one, one], 1) for one in self.before)
        tone, self.phase = hs.bank(*held, sf.SAMPLE_RATE, sf.HOP, self.phase)
        return torch.cat([sound, self._mixed(tone, self.tail[:, : td.BANDS - 1])])

    def _played(self, found):
        f0, loud = moved(found, self.shift, self.last)
        self.last = float(f0[-1]) / 2.0**self.shift.octaves
        plain, self.state = self.instrument.decoder(td.inputs(f0[None], loud[None]), self.state)
        made = td.controls(plain)
        shares = hs.below_nyquist(f0[None], made.partials, sf.SAMPLE_RATE)
        now, first = (f0[None], made.amplitude[..., None] * shares), self.before is None
        if not first:
            now = tuple(torch.cat(both, 1) for both in zip(self.before, now, strict=True))
        tone, self.phase = hs.bank(*now, sf.SAMPLE_RATE, sf.HOP, self.phase)
        self.before = tuple(one[:, -1:] for one in now)
        told = self.frames * sf.HOP, self.seed, self.tail
        noise, self.tail = hs.filtered_noise(made.noise, sf.HOP, *told)
        self.frames += made.noise.shape[1]
        return self._mixed(tone, noise[:, td.BANDS - 1 :] if first else noise)

    def _mixed(self, tone, noise):
        waiting, ready = torch.cat([self.unplayed, noise], 1), tone.shape[1]
        self.unplayed = waiting[:, ready:]
        return (tone + waiting[:, :ready])[0]


@torch.inference_mode()
def cross_faded(sound_N, instrument, shift, seconds=1.0, seed=0):
    """Chunks of `seconds`, half overlapping, each played from nothing, faded over along
    straight lines: exact where two chunks agree, weak where their phases do not.
    """
    size = round(seconds * sf.SAMPLE_RATE) // (2 * sf.HOP) * 2 * sf.HOP
    half = size // 2
    total = torch.zeros(len(sound_N) // sf.HOP * sf.HOP + size)
    ramp = (torch.arange(half) + 0.5) / half
    padded = torch.nn.functional.pad(torch.as_tensor(sound_N).float(), (half, size))
    for at in range(-half, len(total) - size, half):
        piece = padded[at + half : at + half + size]
        made = transfer(piece, instrument, shift, seed=seed + at // half + 1)
        made = made * torch.cat([ramp, ramp.flip(0)])
        start = max(at, 0)
        total[start : at + size] += made[start - at :]
    return total[: len(sound_N) // sf.HOP * sf.HOP]
