"""What a person hears and sees in the page: sounds with their picture, and a slider that moves
a pause.

All sounds and pictures are made by the run; the browser only shows them. Shapes: `N` samples at
16 kHz, `T` frames.
"""

import base64
import html
import io
import json
from pathlib import Path

import numpy as np
import soundfile
import torch
from helpers import plot
from IPython.display import HTML
from PIL import Image

from .dubbing import dub, speak
from .mel import MEAN, SPREAD, log_mel
from .training import prepare

__all__ = ["draw_dubs", "longest_pause_ms", "pause_slider", "player", "strip"]

RATE_HZ = 16_000


def player(sounds, transcript):
    """An HTML output: an audio player for each of `sounds`, {name: (N,)}, with its name, and
    the transcript.
    """
    rows = ""
    for name, sound_N in sounds.items():
        label = html.escape(f"{name}: {transcript}")
        rows += f'<figure style="margin:.5rem 0"><figcaption>{label}</figcaption>'
        rows += f'<audio controls preload="none" style="width:100%" aria-label="{label}" '
        rows += f'src="{_mp3(sound_N)}"></audio></figure>'
    return HTML(rows)


def draw_dubs(sounds):
    """A figure: for each of {name: (N,)} the waveform above its log-mel spectrogram, on one
    axis of time.
    """
    shares = {"height_ratios": [1, 2.2] * len(sounds)}
    rows, tall = 2 * len(sounds), 1.55 * len(sounds) + 0.5
    fig, axes = plot.figure(height=tall, rows=rows, sharex=True, gridspec_kw=shares)
    look = {"origin": "lower", "aspect": "auto", "interpolation": "nearest", "cmap": "magma"}
    color, pairs = plot.style_of("ours")["color"], np.reshape(axes, (-1, 2))
    for (wave, picture), (name, sound_N) in zip(pairs, sounds.items(), strict=True):
        seconds = np.arange(0, len(sound_N), 40) / RATE_HZ
        wave.fill_between(seconds, *_envelope(sound_N), color=color, linewidth=0)
        wave.set(yticks=[], ylim=(-1, 1))
        wave.grid(False), wave.set_title(name, fontsize=11)
        mel = log_mel(torch.as_tensor(np.array(sound_N))[None])[0] * SPREAD + MEAN
        picture.imshow(mel.T, extent=(0, len(mel) / 100, 0, 80), vmin=-7, vmax=3, **look)
        picture.grid(False), picture.set_yticks([0, 80])
    axes[-1].set_xlabel("time in s")
    axes[-1].set_ylabel("mel band")
    return fig


def strip(frames_TPP, columns=12):
    """Frames (T, P, P) as one picture: every few of them side by side."""
    chosen = np.linspace(0, len(frames_TPP) - 1, columns).round().astype(int)
    return np.concatenate([frames_TPP[at] for at in chosen], axis=1)


def pause_slider(clips, networks):
    """An HTML output: a slider over clips that differ in one pause alone, their face moving,
    and two dubs to hear.

    `clips` in the order of their pause. Without a script, and on paper, a table of what was
    measured stands in its place.
    """
    items = prepare(clips, networks["voices"])
    ways, rows = [], ""
    mels, blind = (speak(networks[name], items)[0] for name in ("both", "text"))
    for clip, seen, unseen in zip(clips, mels, blind, strict=True):
        sounds = {"both": dub(seen, clip), "text": dub(unseen, clip)}
        pause_ms = round(1000 * (clip.words[1][1] - clip.words[0][2]))
        gaps = {name: longest_pause_ms(sound) for name, sound in sounds.items()}
        way = {"pause": pause_ms, "gaps": gaps, "frames": clip.frames}
        way["sounds"] = {name: _mp3(sound) for name, sound in sounds.items()}
        heard = sounds | {"truth": clip.sound_N}
        way["levels"] = {name: _levels(sound) for name, sound in heard.items()}
        ways.append(way | {"face": _sprite(clip.face_THW)})
        rows += f"<tr><th scope=row>{pause_ms} ms</th><td>{gaps['both']} ms</td>"
        rows += f"<td>{gaps['text']} ms</td></tr>"
    page = Path(__file__).with_name("pause_slider.html").read_text(encoding="utf-8")
    given = {"text": clips[0].text, "size": clips[0].face_THW.shape[1], "ways": ways}
    return HTML(page.replace("FALLBACK", rows).replace("DATA", json.dumps(given)))


def longest_pause_ms(sound_N, share=0.05):
    """The longest silence between two sounds, in ms; a step is silent below a share of the 95th
    percentile of levels.
    """
    steps = np.asarray(sound_N)[: len(sound_N) // 160 * 160].reshape(-1, 160)
    level = np.sqrt((steps**2).mean(1))
    loud = np.flatnonzero(level > share * np.quantile(level, 0.95))
    return int(10 * max(np.diff(loud).max() - 1, 0)) if len(loud) > 1 else 0


def _levels(sound_N):
    frames = np.asarray(sound_N)[: len(sound_N) // 640 * 640].reshape(-1, 640)
    return [round(float(x), 3) for x in np.sqrt((frames**2).mean(1)) / 0.2]


def _envelope(sound_N):
    pieces = np.pad(np.asarray(sound_N), (0, -len(sound_N) % 40)).reshape(-1, 40)
    return pieces.min(1), pieces.max(1)


def _mp3(sound_N):
    if not np.isfinite(sound_N).all():  # LAME would end the whole process
        raise ValueError("a sound has samples that are not finite: nothing to play")
    packed = io.BytesIO()
    soundfile.write(packed, np.clip(sound_N, -0.99, 0.99), RATE_HZ, format="MP3")
    return "data:audio/mpeg;base64," + base64.b64encode(packed.getvalue()).decode()


def _sprite(frames_TPP):
    """All frames under one another, as a JPEG."""
    packed = io.BytesIO()
    Image.fromarray(np.concatenate(list(frames_TPP))).save(packed, "JPEG", quality=58)
    return "data:image/jpeg;base64," + base64.b64encode(packed.getvalue()).decode()
