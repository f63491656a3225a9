"""Rendered scenes of a still camera: persons, dogs, leaves, clouds, and a planted object.

No picture is a photograph, and the object is a plate with a chequered pattern: the article's is
a firearm, which nobody needs to see to count what a gate loses. A *clip* is a row of grey
frames with its truth, and each clip has a place of its own: ground, leaves, clouds, who walks
where, how large and how bright. Persons have any height from far to near, and no plate is as
clear as another; one that is carried turns and is half hidden, so a detector may miss it. A
clip has one *event*, the frames in which the plate is in view:

    carried   a person walks through, and it shows for a few frames
    left      a person brings it and goes; it stays a while
    thrown    it comes to lie there, and nobody is ever in view
    none      there is no plate

`B` clips, `T` frames, `H` rows, `W` columns.
"""

from dataclasses import dataclass

import numpy as np

HEIGHT, WIDTH, FRAMES_A_SECOND = 48, 64, 5
KINDS = ("carried", "left", "thrown")
SIDE = 6  # pixels of the plate
PLATE = np.where((np.indices((SIDE, SIDE)) // 2).sum(0) % 2, 1.0, -1.0)
NOISE = 8.0  # grey levels, of the sensor
CONTRAST = (12.0, 30.0)  # grey levels of a plate, drawn for each event
HIDDEN = 0.4  # of its contrast a carried plate keeps at least, drawn for each frame


@dataclass(frozen=True)
class Clip:
    """Frames (T, H, W) of bytes, and what is in view: `persons` and `plate`, (T,) of bool."""

    frames: np.ndarray
    persons: np.ndarray
    plate: np.ndarray
    kind: str

    def __repr__(self) -> str:
        seen = np.flatnonzero(self.plate)
        where = f"frames {seen[0]} to {seen[-1]}" if len(seen) else "no frame"
        return f"Clip of {len(self.frames)} frames, a plate {self.kind} in {where}"


def render(seed: int, kind: str, length: int = 240) -> Clip:
    """A clip; the seed draws all of it.

    >>> render(0, "left").frames.shape
    (240, 48, 64)
    """
    if kind not in (*KINDS, "none") or length < 150:
        raise ValueError(
            f"{kind!r}, {length} frames; allowed are {KINDS} or 'none', 150 or more"
        )
    rng = np.random.default_rng([seed, ("none", *KINDS).index(kind)])
    contrast = rng.uniform(*CONTRAST)
    scene = _scenery(rng, length)
    persons, plate = np.zeros(length, bool), np.zeros(length, bool)
    carrier = int(rng.integers(length // 3, length // 2))  # when the plate comes
    for start in (int(rng.integers(20, 50)), int(rng.integers(length - 60, length - 40))):
        persons |= _walk(scene, rng, start, tall=True)[0]
    _walk(scene, rng, int(rng.integers(50, 90)), tall=False)
    if kind in ("carried", "left"):
        there, path = _walk(scene, rng, carrier, tall=True)
        persons |= there
        bring = _carry if kind == "carried" else _leave
        plate = bring(scene, rng, path, contrast)
    elif kind == "thrown":
        row, column = _ground(rng), int(rng.integers(8, WIDTH - 14))
        plate[carrier : carrier + int(rng.integers(8, 60))] = True
        _lay(scene, np.flatnonzero(plate), row, column, contrast)
    noisy = scene + rng.normal(0, NOISE, scene.shape)
    return Clip(np.clip(noisy, 0, 255).astype(np.uint8), persons, plate, kind)


def _scenery(rng, length: int) -> np.ndarray:
    """Ground and wall, leaves that move in a corner, clouds that dim all of it."""
    rows = np.linspace(90, 150, HEIGHT)[:, None] + rng.normal(0, 6, (HEIGHT, WIDTH))
    scene = np.repeat(rows[None], length, axis=0)
    time = np.arange(length)[:, None, None]
    phase = rng.uniform(0, 6.28, (12, 16))
    scene[:, :12, :16] += 18 * np.sin(1.7 * time + phase)
    clouds = 12 * np.sin(time / rng.uniform(40, 80) + rng.uniform(0, 6.28))
    return scene + clouds


def _walk(scene, rng, start: int, tall: bool):
    """Draw who walks through, and return when, and where the feet and the middle are."""
    length, near = len(scene), rng.random() < 0.7
    feet = int(rng.integers(34, HEIGHT - 1)) if near else int(rng.integers(26, 34))
    height = feet // 2 - 6  # who is near stands low in the picture, and is tall: 7 to 17 rows
    height, width = (height, max(2, 2 * height // 5)) if tall else (5, 11)
    speed, grey = rng.uniform(1.2, 4.0), rng.choice([-1, 1]) * rng.uniform(25, 60)
    there, path = np.zeros(length, bool), {}
    for at in range(start, length):
        middle = int(speed * (at - start)) - width
        left, right = max(middle - width // 2, 0), min(middle + width // 2, WIDTH)
        if middle - width // 2 >= WIDTH:
            break
        if right > left:
            scene[at, feet - height : feet, left:right] += grey
            path[at] = (feet, middle, height)
            there[at] = True
    return there, path


def _ground(rng) -> int:
    return int(rng.integers(26, HEIGHT - SIDE - 1))


def _lay(scene, frames, row: int, column: int, contrast: float) -> None:
    scene[frames, row : row + SIDE, column : column + SIDE] += contrast * PLATE


def _carry(scene, rng, path: dict, contrast: float) -> np.ndarray:
    """The plate shows at the side of who walks, now more, now less, for a few frames."""
    seen = np.zeros(len(scene), bool)
    inside = [at for at, (_, middle, _) in path.items() if 2 <= middle <= WIDTH - SIDE - 2]
    begin = int(rng.integers(len(inside) // 2))
    for at in inside[begin : begin + int(rng.integers(3, 9))]:
        feet, middle, height = path[at]
        seen[at] = True
        row = feet - max(height // 2, SIDE)
        _lay(scene, [at], row, middle + 2, rng.uniform(HIDDEN, 1) * contrast)
    return seen


def _leave(scene, rng, path: dict, contrast: float) -> np.ndarray:
    """The plate is put down in the middle of the way, and stays."""
    seen, frames = np.zeros(len(scene), bool), sorted(path)
    put = frames[len(frames) // 2]
    feet, middle, _ = path[put]
    stays = int(rng.integers(30, 90))
    seen[put : put + stays] = True
    column = min(max(middle, 0), WIDTH - SIDE)
    _lay(scene, np.flatnonzero(seen), feet - SIDE, column, contrast)
    return seen
