"""Two cameras, one apron: whose clock is off by how much, and who can see what.

The homographies put both cameras' tracks on one plane, so a thing that moves in sight of both
is in one place at one time. Shifted clocks show as a shift between the two ways; the shift that
brings the ways together is the clocks' difference then. A line through such differences gives
offset and drift. Camera A's clock is taken for true: two clocks do not tell which one errs.
"""

import itertools
from typing import NamedTuple

import numpy as np

from . import scene
from .tracker import Sighting

MOST_S = 60.0  # clocks that are further apart are not brought together
SEES = 0.25  # of a thing at its place beside an aircraft, for a camera to be asked about it


class Clock(NamedTuple):
    """B's clock = (1 + drift) × A's + offset, from `pairs` ways that both saw."""

    offset: float = 0.0
    drift: float = 0.0
    pairs: int = 0

    def true(self, clock: float) -> float:
        """A's time at a reading of B's clock."""
        return (clock - self.offset) / (1 + self.drift)


def sight() -> dict[str, set[str]]:
    """{camera: the kinds whose zone it sees beside a parked aircraft}, by rendering each."""
    found = {}
    for camera in scene.CAMERAS:
        found[camera.name] = set()
        for kind in scene.KINDS:
            things = [scene.Thing("aircraft", 0, 0, 0, 0)]
            if kind != "aircraft":
                things.append(scene.Thing(kind, *scene.ZONES[kind], 0, 1))
            seen = scene.render(camera, things)[1]
            if any(one.kind == kind and one.visible >= SEES for one in seen):
                found[camera.name].add(kind)
    return found


def ways(sightings: list[Sighting], least_m: float = 8.0) -> list[tuple[str, np.ndarray]]:
    """(kind, rows of clock, x, y) of each track that moves at least so far."""
    tracks = {}
    for one in sightings:
        tracks.setdefault((one.camera, one.kind, one.number), []).append(
            (one.clock, one.x, one.y)
        )
    found = []
    for (_, kind, _), rows in tracks.items():
        rows = np.array(rows)
        steps = np.linalg.norm(np.diff(rows[:, 1:], axis=0), axis=1)
        moves = np.flatnonzero(steps > 1.0)
        for run in np.split(moves, np.flatnonzero(np.diff(moves) > 3) + 1):
            if len(run) >= 3 and steps[run].sum() >= least_m:
                found.append((kind, rows[max(run[0] - 1, 0) : run[-1] + 3]))
    return found


def shift(mine: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """(seconds that the other clock is ahead, metres that are then left between the ways)."""
    best = (0.0, np.inf)
    for ahead in np.arange(-MOST_S, MOST_S + 0.25, 0.5):
        clock = other[:, 0] - ahead
        inside = (clock >= mine[0, 0]) & (clock <= mine[-1, 0])
        if inside.sum() >= 3 and inside.mean() >= 0.5:
            there = [np.interp(clock[inside], mine[:, 0], mine[:, axis]) for axis in (1, 2)]
            left = np.linalg.norm(np.column_stack(there) - other[inside, 1:], axis=1).mean()
            if left < best[1]:
                best = (float(ahead), float(left))
    return best


def clock(a: list[Sighting], b: list[Sighting], most_m: float = 2.5) -> Clock:
    """B's clock by A's, from all ways of a kind that both saw; Clock() where there are none.

    The line goes through the median of the slopes between ways that lie ten minutes apart
    (Theil and Sen), so that a pair of two different things does not bend it.
    """
    pairs = []
    mine, others = ways(a), ways(b)
    for (kind, one), (its, other) in itertools.product(mine, others):
        if kind == its != "people" and abs(one[0, 0] - other[0, 0]) < 2 * MOST_S:
            ahead, left = shift(one, other)
            if left <= most_m:
                pairs.append((one[:, 0].mean(), ahead))
    if not pairs:
        return Clock()
    at, ahead = np.array(pairs).T
    slopes = [
        (ahead[j] - ahead[i]) / (at[j] - at[i])
        for i, j in itertools.combinations(range(len(at)), 2)
        if abs(at[j] - at[i]) > 600
    ]
    drift = float(np.median(slopes)) if slopes else 0.0
    return Clock(float(np.median(ahead - drift * at)), drift, len(pairs))
