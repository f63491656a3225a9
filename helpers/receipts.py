"""Receipts: what a run measured, as one JSON file; and the chapter's claims beside it, each with a verdict."""

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
KEYS = {"schema": int, "chapter": str, "notebook": str, "tier": str, "date": str, "code": str}
KEYS |= {"machine": dict, "versions": dict, "metrics": dict}


def start(stem, tier=None):
    """The Receipt of this run; its clock runs from here.

        receipt = receipts.start("rolling_distance", tier)     # or start(tier), where one notebook lives here

    `stem` names the notebook; its card `<stem>.yml` is looked for in this folder, then in `notebooks/`.
    `tier`: a Tier or its name. Raises FileNotFoundError without a card, ValueError where there are several.
    """
    stem, tier = (None, stem) if tier is None else (stem, tier)
    return Receipt(find_card(stem), str(tier))


class Receipt:
    """A run being measured: `record` numbers, show `claims()`, `write()` it at the end."""

    def __init__(self, card, tier):
        import yaml

        self.path, self.tier, self.metrics, self._began = Path(card), tier, {}, time.perf_counter()
        self.card = yaml.safe_load(self.path.read_text(encoding="utf-8"))

    def record(self, name, value, unit=None, low=None, high=None, repeats=None, note=None, count=None):
        """The value recorded under `name`, a float; a second record replaces the first.

            receipt.record("zdist_float64_rate", measurement, "alignments/s", count=N - M + 1)
            receipt.record("recall", 0.97, "")

        A Measurement brings seconds and quartiles; with `count`, the rate count per second. A Ratio of a race
        brings its spread. Raises ValueError for NaN and infinity, a name that is no identifier, a missing unit,
        or a spread that does not hold the value.
        """
        if hasattr(value, "median_s"):
            value, low, high, repeats = value.median_s, value.low_s, value.high_s, len(value.times_s)
            unit = unit or "s"
            if count is not None:
                value, low, high = count / value, count / high, count / low
        elif hasattr(value, "median"):
            value, low, high, repeats, unit = *value, unit or "×"
        metric = {"value": value, "unit": unit, "low": low, "high": high, "repeats": repeats, "note": note}
        for key in ("value", "low", "high"):
            metric[key] = None if metric[key] is None else float(metric[key])
        metric = {key: item for key, item in metric.items() if item is not None}
        self.metrics[name] = _valid_metric(name, metric)
        return metric["value"]

    def claims(self):
        """The Claims of this chapter beside this run and the committed receipts of other machines."""
        return Claims(self.card.get("claims") or [], self.content(), committed(self.path.stem))

    def content(self):
        """The receipt as a dict, as `write` stores it."""
        machine = _device.machine()
        commit = _git(self.path.parent, "rev-parse", "HEAD")
        return {
            "schema": 1,
            "chapter": "/".join(self.path.resolve().parts[-3:-1]),
            "notebook": self.path.stem,
            "tier": self.tier,
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "commit": commit,
            "dirty": commit and bool(_git(self.path.parent, "status", "--porcelain", "--untracked-files=no")),
            "code": code_hash(self.path.with_suffix(".ipynb")),
            "versions": machine.pop("versions"),
            "machine": machine,
            "seconds": round(time.perf_counter() - self._began, 3),
            "peak_memory_bytes": bench.peak_memory("cpu" if self.tier == "cpu" else "cuda"),
            "metrics": self.metrics,
        }

    def write(self):
        """The Path of the receipt, written whole: `_build/receipts/<stem>.<tier>.json`, or in REBUILT_RECEIPTS."""
        folder = Path(os.environ.get("REBUILT_RECEIPTS") or (root() or Path.cwd()) / "_build" / "receipts")
        return _write(folder / f"{self.path.stem}.{self.tier}.json", self.content())


class Claims(Table):
    """The table of a chapter's claims: claimed, hardware, measured here, verdict, then other machines' receipts."""

    def __init__(self, claims, receipt, others=()):
        self.rows = []
        for claim in claims:
            for source in (receipt, *others):
                metric = source["metrics"].get(claim["metric"])
                if source is receipt or metric:
                    self.rows.append(_judged(claim, metric, source, receipt))

    def table(self):
        """The parts of its table (see `show.Table`)."""
        head = ("the article says", "claimed", "its hardware", "measured", "where", "verdict")
        keys = ("quote", "claimed", "hardware", "measured", "where", "verdict")
        counts = [row["verdict"] for row in self.rows if row["here"]]
        total = ", ".join(f"{counts.count(verdict)} {verdict}" for verdict in dict.fromkeys(counts))
        return (
            "claims",
            head,
            [[row[key] for key in keys] for row in self.rows],
            f"Measured here: {total or 'nothing'}.",
        )


def verdict(claim, metric, tier):
    """One of the five verdicts on a claim of a card, given a receipt's metric (or None) and the name of its tier.

        verdict({"value": 1.6e9, "unit": "x/s", "better": "higher", "tolerance": 0.05, "tiers": ["big"]},
                {"value": 1.55e9, "unit": "x/s"}, "big")                                    # "reproduced"

    Reproduced: at least as good as the value, give or take `tolerance` of it; partly: within a factor of two. Raises
    ValueError for another unit than the claim's: those numbers cannot be compared.
    """
    if metric and metric["unit"] != claim["unit"]:
        raise ValueError(f"claim {claim.get('id')} is in {claim['unit']!r}, the metric in {metric['unit']!r}")
    if tier not in claim["tiers"]:
        return NOT_TESTABLE
    if not metric:
        return NOT_MEASURED
    claimed, got, better = float(claim["value"]), metric["value"], claim["better"]
    if better not in ("higher", "lower", "equal"):
        raise ValueError(f"claim {claim.get('id')}: better is {better!r}; allowed are higher, lower, equal")
    slack = claim.get("tolerance", 0) * (abs(claimed) or 1)  # of zero there is no share: the slack is absolute
    least, most = sorted((claimed / 2, claimed * 2))
    above, below = better == "lower" or got >= claimed - slack, better == "higher" or got <= claimed + slack
    if above and below:
        return REPRODUCED
    near = (better == "lower" or got >= least) and (better == "higher" or got <= most)
    return PARTLY if near and claimed else NOT_REPRODUCED


