"""Pictures of a whole turnaround by both cameras, with what goes wrong at a real stand.

Each vehicle drives in from the service road, works, and drives out. Frames come every few
seconds; some are dropped, alone or in bursts; a camera may die; camera B's clock is off and
drifts. Truth is kept beside each frame: boxes, numbers, and the true time.
"""

from typing import NamedTuple

import numpy as np

from . import scene
from .scene import CAMERAS, ZONES, Seen, Thing

DRIVE_S = 36.0  # from the service road to a zone


class Visit(NamedTuple):
    """A thing of a kind at its zone from one time to another, in seconds."""

    kind: str
    start: float
    end: float


class Frame(NamedTuple):
    """What a camera delivers: its picture, its own clock, and beside it the truth."""

    camera: str
    clock: float
    picture: np.ndarray
    seen: list[Seen]
    time: float


class Faults(NamedTuple):
    """What goes wrong: shares of frames dropped alone, bursts of so many seconds begun in each
    hour, clock B's offset (s) and drift (parts per million), and when a camera dies (s)."""

    dropped: float = 0.05
    bursts: float = 4.0
    burst_s: float = 30.0
    offset: float = 11.0
    drift_ppm: float = 2000.0
    dies: dict[str, float] = {}


def script(
    visits: list[Visit], arrival: float, departure: float, intruder: float | None = None
):
    """A function of a time that gives the things on the apron. An intruder is a supply cart
    that crosses the stand at that time."""

    def at(time: float) -> list[Thing]:
        things, gone = [], time - departure
        if time > arrival - 40 and gone < 60:
            y = -50 * max(0.0, (arrival - time) / 40) ** 1.6 - 0.06 * max(0.0, gone) ** 1.7
            things.append(Thing("aircraft", 0.0, y, 0.0, 0))
        for number, visit in enumerate(visits, 1):
            late = time - visit.end
            away = max((visit.start - time) / DRIVE_S, late / DRIVE_S, 0.0)
            if visit.kind == "people" and visit.start <= time <= visit.end:
                for walker in range(2):  # two groups on the way between door and terminal
                    along = ((time * 1.2 + walker * 12.0) % 24.0) - 12.0
                    x, y = ZONES["people"]
                    things.append(
                        Thing("people", x + along / 3, y + along / 6, 0, 100 * number + walker)
                    )
            elif visit.kind == "tug" and late > 0 and gone < 60:
                y = ZONES["tug"][1] - 0.06 * max(0.0, gone) ** 1.7
                things.append(Thing("tug", 0.0, y, 0.0, number))
            elif visit.kind == "chocks" and away == 0:
                things.append(Thing("chocks", *ZONES["chocks"], 0.0, number))
            elif visit.kind not in ("people", "chocks") and away < 1:
                things.append(_driving(visit.kind, away, number))
        if intruder is not None and 0 <= time - intruder < 24:
            along = (time - intruder) / 24
            things.append(Thing("supply cart", -22 + 40 * along, -8.0, -1.57, 99))
        return things

    return at


def _driving(kind, away, number):
    x, y = ZONES[kind]
    side = np.sign(x) or 1.0
    far = (side * 30.0, y) if kind != "tug" else (-20.0, 33.0)
    place = (x + (far[0] - x) * away, y + (far[1] - y) * away)
    heading = 0.0 if away == 0 else -side * 1.57
    return Thing(kind, *place, heading, number)


def film(at, end: float, faults: Faults, seed: int, every: float = 6.0):
    """The frames of both cameras in the order of true time. `at` is a `script`."""
    rng = np.random.default_rng(seed)
    light = rng.uniform(0.85, 1.1)
    gaps = {
        c.name: rng.uniform(0, end, rng.poisson(faults.bursts * end / 3600)) for c in CAMERAS
    }
    for time in np.arange(0.0, end, every):
        for camera in CAMERAS:
            gone = time >= faults.dies.get(camera.name, np.inf) or rng.random() < faults.dropped
            if gone or any(
                begin <= time < begin + faults.burst_s for begin in gaps[camera.name]
            ):
                continue
            picture, seen = scene.render(camera, at(time), light, rng)
            clock = time
            if camera.name == "B":
                clock = time * (1 + faults.drift_ppm * 1e-6) + faults.offset
            yield Frame(camera.name, float(clock), picture, seen, float(time))


def examples(count: int, seed: int):
    """(pictures, what they show) to train a detector on: things at, near and on the way to
    their zones, some twice, in another light each time."""
    rng = np.random.default_rng(seed)
    pictures, truths = [], []
    for _ in range(count):
        things = []
        if rng.random() < 0.8:
            y = 0.0 if rng.random() < 0.6 else -50 * rng.random() ** 1.6
            things.append(Thing("aircraft", rng.normal(0, 0.4), y, rng.normal(0, 0.02), 0))
        for number, kind in enumerate(scene.KINDS[1:], 1):
            for again in range(rng.choice(3, p=(0.45, 0.42, 0.13))):
                away = rng.random() if rng.random() < 0.4 else 0.0
                thing = _driving(kind, away, 10 * number + again)
                turn = rng.normal(0, 0.1) if rng.random() < 0.7 else rng.uniform(-3.1, 3.1)
                shift = rng.normal(0, 1.0 if again == 0 else 5.0, 2)
                x, y = thing.x + shift[0], thing.y + shift[1]
                things.append(thing._replace(x=x, y=y, heading=thing.heading + turn))
        camera = CAMERAS[rng.integers(2)]
        picture, seen = scene.render(camera, things, rng.uniform(0.75, 1.2), rng)
        pictures.append(picture)
        truths.append(seen)
    return np.stack(pictures), truths
