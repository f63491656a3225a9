"""Receipts: what a run measured, as one JSON file, and the chapter's claims beside it, each with a verdict."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

from helpers import _records, bench, cards, device, root, verdicts
from helpers._records import committed, read, recorded  # noqa: F401  `read` is for others
from helpers.show import Table, number


def start(stem, tier, threads=None):
    """The Receipt of this run, its clock running; `threads`: what the engines were given, default torch's number."""
    return Receipt(cards.find(stem), str(tier), threads)


class Receipt:
    """A run being measured: `record` numbers, show `claims()`, `write()` it at the end."""

    def __init__(self, card, tier, threads=None):
        self.path, self.tier, self.threads = card, tier, threads
        self.metrics, self.curves, self._sizes = {}, {}, {}
        self.script, self.command, self.study = None, None, None  # of a study; else as this process was started
        self.card, self._began = cards.read(card), time.perf_counter()

    def record(self, name, value, unit=None, low=None, high=None, repeats=None, note=None, device=None, **more):
        """None; records a number: `receipt.record("rate", measurement, "alignments/s", count=N - M + 1)`.
        A Measurement brings seconds, interval and device (with `count`: the rate per second), a `bench.spread` its
        interval; by hand `interval` is a word of `bench.ENDS`; "exact" (a count, a sum) has no ends. `device`: where a
        GPU did the work; `timing`, True or False: whether it is a clock's, where the unit does not tell. ValueError:
        NaN, infinity, outside its ends, no unit, ends without a name, other words.
        """
        if wrong := sorted(more.keys() - {"interval", "count", "timing"}):
            raise ValueError(f"metric {name}: the words {wrong}; only count and timing are allowed beside")
        interval, count = more.pop("interval", ""), more.pop("count", None)
        more |= {"timing": True} if isinstance(value, bench.Measurement | bench.Ratio) else {}
        if isinstance(value, bench.Measurement):
            repeats, device, interval = len(value.times_s), device or value.device, value.interval
            value, low, high = value.median_s, value.low_s, value.high_s
            if count is not None:
                value, low, high = count / value, count / high, count / low
            unit = "s" if unit is None and count is None else unit
        elif isinstance(value, bench.Spread):
            unit = unit or ("×" if isinstance(value, bench.Ratio) else None)
            value, low, high, repeats, interval = value
        ends = {"interval": interval} if interval == "exact" else {}
        ends = ends if None in (low, high) else {"low": float(low), "high": float(high), "interval": interval}
        if ends and interval not in bench.ENDS:
            raise ValueError(f"metric {name}: interval {interval!r} of ends {low} to {high}; allowed: {[*bench.ENDS]}")
        found = {"value": float(value), "unit": unit, **ends}
        found |= {"repeats": repeats, "note": note, "device": device and str(device), **more}
        self.metrics[name] = _records.metric(name, {key: item for key, item in found.items() if item is not None})

    def sizes(self, **sizes):
        """None; keeps sizes, `receipt.sizes(points=6_500_000, heap_mb=2048)`; ValueError unless finite numbers."""
        self._sizes |= {name: _records.size(name, value) for name, value in sizes.items()}

    def curve(self, name, **columns):
        """None; keeps `receipt.curve("gain", x=[1, 2], y=[3, 4])`: 1 to 1,000 finite numbers each, else ValueError."""
        self.curves[name] = _records.curve(name, columns)

    def content(self):
        """The receipt as a dict, as `write` stores it; its command names no folder of this machine."""
        machine, folder, threads = device.machine(), self.path.resolve().parent, device.threads()
        commit, dirty = _commit(folder)
        main = Path(getattr(sys.modules["__main__"], "__file__", None) or "/").resolve()  # no file in a notebook
        script = self.script or (main.relative_to(folder).as_posix() if folder in main.parents else None)
        found = {"schema": 1, "chapter": f"{folder.parent.name}/{folder.name}", "notebook": self.path.stem}
        found |= {"tier": self.tier, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        found |= {"commit": commit, "dirty": dirty, "versions": machine.pop("versions"), "machine": machine}
        found |= {"code": cards.code_hash(self.path.with_suffix(".ipynb"), script), "script": script}
        kernel = any("ipykernel" in word for word in sys.orig_argv)
        line = shlex.join(["python", *sys.orig_argv[1:]]).replace(f"{root()}/", "")
        line = f"notebook {self.path.stem}.ipynb" if kernel else re.sub(r"(?<![\w.:/])/\S*/", "", line)[:500]
        found |= {"command": self.command or line} | ({"study": self.study} if self.study else {})
        found |= {"threads": self.threads or next(iter(threads.values()), None), "threads_by_library": threads}
        found |= {"peers": cards.installed(self.card, script and folder / script)}
        found |= {"sizes": self._sizes, "curves": self.curves, "metrics": self.metrics, "read": _records.looked_at()}
        found |= {"peak_memory_bytes": bench.peak_memory("cpu" if self.tier == "cpu" else "cuda")}
        return found | {"seconds": round(time.perf_counter() - self._began, 3)}

    def write(self, name=None):
        """The Path of the receipt, `<stem>.<tier>.json` or `<stem>.<tier>.<name>.json`, in REBUILT_RECEIPTS, default
        `_build/receipts`; atomic. ValueError for a name of other than small letters, digits, - and _.
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
        """A Table of the chapter's claims, what decides each and what it found; in the book the ledger's cards."""
        rows, told, usual, notebook = [], [], verdicts.usual(committed("*")), self.path.with_suffix(".ipynb")
        runs = [(self.content(), False, "")]  # nobody has looked at the machine beside this run yet
        runs += [(run, stale(run, notebook), verdicts.disturbed(run, usual)) for run in committed(self.path.stem)]
        for claim in self.card.get("claims") or ():
            able = [run for run, *bars in runs if not verdicts.barred(claim, run, *bars)]
            known = [*able, *(run for run, *_ in runs if claim["metric"] in run["metrics"]), None][0]
            metric = known and known["metrics"][claim["metric"]]
            found = verdicts.finding(claim, metric if able else None) or verdicts.FIGURE
            told.append(found)
            like, value = verdicts.likeness(claim), number(float(claim["value"]), claim["unit"])
            place = known and ("this run" if known is runs[0][0] else f"recorded: {where(known, beside=False)}")
            rows.append((f"{found} ({like})", f"“{claim['quote']}”", value, text(metric), place))
        totals = ", ".join(f"{told.count(one)} {one}" for one in dict.fromkeys(told))
        head = ("found", "the article says", "claimed", "measured", "where")
        return Table("claims", head, rows, f"{totals or 'no claims'}.".capitalize())


def text(metric):
    """A receipt's metric with its unit and its named ends: "96 x/s (90 to 99 x/s, 95 % interval)"; "–" for None."""
    if not metric or "low" not in metric:
        return number(metric["value"], metric["unit"]) if metric else "–"
    value, low, high = (number(float(metric[key]), metric["unit"]) for key in ("value", "low", "high"))
    named = bench.ENDS.get(metric.get("interval"), "ends not named")
    ends = named + (f", n = {metric['repeats']}" if metric.get("repeats") else "")
    return f"{value} ({low.removesuffix(' ' + metric['unit'])} to {high}, {ends})"


def stale(content, notebook):
    """Whether the code has changed since a receipt of this notebook was written (see `cards.code_hash`)."""
    return content["code"] != cards.code_hash(notebook, content.get("script"))


def replay(stem, metric=None, tier=None, threads=None, name=None):
    """A Table of the newest committed receipt, as `recorded` finds it; its `content` is that dict, or None."""
    content = recorded(stem, metric, tier=tier, threads=threads, name=name)
    asked = f"tier {tier or 'any'}" + (f" with {threads} thread{'s' * (threads != 1)}" if threads else "")
    told, rows = f"No run of {stem} at {asked} has been recorded yet.", [(metric or "any", verdicts.NOT_MEASURED)]
    if content:
        told = f"Recorded, not measured here: {where(content)}."
        rows = [(key, text(found)) for key, found in content["metrics"].items() if metric in (None, key)]
    table = Table("replay", ("metric", "recorded"), rows, told)
    table.content = content
    return table


def where(content, beside=True):
    """Where and how a receipt was measured: "AMD EPYC, tier cpu, 2026-01-02, 2 threads, other work on 0.1 cores"."""
    tier, busy, count = content["tier"], verdicts.busiest(content), content.get("threads")
    told = f"{content['machine'].get('cpu' if tier == 'cpu' else 'gpu')}, tier {tier}, {content['date'][:10]}"
    told += f", {count} thread{'s' * (count != 1)}" if count and beside else ""
    return told + f", other work {'not known' if busy is None else f'on {busy:.1f} cores'}" * beside


def _commit(folder):
    """(commit, whether files differ from it or are not in it), results apart; (None, None) without git."""
    results = (f":(top,exclude)data/{name}" for name in ("receipts", "predictions"))
    status = ["status", "--porcelain", "--untracked-files=all", "--", ":/", *results]
    how = {"cwd": folder, "capture_output": True, "text": True, "timeout": 10, "check": True}
    try:
        told = (subprocess.run(["git", *words], **how).stdout.strip() for words in (["rev-parse", "HEAD"], status))
        return next(told), bool(next(told))
    except (OSError, subprocess.SubprocessError):
        return None, None
