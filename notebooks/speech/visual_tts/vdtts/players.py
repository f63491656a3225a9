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
from helpers import plot
from IPython.display import HTML
from PIL import Image

from .dubbing import MISSING, ROWS, SCORES, dub, speak
from .mel import MEAN, SPREAD, log_mel
from .training import prepare

__all__ = ["draw_dubs", "draw_study", "means_of_study", "pause_slider", "player", "strip"]

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
    import torch

    heights = [1, 2.2] * len(sounds)
    fig, axes = plot.figure(
        height=1.55 * len(sounds) + 0.5,
        rows=2 * len(sounds),
        sharex=True,
        gridspec_kw={"height_ratios": heights},
    )
    for at, (name, sound_N) in enumerate(sounds.items()):
        wave, picture = axes[2 * at], axes[2 * at + 1]
        seconds = np.arange(len(sound_N)) / RATE_HZ
        wave.fill_between(
            seconds[::40],
            *_envelope(sound_N),
            color=plot.style_of("ours")["color"],
            linewidth=0,
        )
        wave.set(yticks=[], ylim=(-0.6, 0.6))
        wave.grid(False), wave.set_title(name, fontsize=11)
        mel = log_mel(torch.as_tensor(np.array(sound_N))[None])[0] * SPREAD + MEAN
        picture.imshow(
            mel.T,
            origin="lower",
            aspect="auto",
            extent=(0, len(mel) / 100, 0, 80),
            cmap="magma",
            interpolation="nearest",
            vmin=-7,
            vmax=3,
        )
        picture.grid(False), picture.set_yticks([0, 80])
    axes[-1].set_xlabel("time in s")
    axes[-1].set_ylabel("mel band")
    return fig


def means_of_study(columns):
    """{row: {score: mean over seeds}} of a receipt's curve; its `row` counts ROWS."""
    at, means = np.array(columns["row"]), {}
    for n, row in enumerate(ROWS):
        of = {name: np.array(columns[name])[at == n] for name in SCORES}
        of = {name: values[values != MISSING] for name, values in of.items()}
        means[row] = {k: float(v.mean()) if len(v) else np.nan for k, v in of.items()}
    return means


def draw_study(columns):
    """A figure of a receipt's curve: synchrony and spectrum of each row, a dot for a seed."""
    fig, axes = plot.figure(height=4.2, cols=2, sharey=True)
    labels = {"distance": "synchrony distance", "mcd": "MCD in step, dB"}
    colors = [plot.style_of("ours" if row == "both" else "neutral")["color"] for row in ROWS]
    for ax, (score, label) in zip(axes, labels.items(), strict=True):
        ax.scatter(columns[score], columns["row"], color=[colors[n] for n in columns["row"]])
        ax.set(xlabel=label, xlim=(0, None))
    axes[0].set_yticks(range(len(ROWS)), ROWS)
    axes[0].invert_yaxis()
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
        ways.append(
            {
                "pause": pause_ms,
                "gaps": gaps,
                "frames": clip.frames,
                "face": _sprite(clip.face_THW),
            }
        )
        ways[-1] |= {
            "sounds": {name: _mp3(sound) for name, sound in sounds.items()},
            "levels": {n: _levels(s) for n, s in sounds.items()},
        }
        ways[-1]["levels"]["truth"] = _levels(clip.sound_N)
        rows += f"<tr><th scope=row>{pause_ms} ms</th><td>{gaps['both']} ms</td>"
        rows += f"<td>{gaps['text']} ms</td></tr>"
    page = Path(__file__).with_name("pause_slider.html").read_text(encoding="utf-8")
    given = json.dumps(
        {"text": clips[0].text, "size": clips[0].face_THW.shape[1], "ways": ways}
    )
    return HTML(page.replace("FALLBACK", rows).replace("DATA", given))


def longest_pause_ms(sound_N, share=0.05):
    """The longest silence between two sounds, in ms; a step is silent below a share of the 95th
    percentile of levels.
    """
    level = np.sqrt(
        (np.asarray(sound_N)[: len(sound_N) // 160 * 160].reshape(-1, 160) ** 2).mean(1)
    )
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
