"""Rendered scenes of grass and obstacles, and the colours of their pixels.

The article's maker wrote a thesis on "computer vision to identify grass and obstacles in a
camera stream". His pictures are not at hand. These scenes are drawn by a formula: blades of
grass in greens, with shade, and obstacles (a wooden box, a stone, a red ball) before them, in
light of varying strength. So labels are exact, and nothing follows for a real lawn.

The simple rival is one threshold of `greenness`, the excess green of Woebbecke et al. ("Color
Indices for Weed Identification Under Various Soil, Residue, and Lighting Conditions", 1995).

A pixel is told by hue, saturation and value. Hue is an angle: red lies at both ends of its
range, so `features` gives its cosine and sine, times saturation, and not the number.

Shapes: `P` pixels of a side, `N` pixels, three channels.
"""

import numpy as np

OBSTACLES = {"box": (0.55, 0.36, 0.20), "stone": (0.50, 0.50, 0.52), "ball": (0.80, 0.10, 0.12)}


def scene(seed, side=64):
    """(picture (P, P, 3) float64 from 0 to 1, labels (P, P): 1 is obstacle, 0 is grass).

    One to three obstacles, in shade toward their lower end. Raises ValueError for a side
    below 16, where an obstacle has a few pixels.
    """
    if side < 16:
        raise ValueError(f"a side of {side} pixels; 16 or more are needed")
    rng = np.random.default_rng(seed)
    tall = np.repeat(rng.normal(size=(-(-side // 4), side)), 4, axis=0)[:side]  # blades
    grass = np.array([0.22, 0.45, 0.12]) * (1 + 0.25 * tall[..., None])
    picture = grass + rng.normal(0, 0.03, (side, side, 3))
    labels = np.zeros((side, side), dtype=np.int64)
    down, right = np.mgrid[:side, :side] / side
    for _ in range(rng.integers(1, 4)):
        name = rng.choice([*OBSTACLES])
        y, x, size = *rng.uniform(0.15, 0.85, 2), rng.uniform(0.08, 0.2)
        away = (
            np.maximum(abs(down - y), abs(right - x))
            if name == "box"
            else np.hypot(down - y, right - x)
        )
        inside = away < size
        shade = 1 - 0.5 * (down - y + size).clip(0, 2 * size) / (2 * size)
        colour = np.array(OBSTACLES[name]) * shade[..., None]
        colour = colour + rng.normal(0, 0.05, (side, side, 3))
        picture, labels[inside] = np.where(inside[..., None], colour, picture), 1
    return (picture * rng.uniform(0.7, 1.2)).clip(0, 1), labels


def features(picture):
    """(N, 3): saturation times cosine and sine of the hue, and value, of each pixel in rows.

    Raises ValueError unless the picture is (…, 3) with numbers from 0 to 1.
    """
    rgb = np.asarray(picture, dtype=np.float64)
    if rgb.ndim < 2 or rgb.shape[-1] != 3 or not ((rgb >= 0) & (rgb <= 1)).all():
        raise ValueError(f"a picture of shape {rgb.shape}; (…, 3) with values 0 to 1 is needed")
    from matplotlib.colors import rgb_to_hsv

    hue, saturation, value = rgb_to_hsv(rgb.reshape(-1, 3)).T
    angle = 2 * np.pi * hue
    return np.stack([saturation * np.cos(angle), saturation * np.sin(angle), value], axis=1)


def greenness(picture):
    """(…): 2 g − r − b of each pixel, where r, g and b are shares of their sum, so that the
    strength of the light does not matter: −1 without green, 0 for grey and black, 2 at most."""
    rgb = np.asarray(picture, dtype=np.float64)
    return rgb @ np.array([-1, 2, -1]) / np.maximum(rgb.sum(axis=-1), 1e-9)


def best_cut(scenes, cuts):
    """The cut with the largest mean overlap over `scenes`, pairs of picture and labels, where
    what is less green than the cut counts as an obstacle; the first of equals."""
    greens = [(greenness(picture), labels) for picture, labels in scenes]
    scores = [np.mean([overlap(green < cut, own) for green, own in greens]) for cut in cuts]
    return float(cuts[int(np.argmax(scores))])


def pixels(seeds, side=64):
    """(features (N, 3), labels (N,)) of all pixels of the scenes of these seeds."""
    made = [scene(seed, side) for seed in seeds]
    return (
        np.concatenate([features(picture) for picture, _ in made]),
        np.concatenate([labels.ravel() for _, labels in made]),
    )


def overlap(found, labels):
    """Intersection over union of the obstacles' pixels: 1 where both agree, 0 where they are
    apart; 1 where neither has any."""
    found, labels = np.asarray(found).ravel() == 1, np.asarray(labels).ravel() == 1
    either = (found | labels).sum()
    return float((found & labels).sum() / either) if either else 1.0
