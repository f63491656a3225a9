"""Receipts: what a run measured, as one JSON file, and the chapter's claims beside it, each with a verdict."""

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

from helpers import _records, bench, cards, root
from helpers import device as _device
from helpers._records import committed, read, recorded  # noqa: F401  `read` is for others
from helpers.show import Table, number
from helpers.verdicts import NOT_MEASURED, differences, verdict


def start(stem, tier, threads=None):
    """The Receipt of this run, its clock running: `receipts.start("rolling_distance", tier)`.

    The card `<stem>.yml` is found by `cards.find`. `threads`: what the engines were given, default torch's number.
    """
    return Receipt(cards.find(stem), str(tier), threads)


class Receipt:
    """A run being measured: `record` numbers, show `claims()`, `write()` it at the end."""

    def __init__(self, card, tier, threads=None):
        self.path, self.tier, self.threads = card, tier, threads
        self.metrics, self.curves, self._sizes = {}, {}, {}
        self.card, self._began, self._load = cards.read(card), time.perf_counter(), _load()

    def record(self, name, value, unit=None, low=None, high=None, repeats=None, note=None, count=None, device=None):
        """None; records a number: `receipt.record("rate", measurement, "alignments/s", count=N - M + 1)`.

        A Measurement brings seconds, quartiles and its device (with `count`: the rate, count per second), a Ratio its
        own; say `device` where a GPU did the work. ValueError: NaN, infinity, outside its spread, no unit, a bad name.
        """
        if isinstance(value, bench.Measurement):
            repeats, device = len(value.times_s), device or value.device
            value, low, high = value.median_s, value.low_s, value.high_s
            if count is not None:
                value, low, high = count / value, count / high, count / low
            unit = "s" if unit is None and count is None else unit
        elif isinstance(value, bench.Ratio):
            (value, low, high, repeats), unit = value, unit or "×"
        low, high = (None, None) if None in (low, high) else (float(low), float(high))
        found = {"value": float(value), "unit": unit, "low": low, "high": high}
        found |= {"repeats": repeats, "note": note, "device": device and str(device)}
        self.metrics[name] = _records.metric(name, {key: item for key, item in found.items() if item is not None})

    def sizes(self, **sizes):
        """None; keeps sizes, `receipt.sizes(points=6_500_000, heap_mb=2048)`; ValueError unless finite numbers."""
        self._sizes |= {name: _records.size(name, value) for name, value in sizes.items()}

    def curve(self, name, **columns):
        """None; keeps a curve's data: `receipt.curve("accuracy_time", x=[0.1, 1], y=[0.9, 0.99])`.

        ValueError unless the columns are of equal length, 1 to 1,000 finite numbers, with snake_case names.
        """
        self.curves[name] = _records.curve(name, columns)

    def content(self):
        """The receipt as a dict, as `write` stores it."""
        machine, folder = _device.machine(), self.path.resolve().parent
        git, state = ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"], ""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            state = subprocess.run(git, cwd=folder, capture_output=True, text=True, timeout=10).stdout.strip()
        commit, script = state.removesuffix("-dirty") or None, _script(folder)
        found = {"schema": 1, "chapter": f"{folder.parent.name}/{folder.name}", "notebook": self.path.stem}
        found |= {"tier": self.tier, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        found |= {"commit": commit, "dirty": commit and state != commit, "versions": machine.pop("versions")}
        found |= {"code": cards.code_hash(self.path.with_suffix(".ipynb"), script), "script": script}
        found |= {"command": _command(self.path), "peers": cards.installed(self.card), "machine": machine}
        found |= {"threads": self.threads or sys.modules["torch"].get_num_threads()}
        found |= {"load": {"start": self._load, "end": _load()}, "sizes": self._sizes, "curves": self.curves}
        found |= {"peak_memory_bytes": bench.peak_memory("cpu" if self.tier == "cpu" else "cuda")}
        return found | {"seconds": round(time.perf_counter() - self._began, 3), "metrics": self.metrics}

    def write(self, name=None):
        """The Path of the receipt: `<stem>.<tier>.json` in REBUILT_RECEIPTS, default `_build/receipts`; atomic.

        With a `name` ("ctc"), `<stem>.<tier>.ctc.json`; ValueError unless it is of small letters, digits, - and _.
        """
        if name is not None and not re.fullmatch("[a-z0-9_-]+", name):
            raise ValueError(f"a receipt's name is {name!r}; allowed are small letters, digits, - and _")
        folder = os.environ.get("REBUILT_RECEIPTS") or (root() or Path.cwd()) / "_build" / "receipts"
        path = Path(folder, ".".join(filter(None, (self.path.stem, self.tier, name, "json"))))
        path.parent.mkdir(parents=True, exist_ok=True)
        temp = path.with_name(f".{path.name}.{os.getpid()}")
        temp.write_text(json.dumps(self.content(), indent=1, allow_nan=False) + "\n", encoding="utf-8")
        os.replace(temp, path)
        return path

    def claims(self):
        """A Table of the chapter's claims: this run's value and verdict, then those of committed receipts."""
        here, others, rows, told = self.content(), committed(self.path.stem), [], []
        for claim in self.card.get("claims") or ():
            value = "our goal: " * claim.get("goal", False) + number(float(claim["value"]), claim["unit"])
            claimed = (f"“{claim['quote']}”", value, claim["hardware"])
            for content in (here, *others):
                metric = content["metrics"].get(claim["metric"])
                if metric or content is here:
                    found = verdict(claim, metric, content["tier"])
                    told += [found] * (content is here)
                    place = ("this run: " if content is here else "recorded: ") + _where(content)
                    if content is not here and stale(content, self.path.with_suffix(".ipynb")):
                        place += "; the code has changed since"
                    other = ", ".join(differences(claim, metric, content["tier"]) if metric else ())
                    judged = (f"{found} (other {other})" if other else found, claim.get("note"))
                    rows.append((*claimed, _text(metric), place, ": ".join(filter(None, judged))))
        head = ("the article says", "claimed", "its hardware", "measured", "where", "verdict")
        totals = ", ".join(f"{told.count(one)} {one}" for one in dict.fromkeys(told))
        return Table("claims", head, rows, f"This run: {totals or 'no claims'}.")


def stale(content, notebook):
    """Whether the code has changed since a receipt of this notebook was written (see `cards.code_hash`)."""
    return content["code"] != cards.code_hash(notebook, content.get("script"))


def replay(stem, metric=None, tier=None):
    """A Table of the newest committed receipt of a notebook, labelled with machine and date, for missing hardware.

    `replay(stem, "zdist_float64_rate", tier="big").content` is its dict, or None where no such run was recorded.
    """
    content = recorded(stem, metric, tier=tier)
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


def _load():
    """How many processes wanted a core in the last minute; None where the system does not count them."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def _script(folder):
    """The path below the slice's folder of the script that this process runs; None for a notebook."""
    main = Path(getattr(sys.modules["__main__"], "__file__", None) or "/").resolve()
    return main.relative_to(folder).as_posix() if folder in main.parents else None


def _command(card):
    """How this run was started, without this machine's folders: "python -m ctc.bench_ctc --rounds 20"."""
    if any("ipykernel" in word for word in sys.orig_argv):
        return f"notebook {card.stem}.ipynb"
    text = shlex.join(["python", *sys.orig_argv[1:]]).replace(f"{root()}/", "")
    return re.sub(r"(?<![\w.:/])/\S*/", "", text)[:500]
