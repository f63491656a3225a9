"""From things in zones to the time stamps of a turnaround: a state for each zone, in order.

The stamps are those of airport collaborative decision making (EUROCONTROL 2017). What a camera
can see: AIBT (in block), ACGT (ground handling begins), a proxy of ASBT (boarding begins:
people walk a second time), AOBT (off block). ARDT (ready) is inferred: all have left and the
tug is there. TOBT and TSAT are somebody's decisions, and inputs: a type of their own, which
nothing here writes.

A zone that no living camera sees keeps its state. Nothing ends because nobody looked.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

VISIT = {
    "chocks": "chocks",
    "stairs": "stairs",
    "belt loader": "bags",
    "cleaning van": "cleaning",
    "catering truck": "catering",
    "fuel truck": "fuel",
    "supply cart": "restocking",
    "tug": "tug",
}
GAP_S = {"people": 75.0}  # so long unseen, under looks, before something has ended
PLAIN_GAP_S, STILL_MPS, STILL_M, BLOCK_M = 32.0, 0.35, 1.6, 2.0
INBOUND_S = 15.0  # for so long an aircraft that was seen to come is still coming
SETTLES_S = 40.0  # after on block, in which an aircraft cannot leave
SERVICES = ("deboarding", "bags", "cleaning", "catering", "fuel", "restocking", "boarding")


class Event(NamedTuple):
    """Something that happened at `time`, was known from `told` on, and who saw it ("AB")."""

    name: str
    time: float
    told: float
    cameras: str


class Thing(NamedTuple):
    """What a camera says of one thing in one frame: kind, metres, metres a second."""

    kind: str
    x: float
    y: float
    speed: float = 0.0


class Stamps(NamedTuple):
    """Seconds of the standard time stamps; None for one that is not known (yet)."""

    aibt: float | None
    acgt: float | None
    asbt_proxy: float | None
    ardt_inferred: float | None
    aobt: float | None


class Inputs(NamedTuple):
    """What airline and air traffic control decided, in seconds. Cameras never write these."""

    tobt: float
    tsat: float


class _Zone:
    """One kind at its place: absent, perhaps come, present, perhaps gone."""

    def __init__(self, gap):
        self.gap, self.since, self.first, self.last = gap, None, None, None
        self.missed, self.gone, self.where, self.saw = 0, None, None, set()

    def look(self, time, camera, spot, moves):
        """'start', 'end' or None, after a look that found the thing at `spot`, or not there."""
        if spot is not None:
            self.gone, self.missed = None, 0
            near = self.where is None or moves or _apart(self.where, spot) <= STILL_M
            self.last = time
            if self.since is None and (self.first is None or not near):
                self.first, self.where, self.saw = time, spot, {camera}
            elif self.since is None and time > self.first:
                self.since = self.first
                self.saw.add(camera)
                return "start"
            self.saw.add(camera)
            return None
        if self.since is None:
            self.first = self.where = None
            return None
        self.missed += 1
        self.gone = time if self.gone is None else self.gone
        if self.missed >= 2 and time - self.last >= self.gap:
            self.since = self.first = self.where = None
            return "end"
        return None


class Stand:
    """The state machine of one stand. `sight`: {camera: kinds whose zone it sees}; `zones`:
    {kind: (x, y)}. `look` takes one frame's things, in the order of time, and gives the events
    that are known from this frame on."""

    def __init__(
        self,
        sight: Mapping[str, Iterable[str]],
        zones: Mapping[str, tuple[float, float]],
        radius: float = 5.0,
    ):
        self.sight, self.places, self.radius = sight, zones, radius
        self.zones = {kind: _Zone(GAP_S.get(kind, PLAIN_GAP_S)) for kind in zones}
        self.events, self.walks, self.on, self.off, self.time = [], 0, None, None, -float("inf")
        self.intruders, self.inbound = [], -float("inf")

    def look(self, time: float, camera: str, things: Iterable[Thing]) -> list[Event]:
        """ValueError for a frame that is older than one before: a log is sorted first."""
        if time < self.time:
            raise ValueError(f"a frame of {time} s after one of {self.time} s: sort them first")
        self.time, things = time, list(things)
        told = self._aircraft(time, camera, things)
        if self.on is None:
            self._intrusion(time, camera, things)
        for kind in self.zones:
            if kind != "aircraft" and self.on is not None and self.off is None:
                told += self._zone(time, camera, kind, things)
        self.events += told
        return told

    def _spot(self, kind, things):
        place, moves = self.places[kind], kind == "people"
        reach = 2 * self.radius if moves else self.radius
        near = [
            one
            for one in things
            if one.kind == kind
            and _apart(place, (one.x, one.y)) <= reach
            # a vehicle that drives through is not at work
            and (moves or one.speed <= STILL_MPS)
        ]
        near.sort(key=lambda one: _apart(place, (one.x, one.y)))
        return (near[0].x, near[0].y) if near else None

    def _aircraft(self, time, camera, things):
        zone, spot = self.zones["aircraft"], self._spot("aircraft", things)
        seen = [(one.x, one.y) for one in things if one.kind == "aircraft"]
        if self.on is None:
            if zone.look(time, camera, spot, False) == "start":
                self.on = zone.since
                return [Event("on block", self.on, time, _names(zone.saw))]
            return []
        if self.off is None and seen and time - self.on < SETTLES_S:
            zone.where = seen[0]  # the last metre is rolled slowly
        elif self.off is None and seen:
            moved = min(_apart(zone.where, one) for one in seen) > BLOCK_M
            if moved and zone.gone is None:
                zone.gone, zone.saw = time, {camera}
            elif moved and time > zone.gone:
                self.off = zone.gone
                zone.saw.add(camera)
                left = Event("off block", self.off, time, _names(zone.saw))
                return [*self._unchocked(time), left]
            elif not moved:
                zone.gone = None
        return []

    def _unchocked(self, time):
        """An aircraft that moves has no chocks any more, whether that was looked at or not."""
        zone = self.zones.get("chocks")
        if zone is None or zone.since is None:
            return []
        return [Event("chocks end", min(zone.last, self.off), time, _names(zone.saw))]

    def _zone(self, time, camera, kind, things):
        zone, spot = self.zones[kind], self._spot(kind, things)
        if spot is None and kind not in self.sight.get(camera, ()):
            return []  # it cannot see the place, so its silence says nothing
        found = zone.look(time, camera, spot, kind == "people")
        if found is None:
            return []
        if kind == "people":
            self.walks += found == "start"
            name = "deboarding" if self.walks == 1 else "boarding"
        else:
            name = VISIT[kind]
        if found == "start":
            return [Event(f"{name} start", zone.first, time, _names(zone.saw))]
        ended = (
            zone.last + zone.gone
        ) / 2  # between the last look with it and the first without
        return [Event(f"{name} end", ended, time, _names(zone.saw))]

    def _intrusion(self, time, camera, things):
        for one in things:  # far from its place it comes, whether its speed is known or not
            away = _apart(self.places["aircraft"], (one.x, one.y)) > self.radius
            if one.kind == "aircraft" and (away or one.speed > STILL_MPS):
                self.inbound = time
        for one in things:  # and another camera may see what is in its way
            inside = abs(one.x) < 7 and -22 < one.y < 19
            if time - self.inbound <= INBOUND_S and inside and one.kind != "aircraft":
                self.intruders.append(Event(f"{one.kind} in the way", time, time, camera))


def stamps(events: Iterable[Event]) -> Stamps:
    """The standard stamps that these events give; the first start and the last end of each."""
    first, last = {}, {}
    for one in events:
        first[one.name] = min(one.time, first.get(one.name, one.time))
        last[one.name] = max(one.time, last.get(one.name, one.time))
    begun = [first.get(f"{name} start") for name in (*SERVICES, "stairs")]  # chocks are AIBT's
    handling = [time for time in begun if time is not None]
    wanted = [last.get(f"{name} end") for name in SERVICES] + [last.get("stairs end")]
    wanted.append(first.get("tug start"))
    ready = None if None in wanted else max(wanted)
    return Stamps(
        first.get("on block"),
        min(handling, default=None),
        first.get("boarding start"),
        ready,
        last.get("off block"),
    )


def _apart(one, other):
    return ((one[0] - other[0]) ** 2 + (one[1] - other[1]) ** 2) ** 0.5


def _names(cameras):
    return "".join(sorted(cameras))
