"""Numbers for the things that a camera sees, kept from frame to frame, on the apron in metres.

Each foot goes through the homography; then a track goes on at its own speed, and is given the
nearest thing of its kind, all pairs at once by the Hungarian method. A filter with two fixed
gains corrects place and speed (Kalata 1984): Kalman's, once its gains have settled. Time is the
clock's, not a count of frames, so a dropped frame is only a longer step.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from .detector import Found
from .scene import Camera, to_ground

GATE_M, PER_S = 3.0, 1.4  # how far from its prediction a thing may be, and more for each second
FORGET_S = 45.0  # a thing that nobody saw for so long gets a new number
PLACE_GAIN, SPEED_GAIN = 0.7, 0.6
REACH = 70.0  # metres from the stand beyond which a foot is no foot


class Sighting(NamedTuple):
    """A tracked thing in one frame: the camera's clock (s), the track's number, metres, m/s."""

    camera: str
    clock: float
    kind: str
    number: int
    x: float
    y: float
    speed: float
    box: tuple[float, float, float, float]


class Tracker:
    """One camera's tracks. `step` takes the frames in the order of the camera's clock."""

    def __init__(self, camera: Camera):
        self.camera, self.next, self.clock = camera, 1, -np.inf
        self.place, self.speed = np.zeros((0, 2)), np.zeros((0, 2))
        self.last, self.hits, self.number = np.zeros(0), np.zeros(0, int), np.zeros(0, int)
        self.kind = np.zeros(0, object)

    def step(self, clock: float, found: list[Found]) -> list[Sighting]:
        """This frame's things with their numbers; a new one is told from its first frame on.
        ValueError for a frame that is not later than the last."""
        if clock <= self.clock:
            raise ValueError(
                f"a frame at {clock} s after one at {self.clock} s: sort them first"
            )
        self.clock = clock
        feet = to_ground(self.camera, [one.foot for one in found])
        keep = np.hypot(*feet.T) < REACH
        found = [one for one, good in zip(found, keep, strict=True) if good]
        feet, kinds = feet[keep], np.array([one.kind for one in found], object)
        fresh = clock - self.last <= FORGET_S
        self._only(fresh)
        waited = np.minimum(clock - self.last, 12.0)[:, None]  # no track runs on for longer
        ahead = self.place + self.speed * waited
        apart = np.linalg.norm(ahead[:, None] - feet[None], axis=2)
        gate = GATE_M + PER_S * waited
        allowed = (apart <= gate) & (self.kind[:, None] == kinds[None])
        rows, columns = linear_sum_assignment(np.where(allowed, apart, 1e6))
        good = allowed[rows, columns]
        rows, columns = rows[good], columns[good]
        self._correct(clock, rows, feet[columns], ahead[rows])
        new = np.setdiff1d(np.arange(len(found)), columns)
        self._begin(clock, feet[new], kinds[new])
        order = np.concatenate([rows, np.arange(len(self.place) - len(new), len(self.place))])
        told = zip(order.astype(int), [*columns, *new], strict=True)
        return [self._told(clock, row, found[column]) for row, column in told]

    def _only(self, keep):
        for name in ("place", "speed", "last", "hits", "number", "kind"):
            setattr(self, name, getattr(self, name)[keep])

    def _correct(self, clock, rows, seen, ahead):
        off, step = seen - ahead, (clock - self.last[rows])[:, None]
        second = (self.hits[rows] == 1)[:, None]  # the first two places give the first speed
        moved = (seen - self.place[rows]) / step
        self.place[rows] = ahead + np.where(second, 1.0, PLACE_GAIN) * off
        corrected = self.speed[rows] + SPEED_GAIN * off / step
        self.speed[rows] = np.where(second, moved, corrected)
        self.last[rows] = clock
        self.hits[rows] += 1

    def _begin(self, clock, feet, kinds):
        many = len(feet)
        self.place = np.vstack([self.place, feet])
        self.speed = np.vstack([self.speed, np.zeros((many, 2))])
        self.last = np.append(self.last, np.full(many, clock))
        self.hits = np.append(self.hits, np.ones(many, int))
        self.number = np.append(self.number, np.arange(self.next, self.next + many))
        self.kind = np.append(self.kind, kinds)
        self.next += many

    def _told(self, clock, row, found):
        speed = float(np.hypot(*self.speed[row]))
        about = (self.camera.name, clock, found.kind, int(self.number[row]))
        return Sighting(*about, *map(float, self.place[row]), speed, found.box)
