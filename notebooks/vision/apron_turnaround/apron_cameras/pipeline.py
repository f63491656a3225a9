"""From frames to events: find, track, set the clocks, and watch the zones.

Every step can be left out or broken by itself: one camera, raw clocks, a camera that dies.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from critical_path import VISITS, Turnaround
from event_scores import Event, Stand, Thing

from . import detector, fusion, scene
from .footage import Frame, Visit, script
from .tracker import Sighting, Tracker


class Watched(NamedTuple):
    """What came of frames: for each, in order, its camera, clock, truth and things found; and
    the tracked things of each camera."""

    frames: list[Frame]
    found: list[list[detector.Found]]
    sightings: dict[str, list[Sighting]]


ARRIVAL_S = 90.0  # of a film, when the aircraft stands


def staged(one: Turnaround, intruder: float | None = None):
    """(the script of a turnaround, its true events in seconds of the film, the film's end)."""
    true = {name: ARRIVAL_S + 60 * minute for name, minute in one.events.items()}
    off = true["off block"]
    visits = [
        Visit(kind, true[f"{name} start"], true.get(f"{name} end", off))
        for name, (kind, *_) in VISITS.items()
    ]
    return script(visits, ARRIVAL_S, off, intruder), true, off + 60


def watch(frames: Iterable[Frame], network, batch: int = 32) -> Watched:
    """Find and track, camera by camera. Pictures are let go of once they are looked at."""
    kept, found, waiting = [], [], []
    for frame in frames:
        waiting.append(frame.picture)
        kept.append(frame._replace(picture=None))
        if len(waiting) == batch:
            found += detector.find(network, np.stack(waiting))
            waiting = []
    if waiting:
        found += detector.find(network, np.stack(waiting))
    sightings = {}
    for camera in scene.CAMERAS:
        tracker, rows = Tracker(camera), []
        for frame, things in zip(kept, found, strict=True):
            if frame.camera == camera.name:
                rows += tracker.step(frame.clock, things)
        sightings[camera.name] = rows
    return Watched(kept, found, sightings)


def set_clocks(watched: Watched) -> fusion.Clock:
    """B's clock by A's, from the ways that both saw."""
    return fusion.clock(watched.sightings["A"], watched.sightings["B"])


def events(
    watched: Watched, clock: fusion.Clock, cameras: Sequence[str] = ("A", "B")
) -> tuple[list[Event], list[Event]]:
    """(events, things in the way) that these cameras' sightings give together, in A's time."""
    by_frame = {}
    for camera in cameras:
        for one in watched.sightings[camera]:
            thing = Thing(one.kind, one.x, one.y, one.speed)
            by_frame.setdefault((camera, one.clock), []).append(thing)
    looks = [
        (clock.true(one.clock) if one.camera == "B" else one.clock, one.camera, one.clock)
        for one in watched.frames
        if one.camera in cameras
    ]
    seen = fusion.sight()
    stand = Stand({name: seen[name] for name in cameras}, scene.ZONES, scene.RADIUS)
    for time, camera, own in sorted(looks):
        stand.look(time, camera, by_frame.get((camera, own), []))
    return stand.events, stand.intruders


def identities(watched: Watched, camera: str) -> tuple[list, list]:
    """(true, predicted) numbers and boxes of each of a camera's frames, for `idf1`: things that
    are at least as visible as the network was asked for."""
    by_clock = {}
    for one in watched.sightings[camera]:
        by_clock.setdefault(one.clock, []).append((one.number, one.box))
    true, predicted = [], []
    for frame in watched.frames:
        if frame.camera == camera:
            shown = [s for s in frame.seen if s.visible >= detector.LEAST_VISIBLE]
            true.append(([s.number for s in shown], [s.box for s in shown]))
            rows = by_clock.get(frame.clock, [])
            predicted.append(([number for number, _ in rows], [box for _, box in rows]))
    return true, predicted
