"""Receipts: what a run measured, as one JSON file, and the chapter's claims beside it, each with a verdict."""

import contextlib
import hashlib
import json
import math
import os
import re
import subprocess
import time
from pathlib import Path

from helpers import bench, root
from helpers import device as _device
from helpers.show import Table, number

REPRODUCED, PARTLY, NOT_REPRODUCED = "reproduced", "partly", "not reproduced"
NOT_TESTABLE, NOT_MEASURED = "not testable here", "not measured"
KEYS = {"schema": int, "machine": dict, "versions": dict, "metrics": dict}
KEYS |= dict.fromkeys(("chapter", "notebook", "tier", "date", "code"), str)


def start(stem, tier=None):
    """The Receipt of this run, its clock running: `receipts.start("rolling_distance", tier)`, or `start(tier)`.

    The card `<stem>.yml` is looked for here, then in `notebooks/`; FileNotFoundError unless there is one.
    """
    stem, tier = ("*", stem) if tier is None else (stem, tier)
    cards = [path for path in Path.cwd().glob(f"{stem}.yml") if path.with_suffix(".ipynb").exists()]
    if not cards and stem != "*":
        cards = list((root() or Path()).glob(f"notebooks/*/*/{stem}.yml"))
    if len(cards) != 1:
        raise FileNotFoundError(f"{len(cards)} cards {stem}.yml in {Path.cwd()} or below notebooks/; one is needed")
    return Receipt(cards[0], str(tier))


