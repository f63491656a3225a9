"""What cameras reported, kept before anybody is told, and the board that follows from it.

The board is a function of the journal, whatever the order in which reports came: an event that
arrives late, twice or out of order changes nothing but when it was known.

A camera's clock is corrected by what its posts say: each carries the clock at sending, and
receipt less sending is the clock's error plus the way's delay. The least of the last posts has
the least delay in it.
"""

import json
import math
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from critical_path import EVENTS
from critical_path.prediction import KIND
from event_scores import Event, stamps

IN_THE_WAY = {f"{kind} in the way" for kind in KIND.values()}  # of an aircraft that rolls
RECENT = 20  # posts of a camera whose least delay corrects its clock


class Flight(NamedTuple):
    """A flight, at its gate from `begin` to `end`: what is reported there then is its own.
    `tobt` and `tsat` are inputs, in seconds as those are; no camera writes them."""

    gate: str
    flight: str
    airline: str
    tobt: float
    tsat: float
    begin: float = -math.inf
    end: float = math.inf


class Report(NamedTuple):
    """One event as a camera reported it: its own number, its clock, and the correction."""

    camera: str
    seq: int
    gate: str
    name: str
    clock: float
    shift: float

    @property
    def time(self) -> float:
        """Seconds of the server's clock at which it happened."""
        return self.clock + self.shift


class Refused(ValueError):
    """A post that is not taken, with nothing of it kept."""


class Journal:
    """The reports in a file. Safe to open in several threads, one object in each."""

    def __init__(self, path: str | Path):
        self.table = sqlite3.connect(path, timeout=10)
        self.table.execute("PRAGMA journal_mode = WAL")
        self.table.execute("PRAGMA synchronous = FULL")  # told only once it is on the disk
        self.table.execute(
            "CREATE TABLE IF NOT EXISTS reports (at INTEGER PRIMARY KEY, camera, seq, gate,"
            " name, clock, shift, UNIQUE (camera, gate, seq))"
        )
        self.table.execute(
            "CREATE TABLE IF NOT EXISTS posts (at INTEGER PRIMARY KEY, camera, gate, shift,"
            " came)"
        )

    def close(self) -> None:
        """Close the file."""
        self.table.close()

    def take(self, post: Mapping, gates: Iterable[str], now: float) -> int:
        """How many of a post's events are new; all are kept, or none. Refused for a post that
        is not well formed, and for an event whose number another one has: a camera that counts
        anew would lose it in silence. Nothing is written then."""
        camera, gate, sent, events = _checked(post, gates)
        with self.table:
            self.table.execute(
                "INSERT INTO posts (camera, gate, shift, came) VALUES (?, ?, ?, ?)",
                (camera, gate, now - sent, now),
            )
            self.table.execute(  # only those that correct the clock stay
                "DELETE FROM posts WHERE camera = ? AND gate = ? AND at NOT IN (SELECT at FROM"
                " posts WHERE camera = ? AND gate = ? ORDER BY at DESC LIMIT ?)",
                (camera, gate, camera, gate, RECENT),
            )
            shift = self.clocks()[camera, gate][0]
            rows = [
                (camera, one["seq"], gate, one["name"], one["clock"], shift) for one in events
            ]
            before = self.table.total_changes
            self._unlike(camera, gate, events)
            self.table.executemany(
                "INSERT OR IGNORE INTO reports (camera, seq, gate, name, clock, shift)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )
            return self.table.total_changes - before

    def _unlike(self, camera, gate, events):
        rows = self.table.execute(
            "SELECT seq, name, clock FROM reports WHERE camera = ? AND gate = ?", (camera, gate)
        )
        had = {seq: about for seq, *about in rows}
        for one in events:
            about = [one["name"], one["clock"]]
            if had.setdefault(one["seq"], about) != about:
                raise Refused(f"{one['seq']} was another event; {max(had) + 1} is free")

    def clocks(self) -> dict[tuple[str, str], tuple[float, float]]:
        """{(camera, gate): (its correction in seconds, when it was last heard of)}."""
        rows = self.table.execute(
            "SELECT camera, gate, min(shift), max(came) FROM posts GROUP BY camera, gate"
        )
        return {(camera, gate): (shift, came) for camera, gate, shift, came in rows}

    def reports(self, gates: Iterable[str]) -> list[Report]:
        """The reports of these gates, in the order in which they were kept."""
        gates = list(gates)
        marks = ",".join("?" * len(gates))
        rows = self.table.execute(
            f"SELECT camera, seq, gate, name, clock, shift FROM reports WHERE gate IN ({marks})"
            " ORDER BY at",
            gates,
        )
        return [Report(*row) for row in rows]


def _checked(post, gates):
    if not isinstance(post, Mapping) or set(post) != {"camera", "gate", "sent", "events"}:
        raise Refused("camera, gate, sent and events are wanted, and nothing else")
    camera, gate, sent, events = (post[name] for name in ("camera", "gate", "sent", "events"))
    if not isinstance(camera, str) or gate not in list(gates):
        raise Refused("no such camera, or no such gate")
    if not _number(sent) or not isinstance(events, list) or len(events) > 500:
        raise Refused("sent is a number of seconds, events a list of at most 500")
    for one in events:
        if not isinstance(one, Mapping) or set(one) != {"seq", "name", "clock"}:
            raise Refused("an event has seq, name and clock")
        if type(one["seq"]) is not int or not 0 < one["seq"] < 2**53:
            raise Refused("seq counts a camera's events from 1 on")
        if one["name"] not in (*EVENTS, *IN_THE_WAY) or not _number(one["clock"]):
            raise Refused("an event is one of the known names at a number of seconds")
    return camera, gate, float(sent), events


def _number(value):
    return type(value) in (int, float) and math.isfinite(value) and abs(value) < 1e12


def own(flights: Iterable[Flight], reports: Iterable[Report]) -> list[Report]:
    """Those of the reports that tell of one of these flights: at its gate, in its time."""
    return [
        one
        for one in reports
        if any(f.gate == one.gate and f.begin <= one.time < f.end for f in flights)
    ]


def board(flights: Iterable[Flight], reports: Iterable[Report]) -> dict[str, dict]:
    """{flight: what is known of it}: the same for every order of the reports.

    Of an event that several reports tell, the earliest start and the latest end count; who told
    it stays with it. What was in the way of the rolling aircraft is an alert, and no event.
    """
    reports, found = list(reports), {}
    for flight in flights:
        events, by_name = [], {}
        for one in own([flight], reports):
            by_name.setdefault(one.name, []).append(one)
        for name, told in by_name.items():
            pick = max if name.endswith(" end") else min
            cameras = "".join(sorted({one.camera for one in told}))
            time = pick(one.time for one in told)
            events.append(Event(name, time, time, cameras))
        events.sort(key=lambda one: (one.time, one.name))
        rows = [
            {"name": e.name, "time": round(e.time, 1), "cameras": e.cameras} for e in events
        ]
        alerts = [row for row in rows if row["name"] in IN_THE_WAY]
        rows = [row for row in rows if row not in alerts]
        inputs = {"tobt": flight.tobt, "tsat": flight.tsat}
        known = {"gate": flight.gate, "events": rows, "alerts": alerts, "inputs": inputs}
        found[flight.flight] = {**known, "stamps": stamps(events)._asdict()}
    return found


def text(value: object) -> str:
    """JSON with sorted names, so that equal boards are equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
