"""The folder that features are written to, and what is fitted, alike for all three engines.

A folder holds `train/*.parquet`, `valid/*.parquet` (sorted by display_id and ad_id, across the
parts in the order of their names), `statistics.json`, what was fitted on train, and last of all
`report.json`, the report of the run. A file has its name only when it is whole. A killed run
leaves `begun.json` and whole parts; the same call goes on from these, and another call, or one
whose raw files have changed since, is refused.
"""

import contextlib
import json
import math
import os
import shutil
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from feature_spec import AGES, ATTRIBUTES, COUNTS, SETS

RAW = ("clicks_train", "events", "promoted_content", "documents_meta")
RAW = (*RAW, *(file for file, _ in ATTRIBUTES.values()))


class Output:
    """The folder being filled, for `with` blocks: `Output("out", "raw", Spec(), "polars")`.

    >>> with output.file("train/part-00000.parquet") as path:
    ...     table.write_parquet(path)

    `report` is that of an earlier run that ended, or None. Other keywords are kept with the
    spec as what the parts depend on. Raises FileNotFoundError for missing raw files and
    ValueError for a folder that holds anything but the beginning of the same run.
    """

    def __init__(self, folder, raw, spec, engine, **options):
        self.folder, self.seconds = Path(folder), {}
        begun = {"engine": engine, "spec": asdict(spec), "raw": fingerprint(raw)} | options
        begun = json.loads(json.dumps(begun))
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "begun.json"
        if not path.is_file():
            found = [item.name for item in self.folder.iterdir() if item.name[0] != "."]
            if found:
                raise ValueError(
                    f"{folder} holds {sorted(found)[:3]}, no features; name a new folder"
                )
            self.json("begun.json", begun)
        found = json.loads(path.read_text())
        if found != begun:
            other = [name for name in begun if found.get(name) != begun[name]]
            raise ValueError(
                f"{folder} was begun with another {', '.join(other)}; name a new folder, or "
                "remove this one"
            )
        for left in self.folder.rglob(".*.partial"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        for name in SETS:
            (self.folder / name).mkdir(exist_ok=True)
        done = self.folder / "report.json"
        self.report = json.loads(done.read_text()) if done.is_file() else None

    def has(self, name):
        """Whether the file or folder is there, whole."""
        return (self.folder / name).exists()

    @contextlib.contextmanager
    def file(self, name):
        """A path to write a file or folder to, which gets its name when the block has ended."""
        path = self.folder / name
        temp = path.with_name(f".{path.name}.partial")
        yield temp
        if path.is_dir():  # of a killed run; only empty ones are replaced below
            shutil.rmtree(path)
        os.replace(temp, path)

    @contextlib.contextmanager
    def stage(self, name):
        """Adds the seconds of the block to those of the stage."""
        began = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    def json(self, name, content):
        """Writes a dict, whole or not at all."""
        with self.file(name) as path:
            path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    def finish(self, engine):
        """The report, a dict: engine, seconds by stage, rows by set; the folder is finished."""
        rows = dict.fromkeys(SETS, 0)
        for name in SETS:
            for path in (self.folder / name).glob("*.parquet"):
                rows[name] += pq.read_metadata(path).num_rows
        self.report = {"engine": engine, "seconds": self.seconds, "rows": rows}
        self.json("report.json", self.report)
        return self.report


def paths(folder, name):
    """The Parquet files of the set `name` in the order of their rows.

    Raises FileNotFoundError for a folder that is not finished.
    """
    if not Path(folder, "report.json").is_file():
        raise FileNotFoundError(
            f"{folder} has no report.json, so it is not finished; call `build` again"
        )
    return sorted(Path(folder, name).glob("*.parquet"))


def fingerprint(raw):
    """Names, sizes and times of change of the raw files: a list that changes when they do."""
    paths = [Path(raw) / f"{name}.csv" for name in RAW]
    if missing := [path.name for path in paths if not path.is_file()]:
        raise FileNotFoundError(
            f"{raw} lacks {', '.join(missing)}; `outbrain.generate` writes such a log"
        )
    return [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in paths]


def fitted(views, days):
    """What is fitted on train, a dict of floats: `publish_time_median`, `ad_id_mean` …

    >>> fitted({"ad_id": [1, 3], "document_id_promo": [4]}, {...})["ad_id_mean"]
    1.2130075659799042

    views: for each of COUNTS the views in train of its keys; a key with v views stands for v
    rows. days: for each of AGES a dict of whole days to train rows, None where unknown. Sums
    are rounded once, so their order makes no difference. Without rows all means are 0.
    """
    found = {}
    for name in AGES:
        known = sorted((d, n) for d, n in days[name].items() if d is not None)
        found[f"{name}_median"] = _median(known)
    for name in COUNTS:
        v = np.asarray(views[name], np.float64)
        rows = v.sum()
        mean = math.fsum(v * np.log1p(v)) / rows if rows else 0.0
        variance = math.fsum(v * (np.log1p(v) - mean) ** 2) / rows if rows else 0.0
        found |= {f"{name}_mean": mean, f"{name}_deviation": math.sqrt(variance) or 1.0}
    return found


def _median(counted):
    """The mean of the two middle values of sorted (value, count); 0 of none."""
    if not counted:
        return 0.0
    value, count = (np.array(x) for x in zip(*counted, strict=True))
    upto = np.cumsum(count)
    middle = (upto[-1] - 1) // 2, upto[-1] // 2
    return float(value[np.searchsorted(upto, middle, "right")].mean())