class Receipt:
    """A run being measured: `record` numbers, show `claims()`, `write()` it at the end."""

    def __init__(self, card, tier):
        import yaml

        self.path, self.tier, self.metrics, self._began = card, tier, {}, time.perf_counter()
        self.card = yaml.safe_load(card.read_text(encoding="utf-8"))

    def record(self, name, value, unit=None, low=None, high=None, repeats=None, note=None, count=None):
        """None; records a number: `receipt.record("rate", measurement, "alignments/s", count=N - M + 1)`.

        A Measurement brings seconds and quartiles (with `count`: the rate, count per second), a Ratio its own. Raises
        ValueError for NaN or infinity, a value outside its spread, a missing unit, a bad name.
        """
        if isinstance(value, bench.Measurement):
            value, low, high, repeats = value.median_s, value.low_s, value.high_s, len(value.times_s)
            if count is not None:
                value, low, high = count / value, count / high, count / low
            unit = "s" if unit is None and count is None else unit
        elif isinstance(value, bench.Ratio):
            (value, low, high, repeats), unit = value, unit or "×"
        spread = {} if low is None or high is None else {"low": float(low), "high": float(high)}
        rest = {key: item for key, item in (("repeats", repeats), ("note", note)) if item is not None}
        self.metrics[name] = _valid(name, {"value": float(value), "unit": unit} | spread | rest)

    def content(self):
        """The receipt as a dict, as `write` stores it."""
        machine, folder = _device.machine(), self.path.resolve().parent
        git, state = ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"], ""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            state = subprocess.run(git, cwd=folder, capture_output=True, text=True, timeout=10).stdout.strip()
        commit = state.removesuffix("-dirty") or None
        found = {"schema": 1, "chapter": f"{folder.parent.name}/{folder.name}", "notebook": self.path.stem}
        found |= {"tier": self.tier, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        found |= {"commit": commit, "dirty": commit and state != commit, "versions": machine.pop("versions")}
        found |= {"code": code_hash(self.path.with_suffix(".ipynb")), "machine": machine}
        found |= {"peak_memory_bytes": bench.peak_memory("cpu" if self.tier == "cpu" else "cuda")}
        return found | {"seconds": round(time.perf_counter() - self._began, 3), "metrics": self.metrics}

    def write(self):
        """The Path of the receipt: `<stem>.<tier>.json` in REBUILT_RECEIPTS, default `_build/receipts`; atomic."""
        folder = os.environ.get("REBUILT_RECEIPTS") or (root() or Path.cwd()) / "_build" / "receipts"
        path = Path(folder, f"{self.path.stem}.{self.tier}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        temp = path.with_name(f".{path.name}.{os.getpid()}")
        temp.write_text(json.dumps(self.content(), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        os.replace(temp, path)
        return path

    def claims(self):
        """A Table of the chapter's claims: this run's value and verdict, then those of committed receipts."""
        here, others, rows, told = self.content(), committed(self.path.stem), [], []
        for claim in self.card.get("claims") or ():
            claimed = (f"“{claim['quote']}”", number(float(claim["value"]), claim["unit"]), claim["hardware"])
            for content in (here, *others):
                metric = content["metrics"].get(claim["metric"])
                if metric or content is here:
                    found = verdict(claim, metric, content["tier"])
                    told += [found] * (content is here)
                    place = ("this run: " if content is here else "recorded: ") + _where(content)
                    place += "" if content["code"] == here["code"] else "; the code has changed since"
                    judged = f"{found}: {claim['note']}" if claim.get("note") else found
                    rows.append((*claimed, _text(metric), place, judged))
        head = ("the article says", "claimed", "its hardware", "measured", "where", "verdict")
        totals = ", ".join(f"{told.count(one)} {one}" for one in dict.fromkeys(told))
        return Table("claims", head, rows, f"This run: {totals or 'no claims'}.")


def verdict(claim, metric, tier):
    """One of the five verdicts on a card's claim, given a receipt's metric (or None) and its tier's name.

    Reproduced: as good as claimed, within `tolerance` (of 1 for a claim of zero); partly: within a factor of two.
    """
    better, name, testable = claim["better"], claim.get("id"), tier in claim["tiers"]
    if metric and metric["unit"] != claim["unit"]:
        raise ValueError(f"claim {name} has unit {claim['unit']!r}, its metric {metric['unit']!r}; make them equal")
    if better not in ("higher", "lower", "equal"):
        raise ValueError(f"claim {name}: better is {better!r}; allowed are higher, lower and equal")
    if not testable or not metric:
        return NOT_MEASURED if testable else NOT_TESTABLE
    claimed, got = float(claim["value"]), metric["value"]
    slack = claim.get("tolerance", 0) * (abs(claimed) or 1)
    least, most = sorted((claimed / 2, claimed * 2))
    for low, high, found in ((claimed - slack, claimed + slack, REPRODUCED), (least, most, PARTLY)):
        if (better == "lower" or got >= low) and (better == "higher" or got <= high):
            return found
    return NOT_REPRODUCED


def code_hash(notebook):
    """The SHA-256 of what a notebook runs: its cells' sources, the modules beside it, its card.

    Outputs, metadata and tests (`test_*`) do not count; a missing file counts as empty.
    """
    notebook = Path(notebook)
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"] if notebook.is_file() else ()
    parts = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    modules = [path for path in notebook.parent.glob("*.py") if not path.name.startswith("test_")]
    for path in (*sorted(modules), notebook.with_suffix(".yml")):
        parts.append((path.name, path.read_text(encoding="utf-8") if path.is_file() else ""))
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def read(path):
    """The content of a receipt, checked; ValueError says which file is broken, and how."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        for key, kind in KEYS.items():
            if not isinstance(content[key], kind):
                raise ValueError(f"{key} is {content[key]!r}; it must be {kind.__name__}")
        for name, metric in content["metrics"].items():
            _valid(name, metric)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"receipt {path} is broken: {type(error).__name__} {error}") from error
    return content


def committed(stem):
    """The committed receipts of a notebook, `data/receipts/<stem>/*.json`, as dicts, the newest first."""
    paths = (root() or Path()).glob(f"data/receipts/{stem}/*.json")
    return sorted(map(read, paths), key=lambda content: content["date"], reverse=True)


def replay(stem, metric=None, tier=None):
    """A Table of the newest committed receipt of a notebook, labelled with machine and date, for missing hardware.

    `replay(stem, "zdist_float64_rate", tier="big").content` is its dict, or None where no such run was recorded.
    """
    fitting = (c for c in committed(stem) if tier in (None, c["tier"]) and metric in (None, *c["metrics"]))
    content = next(fitting, None)
    told, rows = f"No run of {stem} at tier {tier or 'any'} has been recorded yet.", [(metric or "any", NOT_MEASURED)]
    if content:
        told = f"Recorded, not measured here: {_where(content)}."
        rows = [(name, _text(found)) for name, found in content["metrics"].items() if metric in (None, name)]
    table = Table("replay", ("metric", "recorded"), rows, told)
    table.content = content
    return table


def _where(content):
    machine, tier = content["machine"], content["tier"]
    return f"{machine.get('cpu' if tier == 'cpu' else 'gpu')}, tier {tier}, {content['date'][:10]}"


def _text(metric):
    if not metric or "low" not in metric:
        return number(metric["value"], metric["unit"]) if metric else "–"
    value, low, high = (number(metric[key], metric["unit"]) for key in ("value", "low", "high"))
    return f"{value} ({low.removesuffix(' ' + metric['unit'])} to {high})"


def _valid(name, metric):
    value, unit = metric["value"], metric.get("unit")
    low, high = metric.get("low", value), metric.get("high", value)
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or not isinstance(unit, str):
        raise ValueError(f"metric {name!r} with unit {unit!r}: a snake_case name and a unit ('' for none) are needed")
    if not all(math.isfinite(x) for x in (value, low, high)) or not low <= value <= high:
        raise ValueError(f"metric {name}: low {low}, value {value}, high {high}; allowed are finite numbers in order")
    return metric
