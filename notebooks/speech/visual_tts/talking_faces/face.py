"""A rendered talking face at 25 frames a second: mouth from phonemes, brows from emphasis,
nothing from loudness.

A phoneme asks for a mouth: opening, width, teeth and tongue (its viseme). The targets, smoothed
over 30 ms, are the track that is drawn; so neighbouring sounds blend, as lips do. Everything is
a soft ellipse in grey, drawn on a grid that carries the head's motion. Identity, motion, light
and noise are drawn at random, and independently of the speech.

Shapes: `T` frames, `H` and `W` pixels. Head coordinates: x right, y down, the face about ±1.
"""

from dataclasses import dataclass

import numpy as np
from scipy.ndimage import gaussian_filter1d

__all__ = ["FPS", "Face", "mouth_track", "render"]

FPS = 25
FINE_HZ, BLUR_S = 500, 0.03
REST = (0.0, 0.5, 0.0, 0.0)  # opening, width, teeth, tongue, each 0 to 1
_MOUTHS = {  # opening, width, teeth, tongue; sounds that look alike share one
    "m b p": (0, 0.45, 0, 0),     "f v": (0.12, 0.5, 0.9, 0),  "w": (0.12, 0.1, 0, 0),
    "h": (0.4, 0.5, 0, 0),        "s": (0.18, 0.7, 1, 0),      "z": (0.18, 0.65, 1, 0),
    "t d": (0.22, 0.6, 0.6, 0.4), "n": (0.28, 0.55, 0.4, 0.6), "l": (0.36, 0.55, 0.2, 0.9),
    "θ ð": (0.25, 0.6, 0.5, 1),   "ɹ": (0.25, 0.25, 0.2, 0),   "k ɡ": (0.32, 0.5, 0.2, 0),
    "j": (0.2, 0.85, 0.4, 0),     "i": (0.28, 0.95, 0.5, 0),   "ɪ": (0.35, 0.8, 0.3, 0),
    "e": (0.45, 0.8, 0.2, 0),     "ɛ": (0.6, 0.75, 0.1, 0),    "a": (1.0, 0.65, 0, 0),
    "ɐ": (0.7, 0.55, 0, 0),       "ʌ": (0.7, 0.5, 0, 0),       "ə": (0.4, 0.5, 0, 0),
    "ɔ": (0.75, 0.2, 0, 0),       "o": (0.55, 0.2, 0, 0),      "ʊ": (0.25, 0.1, 0, 0),
    "u": (0.22, 0.05, 0, 0),      "ɚ": (0.35, 0.3, 0.1, 0),
}  # fmt: skip
RANGES = {"skin": (0.5, 0.9), "hair": (0.05, 0.35), "lips": (-0.25, -0.12), "back": (0.1, 0.9)}
RANGES |= {"aspect": (0.72, 0.85), "eyes": (0.28, 0.36), "mouth": (0.34, 0.44)}
RANGES |= {"brows": (0.04, 0.07)}
VISEMES = {sound: mouth for sounds, mouth in _MOUTHS.items() for sound in sounds.split()}


@dataclass(frozen=True)
class Face:
    """Who is seen, and how: drawn by `Face.draw(rng)`. Greys are 0 to 1, lengths in head
    coordinates.
    """

    skin: float
    hair: float
    lips: float
    back: float
    aspect: float
    eyes: float
    mouth: float
    brows: float
    light: tuple  # strength of a grey ramp, along x and y
    noise: float  # standard deviation of a pixel
    sway: float  # of the head: radians, and a fifth of it in lengths
    seed: int  # of motion and noise

    @classmethod
    def draw(cls, rng):
        """A face of random identity, light, noise and motion."""
        drawn = {name: float(rng.uniform(*ends)) for name, ends in RANGES.items()}
        light = tuple(float(x) for x in rng.uniform(-0.2, 0.2, 2))
        noise, sway = float(rng.uniform(0.005, 0.04)), float(rng.uniform(0.02, 0.15))
        return cls(**drawn, light=light, noise=noise, sway=sway, seed=int(rng.integers(2**31)))


def mouth_track(phonemes, frames):
    """Opening, width, teeth and tongue of each frame: float32 of shape (T, 4), each 0 to 1.

    `phonemes`: (start in s, IPA) in order, "" for silence; a diphthong's letters share its
    time. A sound without an entry of its own gets the mouth of "ə". A frame shows the middle of
    its 40 ms.
    """
    fine = np.tile(np.float32(REST), (round(frames / FPS * FINE_HZ) + 1, 1))
    ends = [start for start, _ in phonemes[1:]] + [frames / FPS]
    for (start, ipa), end in zip(phonemes, ends, strict=True):
        letters = [letter for letter in ipa if letter.isalpha() and letter not in "ːˈˌ"]
        cuts = np.round(np.linspace(start, end, len(letters) + 1) * FINE_HZ).astype(int)
        for letter, first, last in zip(letters, cuts, cuts[1:], strict=False):
            fine[first:last] = VISEMES.get(letter, VISEMES["ə"])
    smooth = gaussian_filter1d(fine, BLUR_S * FINE_HZ, axis=0, mode="nearest")
    middle = ((np.arange(frames) + 0.5) * FINE_HZ / FPS).astype(int)
    return smooth[middle]


