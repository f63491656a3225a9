"""A stand for one aircraft as two cameras see it: things on the ground, cameras, pictures.

Everything is a set of boxes on a flat apron, x across and y along it in metres, the aircraft's
nose towards +y. A camera is a pinhole. What lies on the ground is mapped to the picture, and
back, by a homography: three columns of the camera's matrix (Hartley and Zisserman, chapter 8).

What the scene lacks is listed in the chapter's map: weather, night, shadows, lens distortion.

Shapes: pictures are (HIGH, WIDE, 3) uint8; boxes are (left, top, right, bottom) in pixels.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

WIDE, HIGH = 192, 112
KINDS = (
    "aircraft",
    "chocks",
    "stairs",
    "people",
    "fuel truck",
    "belt loader",
    "catering truck",
    "cleaning van",
    "supply cart",
    "tug",
)
ZONES = {  # where each kind stands at work, in metres; chocks and tug at the nose
    "aircraft": (0.0, 0.0),
    "chocks": (1.5, 20.4),
    "stairs": (-5.5, 11.5),
    "people": (-15.0, 13.0),
    "fuel truck": (12.0, -1.0),
    "belt loader": (6.0, -11.5),
    "catering truck": (6.5, 6.5),
    "cleaning van": (-7.0, -11.0),
    "supply cart": (-10.0, -2.0),
    "tug": (0.0, 25.5),
}
RADIUS = 5.0  # metres around a zone's place that count as in it
_FUSELAGE = [(0, y, 1.6, 6.2, 3.8, 3.8, 1.0) for y in (-15.5, -9.3, -3.1, 3.1, 9.3, 15.5)]
_WINGS = [(side * 8.5, -1.0, 3.0, 5.0, 13.0, 0.5, 0.85) for side in (-1, 1)]
_FIN = [(0, -17.0, 5.0, 4.5, 0.7, 6.0, 0.75), (0, -17.0, 5.2, 3.0, 11.0, 0.4, 0.8)]
PARTS = {  # boxes of a kind: x, y, bottom, length (y), width (x), height, shade
    "aircraft": [*_FUSELAGE, *_WINGS, *_FIN],
    "chocks": [(0, 0, 0, 1.6, 1.6, 1.5, 1.0)],
    "stairs": [(0, 0, 0, 4.5, 2.2, 1.2, 0.8), (0.8, 0.6, 1.2, 2.6, 2.0, 2.2, 1.0)],
    "people": [(-0.9, 0.5, 0, 0.8, 0.8, 1.8, 1.0), (0.8, -0.6, 0, 0.8, 0.8, 1.8, 0.8)],
    "fuel truck": [(0, -0.8, 0.6, 6.4, 2.6, 2.6, 1.0), (0, 3.4, 0.3, 1.8, 2.5, 2.6, 0.7)],
    "belt loader": [(0, 0, 0, 6.5, 1.8, 0.9, 0.8), (0, 0.8, 0.9, 5.5, 1.0, 1.3, 1.1)],
    "catering truck": [(0, -0.6, 1.6, 5.6, 2.6, 3.4, 1.0), (0, 2.6, 0, 1.8, 2.4, 2.6, 0.6)],
    "cleaning van": [(0, 0, 0.2, 4.8, 2.1, 2.2, 1.0)],
    "supply cart": [(0, 0.9, 0, 1.6, 1.5, 1.7, 0.7), (0, -1.1, 0.3, 2.0, 1.7, 1.0, 1.0)],
    "tug": [(0, 0, 0.2, 5.4, 2.7, 1.3, 1.0), (0, -1.2, 1.5, 1.4, 1.9, 1.1, 0.7)],
}
COLOURS = {
    "aircraft": (226, 228, 232),
    "chocks": (238, 120, 30),
    "stairs": (150, 160, 178),
    "people": (226, 222, 60),
    "fuel truck": (60, 140, 72),
    "belt loader": (196, 168, 60),
    "catering truck": (188, 196, 216),
    "cleaning van": (84, 128, 200),
    "supply cart": (150, 96, 60),
    "tug": (206, 62, 50),
}


class Thing(NamedTuple):
    """One thing: its kind, place in metres, heading in radians (0 is +y), number."""

    kind: str
    x: float
    y: float
    heading: float = 0.0
    number: int = 0


class Seen(NamedTuple):
    """What a picture truly shows of a thing: its box, the middle of its footprint, both in
    pixels, and the share of it that nothing hides."""

    number: int
    kind: str
    box: tuple[float, float, float, float]
    foot: tuple[float, float]
    visible: float


class Camera(NamedTuple):
    """A pinhole camera at `place`, looking at `target` (metres); `focal` in pixels."""

    name: str
    place: tuple[float, float, float]
    target: tuple[float, float, float]
    focal: float = 185.0

    def matrix(self) -> np.ndarray:
        """The 3 × 4 matrix from points (x, y, z, 1) to pixels times depth."""
        ahead = np.subtract(self.target, self.place)
        ahead /= np.linalg.norm(ahead)
        right = np.cross(ahead, (0, 0, 1.0))
        right /= np.linalg.norm(right)
        turn = np.stack([right, np.cross(ahead, right), ahead])
        inside = np.array([[self.focal, 0, WIDE / 2], [0, self.focal, HIGH / 2], [0, 0, 1]])
        return inside @ np.column_stack([turn, -turn @ self.place])

    def ground(self) -> np.ndarray:
        """The homography from points (x, y, 1) of the apron to the picture."""
        return self.matrix()[:, [0, 1, 3]]


CAMERAS = (
    Camera("A", (-44.0, 30.0, 17.0), (-3.0, 2.5, 2.5)),
    Camera("B", (44.0, -24.0, 17.0), (3.0, 2.5, 2.5)),
)


def to_picture(camera: Camera, points: np.ndarray) -> np.ndarray:
    """(N, 2) pixels of (N, 2) points on the apron."""
    return _mapped(camera.ground(), points)


def to_ground(camera: Camera, pixels: np.ndarray) -> np.ndarray:
    """(N, 2) metres on the apron of (N, 2) pixels: the homography turned round."""
    return _mapped(np.linalg.inv(camera.ground()), pixels)


def _mapped(matrix, points):
    points = np.asarray(points, float).reshape(-1, 2)
    made = np.column_stack([points, np.ones(len(points))]) @ matrix.T
    return made[:, :2] / made[:, 2:]


def _corners(thing, part):
    x, y, low, length, width, height, _ = part
    sides = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * (width / 2, length / 2) + (x, y)
    cos, sin = math.cos(thing.heading), math.sin(thing.heading)
    flat = sides @ np.array([[cos, sin], [-sin, cos]]) + (thing.x, thing.y)
    return np.vstack([np.column_stack([flat, np.full(4, z)]) for z in (low, low + height)])


_FACES = [(4, 5, 6, 7), (0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7)]
_SHADES = (1.0, 0.62, 0.78, 0.66, 0.74)  # the roof, then the four sides


def _fill(points):
    """The rows, columns and mask of a convex polygon's pixels; None for one that is outside."""
    low = np.clip(np.floor(points.min(0)), 0, (WIDE, HIGH)).astype(int)
    high = np.clip(np.ceil(points.max(0)) + 1, 0, (WIDE, HIGH)).astype(int)
    if (high <= low).any():
        return None
    u, v = np.meshgrid(np.arange(low[0], high[0]), np.arange(low[1], high[1]))
    step = np.roll(points, -1, 0) - points
    side = step[:, 0, None, None] * (v - points[:, 1, None, None])
    side = side - step[:, 1, None, None] * (u - points[:, 0, None, None])
    mask = (side >= 0).all(0) | (side <= 0).all(0)
    return slice(low[1], high[1]), slice(low[0], high[0]), mask


