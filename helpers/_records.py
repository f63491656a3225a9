"""Reading receipts again, and the rules that their metrics, sizes and curves have to keep."""

import json
import math
import re
from pathlib import Path

from helpers import root

ROWS = 1000  # of a curve: a receipt stays a small file
KEYS = {"schema": int, "machine": dict, "versions": dict, "metrics": dict}
KEYS |= dict.fromkeys(("chapter", "notebook", "tier", "date", "code"), str)
LATER = {"sizes": dict, "curves": dict, "peers": dict, "load": dict, "command": str}  # older receipts lack them


def metric(name, found):
    """The metric, if it may stand in a receipt; ValueError for a bad name, unit, number or spread."""
    value, unit = found["value"], found.get("unit")
    low, high = found.get("low", value), found.get("high", value)
    if not _named(name) or not isinstance(unit, str):
        raise ValueError(f"metric {name!r} with unit {unit!r}: a snake_case name and a unit ('' for none) are needed")
    if not all(math.isfinite(x) for x in (value, low, high)) or not low <= value <= high:
        raise ValueError(f"metric {name}: low {low}, value {value}, high {high}; allowed are finite numbers in order")
    return found


def size(name, value):
    """The size as an int or a float; ValueError for a bad name or anything but a finite number."""
    value = value.item() if hasattr(value, "item") else value
    if not _named(name) or not _finite(value):
        raise ValueError(f"size {name!r} is {value!r}; allowed are snake_case names and finite numbers")
    return value


def curve(name, columns):
    """The columns as lists of numbers; ValueError for bad names, lengths that differ, no rows or more than 1,000."""
    lists = {key: [x.item() if hasattr(x, "item") else x for x in column] for key, column in columns.items()}
    lengths = {key: len(column) for key, column in lists.items()}
    if not lists or not all(map(_named, (name, *lists))):
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


def committed(stem):
    """The committed receipts of a notebook, `data/receipts/<stem>/*.json`, as dicts, the newest first."""
    paths = (root() or Path()).glob(f"data/receipts/{stem}/*.json")
    return sorted(map(read, paths), key=lambda content: content["date"], reverse=True)


def recorded(stem, metric=None, curve=None, tier=None):
    """The newest committed receipt (a dict) with this metric, this curve and this tier, or None.

    `recorded("demo", curve="accuracy_time")["curves"]["accuracy_time"]["x"]` is a list of numbers.
    """
    for content in committed(stem):
        known = metric in (None, *content["metrics"]) and curve in (None, *content.get("curves", ()))
        if known and tier in (None, content["tier"]):
            return content
    return None


def _named(name):
    return isinstance(name, str) and re.fullmatch("[a-z][a-z0-9_]*", name)


def _finite(value):
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