def code_hash(notebook):
    """The SHA-256 of what a notebook runs: its cells' kinds and sources, the slice's modules, the card.

    Outputs, metadata, tests and benchmarks (`test_*`, `bench_*`) do not count.
    """
    notebook = Path(notebook)
    parts = []
    if notebook.is_file():
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        parts = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    files = [f for f in sorted(notebook.parent.glob("*.py")) if not f.name.startswith(("test_", "bench_"))]
    for file in (*files, notebook.with_suffix(".yml")):
        parts.append((file.name, file.read_text(encoding="utf-8").replace("\r\n", "\n")))
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def read(path):
    """The content of a receipt, checked; ValueError says what is broken in which file."""

    def refuse(word):
        raise ValueError(f"{word} is no number")

    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=refuse)
        for key, kind in KEYS.items():
            if not isinstance(content[key], kind):
                raise ValueError(f"{key} is {content[key]!r}; it must be {kind.__name__}")
        for name, metric in content["metrics"].items():
            _valid_metric(name, metric)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"receipt {path} is broken: {type(error).__name__}: {error}") from error
    return content


def committed(stem):
    """The committed receipts of a notebook, a list of dicts, the newest first."""
    home = root()
    paths = (home / "data" / "receipts" / stem).glob("*.json") if home else ()
    return sorted(map(read, paths), key=lambda content: content["date"], reverse=True)


def keep(path):
    """The Path of a copy of a receipt among the committed ones: `data/receipts/<stem>/<tier>-<machine>.json`."""
    content = read(path)
    name = f"{content['tier']}-{content['machine']['slug']}.json"
    return _write(root() / "data" / "receipts" / content["notebook"] / name, content)


def replay(stem, metric=None, tier=None):
    """The newest committed receipt of a notebook, shown with its machine and date, for hardware missing here.

        receipts.replay("rolling_distance", "zdist_float64_rate", tier="big").content["metrics"]

    Raises FileNotFoundError where none was recorded.
    """
    for content in committed(stem):
        if tier in (None, content["tier"]) and (metric is None or metric in content["metrics"]):
            return Replay(content, metric)
    raise FileNotFoundError(f"no committed receipt of {stem} with metric={metric!r}, tier={tier!r}")


class Replay(Table):
    """A recorded run: its `content`, shown as a table that says whose numbers these are."""

    def __init__(self, content, metric):
        self.content, self.metric = content, metric

    def table(self):
        """The parts of its table (see `show.Table`)."""
        metrics = self.content["metrics"]
        rows = [(name, measured(metrics[name])) for name in ([self.metric] if self.metric else metrics)]
        return "replay", ("metric", "recorded"), rows, f"Replayed, not measured here: {where(self.content)}."


def where(content):
    """The machine, tier and day of a receipt in one phrase."""
    machine = content["machine"]
    return f"{machine.get('gpu') or machine.get('cpu')}, tier {content['tier']}, {content['date'][:10]}"


def measured(metric):
    """A metric with its unit and spread in one phrase."""
    if not metric:
        return "–"
    text, unit = number(metric["value"], metric["unit"]), metric["unit"]
    return f"{text} ({number(metric['low'], unit)} to {number(metric['high'], unit)})" if "low" in metric else text


def find_card(stem=None):
    """The Path of a notebook's card: in the current folder, or by its stem anywhere in `notebooks/`."""
    here, home = Path.cwd(), root()
    found = [p for p in sorted(here.glob(f"{stem or '*'}.yml")) if p.with_suffix(".ipynb").exists()]
    if not found and stem and home:
        found = sorted(home.glob(f"notebooks/*/*/{stem}.yml"))
    if not found:
        raise FileNotFoundError(f"no card {stem or '<notebook>'}.yml in {here}; name it: start('my_notebook', tier)")
    if len(found) > 1:
        raise ValueError(f"several cards: {[str(p) for p in found]}; name one: start({found[0].stem!r}, tier)")
    return found[0]


def _judged(claim, metric, source, here):
    stale = "" if source["code"] == here["code"] else ", the code has changed since"
    return {
        "id": claim["id"],
        "here": source is here,
        "quote": f"“{claim['quote']}”",
        "claimed": number(float(claim["value"]), claim["unit"]),
        "hardware": claim["hardware"],
        "measured": measured(metric),
        "where": ("here: " if source is here else "recorded: ") + where(source) + stale,
        "verdict": verdict(claim, metric, source["tier"]),
    }


def _valid_metric(name, metric):
    value, low, high = (metric.get(key, metric.get("value")) for key in ("value", "low", "high"))
    numeric = all(
        isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x) for x in (value, low, high)
    )
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or not isinstance(metric.get("unit"), str):
        raise ValueError(
            f"metric {name!r}, unit {metric.get('unit')!r}: a snake_case name and a unit are needed (may be '')"
        )
    if not numeric or not low <= value <= high:
        raise ValueError(f"metric {name}: value {value}, low {low}, high {high}; finite numbers in order are allowed")
    return metric


def _write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = path.with_name(f".{path.name}.{os.getpid()}")
    temp.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    os.replace(temp, path)
    return path


def _git(folder, *arguments):
    try:
        done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
