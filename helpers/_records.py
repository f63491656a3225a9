"""Reading receipts again, which is noted, and the rules that their metrics, sizes and curves have to keep."""

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path

from helpers import root

ROWS = 1000  # of a curve: a receipt stays a small file
KEYS = {"schema": int, "machine": dict, "versions": dict, "metrics": dict}
KEYS |= dict.fromkeys(("chapter", "notebook", "tier", "date", "code"), str)
LATER = {"sizes": dict, "curves": dict, "peers": dict, "load": dict, "command": str}  # older receipts lack them
_looked_at = {}  # file -> {"metrics" or "curves": the names that this process has looked at}


def metric(name, found):
    """The metric, if it may stand in a receipt; ValueError for a bad name, unit, number or spread."""
    value, unit = found["value"], found.get("unit")
    low, high = found.get("low", value), found.get("high", value)
    if not named(name) or not isinstance(unit, str):
        raise ValueError(f"metric {name!r} with unit {unit!r}: a snake_case name and a unit ('' for none) are needed")
    if not all(math.isfinite(x) for x in (value, low, high)) or not low <= value <= high:
        raise ValueError(f"metric {name}: low {low}, value {value}, high {high}; allowed are finite numbers in order")
    return found


def size(name, value):
    """The size as an int or a float; ValueError for a bad name or anything but a finite number."""
    value = value.item() if hasattr(value, "item") else value
    if not named(name) or not _finite(value):
        raise ValueError(f"size {name!r} is {value!r}; allowed are snake_case names and finite numbers")
    return value


def curve(name, columns):
    """The columns as lists of numbers; ValueError for bad names, lengths that differ, no rows or more than 1,000."""
    lists = {key: [x.item() if hasattr(x, "item") else x for x in column] for key, column in columns.items()}
    lengths = {key: len(column) for key, column in lists.items()}
    if not lists or not all(map(named, (name, *lists))):
        raise ValueError(f"curve {name!r} with columns {list(lists)}: snake_case names, at least one column are needed")
    if len(set(lengths.values())) != 1 or not 1 <= max(lengths.values()) <= ROWS:
        raise ValueError(f"curve {name} has columns of {lengths} rows; allowed are equal lengths from 1 to {ROWS:,}")
    if wrong := [f"{key}: {x!r}" for key, column in lists.items() for x in column if not _finite(x)]:
        raise ValueError(f"curve {name}, column {wrong[0]}; allowed are finite numbers")
    return lists


def read(path):
    """The content of a receipt, checked; ValueError says which file is broken, and how."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        for key, kind in (KEYS | {key: kind for key, kind in LATER.items() if key in content}).items():
            if not isinstance(content[key], kind):
                raise ValueError(f"{key} is {content[key]!r}; it must be {kind.__name__}")
        for check, key in ((metric, "metrics"), (size, "sizes"), (curve, "curves")):
            for name, found in content.get(key, {}).items():
                check(name, found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"receipt {path} is broken: {type(error).__name__} {error}") from error
    return content


class Noted(dict):
    """A dict that calls `looked` with each name that is looked at: by `[]` and `get`, all of them by `**` or a copy;
    what a loop over `items` or `values` hands out, when one of its own names is looked at.
    """

    def __init__(self, content, looked):
        super().__init__(content)
        for name in [name for name, one in content.items() if isinstance(one, dict)]:
            self[name] = Noted(content[name], lambda _, name=name: looked(name))
        self._looked = looked

    def __getitem__(self, name):
        found = super().__getitem__(name)
        self._looked(name)
        return found

    def __iter__(self):  # as a dict's; without it `**` and `dict()` would copy past `__getitem__`
        return super().__iter__()

    get = Mapping.get  # by `[]`

    def items(self):
        return [(name, one if isinstance(one, Noted) else self[name]) for name, one in super().items()]

    def values(self):
        return [one for _, one in self.items()]


def committed(stem, name=None):
    """The committed receipts of a notebook, all or those of the run of a `name` ("race"), as dicts, newest first."""
    found, ending = [], f"-{name.replace('_', '-')}" if name else ""  # the files of `few_labels` end with few-labels
    for path in (root() or Path()).glob(f"data/receipts/{stem}/*{ending}.json"):
        content = read(path)
        content["name"] = run_name(path, content)
        seen = _looked_at.setdefault(f"{stem}/{path.name}", {})
        for kind in content.keys() & {"metrics", "curves"}:
            content[kind] = Noted(content[kind], seen.setdefault(kind, set()).add)
        found.append(content)
    return sorted(found, key=lambda content: content["date"], reverse=True)


def run_name(path, content):
    """The name of the race or study of a committed receipt, "" for a notebook's own run: `…/cpu-amd-epyc-ctc.json`."""
    return path.stem.removeprefix(f"{content['tier']}-").removeprefix(str(content["machine"].get("slug"))).strip("-")


def looked_at():
    """What this process has read of committed receipts: `{"demo/cpu-x.json": {"metrics": ["rate"], "curves": []}}`."""
    known = [(file, kinds) for file, kinds in sorted(_looked_at.items()) if any(kinds.values())]
    return {file: {kind: sorted(names) for kind, names in sorted(kinds.items())} for file, kinds in known}


def recorded(stem, metric=None, curve=None, tier=None, threads=None, name=None):
    """The newest committed receipt (a dict) with this metric, curve, tier, number of threads and name, or None."""
    for content in committed(stem, name):
        known = metric in (None, *content["metrics"]) and curve in (None, *content.get("curves", ()))
        if known and tier in (None, content["tier"]) and threads in (None, content.get("threads")):
            return content


def named(name):
    """Whether this is a snake_case name."""
    return isinstance(name, str) and re.fullmatch("[a-z][a-z0-9_]*", name)


def _finite(value):
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
