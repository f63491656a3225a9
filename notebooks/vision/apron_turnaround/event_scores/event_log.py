"""A log of turnarounds in XES, the format of process mining (IEEE 1849-2016), and back.

A case is one turnaround; its events have a name, a time, a transition (start or complete) and
the cameras that saw them as their resource.
"""

import xml.etree.ElementTree as xml
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from .states import Event

DAY = datetime(2026, 3, 2, 6, 0, tzinfo=UTC)  # second 0 of a log, where no other is given
EXTENSIONS = (
    ("Concept", "concept", "http://www.xes-standard.org/concept.xesext"),
    ("Time", "time", "http://www.xes-standard.org/time.xesext"),
    ("Lifecycle", "lifecycle", "http://www.xes-standard.org/lifecycle.xesext"),
    ("Organizational", "org", "http://www.xes-standard.org/org.xesext"),
)
NAMESPACE = "http://www.xes-standard.org/"


def write(path: Path, cases: Mapping[str, Iterable[Event]], day: datetime = DAY) -> None:
    """Write a log of {name of the case: its events}, each case in the order of time."""
    log = xml.Element(
        "log", {"xes.version": "1849.2016", "xes.features": "", "xmlns": NAMESPACE}
    )
    for name, prefix, address in EXTENSIONS:
        xml.SubElement(log, "extension", {"name": name, "prefix": prefix, "uri": address})
    for case, events in cases.items():
        trace = xml.SubElement(log, "trace")
        _text(trace, "concept:name", case)
        for one in sorted(events, key=lambda each: each.time):
            event, (task, transition) = xml.SubElement(trace, "event"), _parted(one.name)
            _text(event, "concept:name", task)
            _text(event, "lifecycle:transition", transition)
            _text(event, "org:resource", one.cameras)
            at = (day + timedelta(seconds=one.time)).isoformat(timespec="milliseconds")
            xml.SubElement(event, "date", {"key": "time:timestamp", "value": at})
    xml.indent(log)
    xml.ElementTree(log).write(path, encoding="utf-8", xml_declaration=True)


def read(path: Path, day: datetime = DAY) -> dict[str, list[Event]]:
    """{case: its events}, as `write` wrote them; when each was told is not in the log, and is
    given as its time. ValueError for what is no log, or lacks what `write` writes."""
    try:
        log = xml.parse(path).getroot()
    except xml.ParseError as error:
        raise ValueError(f"{path} is no XML: {error}") from None
    if log.tag.split("}")[-1] != "log":
        raise ValueError(f"{path} holds <{log.tag}>; a log in XES begins with <log>")
    cases = {}
    try:
        for trace in log.iter(f"{{{NAMESPACE}}}trace"):
            case = cases.setdefault(_values(trace)["concept:name"], [])
            case += [_event(_values(one), day) for one in trace.iter(f"{{{NAMESPACE}}}event")]
    except (KeyError, TypeError) as error:  # TypeError: a time without its zone
        raise ValueError(f"{path} has a trace or an event that is not whole: {error}") from None
    return cases


def _event(told, day):
    time = (datetime.fromisoformat(told["time:timestamp"]) - day).total_seconds()
    task, transition = told["concept:name"], told["lifecycle:transition"]
    name = task if task.endswith(" block") else f"{task} {_END[transition]}"
    return Event(name, time, time, told["org:resource"])


_TRANSITION = {"start": "start", "end": "complete"}
_END = {value: key for key, value in _TRANSITION.items()}


def _parted(name):
    task, _, end = name.rpartition(" ")
    return (name, "complete") if end == "block" else (task, _TRANSITION[end])


def _text(parent, key, value):
    xml.SubElement(parent, "string", {"key": key, "value": value})


def _values(element):
    return {one.get("key"): one.get("value") for one in element if one.get("key")}