def render(face, track_T4, brows_T, view="face", pixels=32):
    """The frames: uint8 of shape (T, pixels, pixels). `view`: "face", the whole head, or
    "mouth", a crop that follows it.

    `brows_T` is 0 for brows at rest and 1 for raised ones. Raises ValueError for another view.
    """
    if view not in ("face", "mouth"):
        raise ValueError(f"view {view!r}: 'face' and 'mouth' are allowed")
    rng, frames = np.random.default_rng(face.seed), len(track_T4)
    half, centre = (1.15, 0.0) if view == "face" else (0.55, 0.5)
    axis = (np.arange(pixels) + 0.5) / pixels * 2 - 1
    ends = np.float32(axis) * half
    turn, shift, tall, scale = _motion(rng, frames, face.sway)
    x, y = ends[None, None, :], ends[None, :, None] + np.float32(centre)
    x, y = x - shift * (view == "face"), y - tall * (view == "face")
    cos, sin = scale * np.cos(turn), scale * np.sin(turn)
    x, y = x * cos + y * sin, y * cos - x * sin
    image = _head(face, x, y, track_T4, brows_T, 2 * half / pixels)
    image = image * (1 + face.light[0] * x + face.light[1] * y)
    image = image + face.noise * rng.standard_normal(image.shape, dtype=np.float32)
    return (np.clip(image, 0, 1) * 255).astype(np.uint8)


def _motion(rng, frames, sway):
    """Turn, shift in x and y, and scale, each of shape (T, 1, 1): smooth, of standard deviation
    about `sway`.
    """
    white = rng.standard_normal((4, frames + 60))
    slow = gaussian_filter1d(white, 8, axis=1)[:, 30 : frames + 30]
    slow = slow * np.sqrt(2 * np.sqrt(np.pi) * 8)
    turn, shift, tall, scale = np.float32(slow)[:, :, None, None] * sway
    return turn, 0.5 * shift, 0.5 * tall, 1 + 0.3 * scale


def _head(face, x, y, track_T4, brows_T, pixel):
    """The image without light and noise, layer on layer, with edges a pixel wide."""

    def paint(image, grey, cx, cy, rx, ry):
        return image + _covered(x - cx, y - cy, rx, ry, pixel) * (grey - image)

    opening, width, teeth, tongue = np.float32(track_T4).T[:, :, None, None]
    raised = np.float32(brows_T)[:, None, None]
    image = np.broadcast_to(np.float32(face.back), np.broadcast(x, y).shape)
    image = paint(image, face.hair, 0, -0.15, face.aspect + 0.1, 1.0)
    image = paint(image, face.skin, 0, 0.05, face.aspect, 0.95)
    for side in (-face.eyes, face.eyes):
        image = paint(image, 0.95, side, -0.2, 0.13, 0.07)
        image = paint(image, 0.1, side, -0.2, 0.055, 0.06)
        image = paint(image, face.hair, side, -0.38 - 0.12 * raised, 0.18, face.brows)
    image = paint(image, face.skin - 0.1, 0, 0.12, 0.08, 0.14)
    wide = face.mouth * (0.55 + 0.55 * width)
    image = paint(image, face.skin + face.lips, 0, 0.5, wide, 0.09 + 0.2 * opening)
    inner = np.maximum(0.2 * opening, 1e-3)
    image = paint(image, 0.08, 0, 0.5, wide * 0.85, inner)
    upper, lower = 0.5 - 0.75 * inner, 0.5 + 0.6 * inner
    shown = teeth * _covered(x, y - upper, wide * 0.7, inner * 0.3, pixel)
    image = image + shown * (0.95 - image)
    shown = tongue * _covered(x, y - lower, wide * 0.5, inner * 0.35, pixel)
    return image + shown * (0.55 - image)


def _covered(x, y, rx, ry, pixel):
    """How much of each pixel an ellipse covers, 0 to 1; a thin one covers a part."""
    least = np.minimum(rx, ry)
    r = np.sqrt((x / rx) ** 2 + (y / ry) ** 2)
    return np.clip((1 - r) * least / pixel + 0.5, 0, 1) * np.clip(2 * least / pixel, 0, 1)