@functools.cache
def _apron(camera):
    """The empty apron: concrete, the grass beyond it, the line that a pilot follows."""
    u, v = np.meshgrid(np.arange(WIDE) + 0.5, np.arange(HIGH) + 0.5)
    place = to_ground(camera, np.column_stack([u.ravel(), v.ravel()])).reshape(HIGH, WIDE, 2)
    x, y = place[..., 0], place[..., 1]
    made = np.full((HIGH, WIDE, 3), (118.0, 120.0, 122.0))
    made[((x // 7.5 + y // 7.5) % 2) == 0] += 5  # slabs
    made[abs(x) < 0.5] = (196, 180, 70)
    made[(abs(y - 33) < 3.5) | (abs(x + 26) < 3)] = (92, 93, 96)  # service roads
    return made


def render(
    camera: Camera, things: list[Thing], light: float = 1.0, rng=None
) -> tuple[np.ndarray, list[Seen]]:
    """The picture (HIGH, WIDE, 3) and what it shows of each thing, from the farthest box to
    the nearest. `light` scales all; `rng` (a NumPy generator) adds the sensor's noise.
    """
    matrix, place = camera.matrix(), np.array(camera.place)
    parts = [
        (thing, part, _corners(thing, part)) for thing in things for part in PARTS[thing.kind]
    ]
    parts.sort(key=lambda one: -np.linalg.norm(one[2].mean(0) - place))
    picture, owner = _apron(camera).copy(), np.full((HIGH, WIDE), -1)
    whole = {thing.number: np.zeros((HIGH, WIDE), bool) for thing in things}
    reach = {thing.number: [] for thing in things}
    for thing, part, corners in parts:
        flat = np.column_stack([corners, np.ones(8)]) @ matrix.T
        pixels = flat[:, :2] / flat[:, 2:]
        reach[thing.number].append(pixels)
        colour = np.array(COLOURS[thing.kind]) * part[6]
        for face, shade in zip(_FACES, _SHADES, strict=True):
            a, b, c = corners[face[0]], corners[face[1]], corners[face[3]]
            out = np.cross(b - a, c - a)
            if out @ (place - a) <= 0 or (spot := _fill(pixels[list(face)])) is None:
                continue
            rows, columns, mask = spot
            picture[rows, columns][mask] = colour * shade
            owner[rows, columns][mask] = thing.number
            whole[thing.number][rows, columns] |= mask
    seen = []
    for thing in things:
        full = whole[thing.number].sum()
        if full:
            points = np.clip(np.vstack(reach[thing.number]), 0, (WIDE, HIGH))
            box = (*points.min(0), *points.max(0))
            foot = tuple(to_picture(camera, [(thing.x, thing.y)])[0])
            visible = (owner == thing.number).sum() / full
            seen.append(Seen(thing.number, thing.kind, box, foot, float(visible)))
    picture *= light
    if rng is not None:
        picture += rng.normal(0, 5, picture.shape)
    return np.clip(picture, 0, 255).astype(np.uint8), seen
