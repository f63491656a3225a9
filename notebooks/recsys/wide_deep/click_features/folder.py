"""A folder that is filled file by file and survives a kill: of features, batches or a training.

`begun.json` says what the content is made from. A file has its name only when it is whole and
on the disk. `report.json` comes last, so a folder without it is not finished. The same call
goes on from the files that are there; another call, or one whose source has changed since, is
refused. Files lie in a `Store`, a folder of this machine, or in its like: `spark_log` has one
that Spark's file systems reach.

Features lie in `train/*.parquet` and `valid/*.parquet`, sorted by display_id and ad_id across
the parts in the order of their names; `statistics.json` is what was fitted on train.
"""

import contextlib
import json
import os
import shutil
import time
from pathlib import Path

import pyarrow.parquet as pq
from outbrain import SCHEMAS

from .spec import SETS


class Store:
    """A folder of this machine, made if it is not there."""

    def __init__(self, path):
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)

    def names(self):
        """Names in the folder, hidden ones aside, sorted."""
        return sorted(item.name for item in self.path.iterdir() if item.name[0] != ".")

    def has(self, name):
        """Whether the file or folder is there."""
        return (self.path / name).exists()

    def read(self, name):
        """The text of a file."""
        return (self.path / name).read_text(encoding="utf-8")

    def write(self, name, text):
        """None; writes a text, in place: `publish` it afterwards."""
        (self.path / name).write_text(text, encoding="utf-8")

    def publish(self, hidden, name):
        """None; flushes a file or folder to the disk and gives it its name."""
        hidden, path = self.path / hidden, self.path / name
        if path.is_dir():  # of a killed run; only empty ones are replaced below
            shutil.rmtree(path)
        if hidden.is_file():
            with open(hidden, "rb") as content:
                os.fsync(content.fileno())
        os.replace(hidden, path)

    def remove(self, name):
        """None; removes a file or folder if it is there."""
        path = self.path / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def stamp(self, name):
        """[size, time of change] of a file; FileNotFoundError where there is none."""
        found = (self.path / name).stat()
        return [found.st_size, found.st_mtime_ns]


class Folder:
    """A folder being filled: `Folder("out", engine="polars", seed=0)`.

    >>> with folder.file("part-00000.parquet") as path:
    ...     table.write_parquet(path)

    store: a `Store` or its like, or a path. made_from: what the content depends on, as JSON can
    hold it. `report` is that of an earlier run that ended, or None. Raises ValueError for a
    folder that holds anything but the beginning of the same run.
    """

    def __init__(self, store, **made_from):
        self.store, self.seconds = store if hasattr(store, "publish") else Store(store), {}
        made_from, found = json.loads(json.dumps(made_from)), self.store.names()
        if "begun.json" not in found:
            if found:
                raise ValueError(f"{store} holds {found[:3]}; name an empty folder")
            self.json("begun.json", made_from)
        begun = json.loads(self.store.read("begun.json"))
        if begun != made_from:
            other = [name for name in made_from if begun.get(name) != made_from[name]]
            raise ValueError(
                f"{store} was begun with another {', '.join(other)}; name a new folder, or "
                "remove this one"
            )
        done = "report.json" in found
        self.report = json.loads(self.store.read("report.json")) if done else None

    def has(self, name):
        """Whether the file or folder is there, whole."""
        return self.store.has(name)

    @contextlib.contextmanager
    def file(self, name):
        """A Path to write a file to, which gets its name when the block has ended."""
        hidden = Path(name).with_name(f".{Path(name).name}.partial")
        path = self.store.path / hidden
        path.parent.mkdir(exist_ok=True)
        yield path
        self.store.publish(hidden, name)

    @contextlib.contextmanager
    def stage(self, name):
        """Adds the seconds of the block to those of the stage."""
        began = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    def json(self, name, content):
        """Writes a dict, whole or not at all."""
        self.store.write(f".{name}.partial", json.dumps(content, indent=1) + "\n")
        self.store.publish(f".{name}.partial", name)

    def finish(self, **report):
        """The report, a dict; the folder is finished."""
        self.report = report
        self.json("report.json", report)
        return report


def begin(out, raw, engine, folds, **options):
    """The Folder that an engine fills with the features of the folder `raw`, stores or paths.

    Raises FileNotFoundError for missing raw files, ValueError for folds below 0 or of 1, and as
    `Folder`.
    """
    if folds < 0 or folds == 1:
        raise ValueError(f"{folds} folds; 0 counts a row's own click, 2 or more leave it out")
    if not hasattr(raw, "stamp"):
        if not Path(raw).is_dir():
            raise FileNotFoundError(
                f"{raw} is no folder; `outbrain.generate` writes such a log"
            )
        raw = Store(raw)
    if missing := [f"{name}.csv" for name in SCHEMAS if not raw.has(f"{name}.csv")]:
        raise FileNotFoundError(
            f"{raw.path} lacks {', '.join(missing)}; `outbrain.generate` writes such a log"
        )
    stamps = [[name, *raw.stamp(f"{name}.csv")] for name in SCHEMAS]
    return Folder(out, engine=engine, folds=folds, raw=stamps, **options)


def finish(folder, engine):
    """The report of a folder of features, a dict: engine, seconds by stage, rows by set."""
    parts = {name: (folder.store.path / name).glob("*.parquet") for name in SETS}
    rows = {
        name: sum(pq.read_metadata(p).num_rows for p in found) for name, found in parts.items()
    }
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
