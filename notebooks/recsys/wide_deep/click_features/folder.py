"""A folder that is filled file by file and survives a kill: of features, or of their batches.

`begun.json` says what the content is made from. A file has its name only when it is whole and
on the disk. `report.json` comes last, so a folder without it is not finished. The same call
goes on from the files that are there; another call, or one whose source has changed since, is
refused.

Features lie in `train/*.parquet` and `valid/*.parquet`, sorted by display_id and ad_id across
the parts in the order of their names; `statistics.json` is what was fitted on train.
"""

import contextlib
import json
import os
import shutil
import time
from dataclasses import asdict
from pathlib import Path

import pyarrow.parquet as pq
from outbrain import SCHEMAS

from .spec import SETS


class Folder:
    """A folder being filled: `Folder("out", engine="polars", seed=0)`.

    >>> with folder.file("part-00000.parquet") as path:
    ...     table.write_parquet(path)

    made_from: what the content depends on, as JSON can hold it. `report` is that of an earlier
    run that ended, or None. Raises ValueError for a folder that holds anything but the
    beginning of the same run.
    """

    def __init__(self, path, **made_from):
        self.path, self.seconds = Path(path), {}
        made_from = json.loads(json.dumps(made_from))
        self.path.mkdir(parents=True, exist_ok=True)
        begun = self.path / "begun.json"
        if not begun.is_file():
            found = [item.name for item in self.path.iterdir() if item.name[0] != "."]
            if found:
                raise ValueError(f"{path} holds {sorted(found)[:3]}; name an empty folder")
            self.json("begun.json", made_from)
        found = json.loads(begun.read_text(encoding="utf-8"))
        if found != made_from:
            other = [name for name in made_from if found.get(name) != made_from[name]]
            raise ValueError(
                f"{path} was begun with another {', '.join(other)}; name a new folder, or "
                "remove this one"
            )
        for left in self.path.rglob(".*.partial"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        done = self.path / "report.json"
        self.report = json.loads(done.read_text(encoding="utf-8")) if done.is_file() else None

    def has(self, name):
        """Whether the file or folder is there, whole."""
        return (self.path / name).exists()

    @contextlib.contextmanager
    def file(self, name):
        """A path to write a file or folder to, which gets its name when the block has ended."""
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        temp = path.with_name(f".{path.name}.partial")
        yield temp
        if path.is_dir():  # of a killed run; only empty ones are replaced below
            shutil.rmtree(path)
        if temp.is_file():
            with open(temp, "rb") as content:
                os.fsync(content.fileno())
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

    def finish(self, **report):
        """The report, a dict; the folder is finished."""
        self.report = report
        self.json("report.json", report)
        return report


def begin(out, raw, spec, engine, **options):
    """The Folder that an engine fills with the features of the folder `raw`.

    Raises FileNotFoundError for missing raw files and as `Folder`.
    """
    return Folder(out, engine=engine, spec=asdict(spec), raw=fingerprint(raw), **options)


def finish(folder, engine):
    """The report of a folder of features, a dict: engine, seconds by stage, rows by set."""
    rows = dict.fromkeys(SETS, 0)
    for name in SETS:
        for path in (folder.path / name).glob("*.parquet"):
            rows[name] += pq.read_metadata(path).num_rows
    return folder.finish(engine=engine, seconds=folder.seconds, rows=rows)


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
    found = [Path(raw) / f"{name}.csv" for name in SCHEMAS]
    if missing := [path.name for path in found if not path.is_file()]:
        raise FileNotFoundError(
            f"{raw} lacks {', '.join(missing)}; `outbrain.generate` writes such a log"
        )
    return [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in found]
