"""Sounds to learn an instrument from: real clips, and phrases rendered from a General MIDI
sound bank.

Nobody here plays a bansuri, a shehnai or a sarangi. Their stand-ins are the bank's flute,
shanai and fiddle, played by fluidsynth from phrases that we draw: steps along a five-tone
scale, glides, vibrato and swells. A General MIDI note is a few recordings, looped and faded, so
these are instrument-like sounds, and easier than a player's.

A phrase is drawn from its seed: seeds below 100 train, the others are held out.
"""

import shutil
import struct
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import soundfile
import torch
from sound_features.analysis import SAMPLE_RATE
from sound_features.sound_input import resampled

HERE = Path(__file__).parent
# General MIDI's numbers, from 0; and the MIDI note of the lowest tonic
PROGRAMS = {"bansuri": 73, "shehnai": 111, "sarangi": 110, "oboe": 68}
LOWEST = {"bansuri": 69, "shehnai": 64, "sarangi": 55, "oboe": 64}
SCALE = (0, 2, 4, 7, 9, 12, 14, 16)  # Bhupali, five tones an octave
SECONDS, KEPT_SECONDS = 10.0, 6.0  # of a phrase; of those that come with the slice
HELD_OUT = 100  # seeds from here on are never trained on
BANKS = ("/usr/share/sounds/sf2/FluidR3_GM.sf2", "/usr/share/soundfonts/FluidR3_GM.sf2")
TICKS = 480  # of a quarter note of half a second


def phrase(seed, lowest=69, seconds=SECONDS):
    """Notes (start in s, length in s, MIDI note, loudness 0 to 1, glide in semitones), never
    two at once.
    """
    random = np.random.default_rng(seed)
    tonic, step = lowest + int(random.integers(0, 5)), int(random.integers(0, 5))
    at, notes = 0.1, []
    while at < seconds - 1.0:
        length = float(random.choice([0.25, 0.4, 0.6, 1.0, 1.4], p=[0.25, 0.3, 0.2, 0.15, 0.1]))
        length = min(length, seconds - 0.4 - at)
        glide = float(random.choice([0, 0, 0, -2, -1, 1, 2]))
        notes.append((at, length, tonic + SCALE[step], float(random.uniform(0.35, 1)), glide))
        step = int(np.clip(step + random.choice([-2, -1, -1, 0, 1, 1, 2]), 0, len(SCALE) - 1))
        at += length + float(random.choice([0.0, 0.02, 0.25], p=[0.6, 0.25, 0.15]))
    return notes


def midi_file(notes, program, seed=0):
    """The notes as the bytes of a Standard MIDI File: pitch bends for glides and vibrato,
    expression for swells.
    """
    random, events = np.random.default_rng(seed), [(0.0, bytes([0xC0, program]))]
    for start, length, note, loud, glide in notes:
        events.append((start, bytes([0x90, note, 90])))
        depth = float(random.choice([0, 0.15, 0.3]))
        for u in np.arange(0, length, 0.01):
            waver = depth * np.sin(2 * np.pi * 5.5 * u) * min(1, u / 0.3)
            bend = glide * max(0.0, 1 - u / 0.15) + waver
            value = int(np.clip(8192 + bend / 2 * 8192, 0, 16383))
            swell = int(127 * loud * (0.6 + 0.4 * np.sin(np.pi * min(1, u / length))))
            events.append((start + u - 1e-4, bytes([0xE0, value & 127, value >> 7])))
            events.append((start + u - 1e-4, bytes([0xB0, 11, swell])))
        events.append((start + length - 1e-3, bytes([0x80, note, 0])))
    track, before = b"", 0
    for at, event in sorted(events, key=lambda one: one[0]):
        tick = max(before, round(at * 2 * TICKS))
        track += _variable(tick - before) + event
        before = tick
    track += b"\x00\xff\x2f\x00"
    head = b"MThd" + struct.pack(">IHHH", 6, 0, 1, TICKS)
    return head + b"MTrk" + struct.pack(">I", len(track)) + track


def _variable(number):
    found = [number & 127]
    while number := number >> 7:
        found.append(number & 127 | 128)
    return bytes(reversed(found))


def can_render():
    """Whether fluidsynth and a General MIDI bank are installed."""
    return shutil.which("fluidsynth") is not None and any(Path(bank).exists() for bank in BANKS)


def rendered(name, seed, seconds=SECONDS, timeout_s=60):
    """The phrase `seed` on an instrument as samples (N,), float32, 16 kHz, without reverb and
    chorus.

    Raises RuntimeError where fluidsynth or its bank are absent, or fluidsynth fails.
    """
    if not can_render():
        raise RuntimeError(
            "fluidsynth or its bank is missing (Debian: apt install fluidsynth "
            "fluid-soundfont-gm)"
        )
    bank = next(bank for bank in BANKS if Path(bank).exists())
    with tempfile.TemporaryDirectory() as folder:
        midi, wave = Path(folder) / "phrase.mid", Path(folder) / "phrase.wav"
        midi.write_bytes(midi_file(phrase(seed, LOWEST[name], seconds), PROGRAMS[name], seed))
        told = ["fluidsynth", "-ni", "-R", "0", "-C", "0", "-g", "0.8", "-r", "44100", "-F"]
        told += [str(wave), bank, str(midi)]
        done = subprocess.run(told, capture_output=True, timeout=timeout_s, check=False)
        if done.returncode or not wave.exists():
            said = done.stderr.decode(errors="replace")[-300:]
            raise RuntimeError(f"fluidsynth failed: {said}")
        sound, rate = soundfile.read(wave, dtype="float32")
    sound = resampled(sound.mean(1), rate)[: round(seconds * SAMPLE_RATE)]
    return np.pad(sound, (0, round(seconds * SAMPLE_RATE) - len(sound)))


KEPT = dict.fromkeys(("bansuri", "shehnai", "sarangi"), (0, HELD_OUT)) | {"oboe": (HELD_OUT,)}


@cache
def kept(name):
    """The phrases of an instrument that come with the slice, {seed: samples}, without loss:
    a lossy format changes quiet spectra."""
    files = {seed: HERE / "phrases" / f"{name}_{seed}.flac" for seed in KEPT[name]}
    return {seed: soundfile.read(file, dtype="float32")[0] for seed, file in files.items()}


def keep(folder=HERE / "phrases"):
    """None; renders and writes these phrases again."""
    for name, seed in [(name, seed) for name, seeds in KEPT.items() for seed in seeds]:
        sound = rendered(name, seed, KEPT_SECONDS)
        soundfile.write(folder / f"{name}_{seed}.flac", sound, SAMPLE_RATE, "PCM_16")


def clip(folder, name):
    """A clip of `music_sounds` or `speech_librivox` as samples (N,), float32, 16 kHz, one
    channel.
    """
    sound, rate = soundfile.read(Path(folder) / name, dtype="float32", always_2d=True)
    return resampled(sound.mean(1), rate)


def tensor(sound):
    """A sound as a tensor (N,), float32, of a whole number of frames."""
    return torch.from_numpy(np.ascontiguousarray(sound[: len(sound) // 64 * 64], np.float32))


if __name__ == "__main__":
    keep()
