"""A folder of features that is whole or says that it is not: parts, resumed after a kill.

Each part is written under another name and gets its own when it is whole (`os.replace`). What
the folder is made of, `about.json`, is written first, what was measured, `report.json`, last:
a folder with a report is finished. A killed run is gone on with by the same call, which keeps
the parts that are there.
"""

import contextlib
import json
import os
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pyarrow.parquet as pq
from feature_spec import SETS

_FORMAT = 1


class Output:
    """A folder for features: `done` is the report of a finished run, or None.

    >>> out = Output("features", Spec(), "outbrain", engine="polars", rows=500_000)
    >>> if not out.has("train", 0):
    ...     out.write("train", 0, frame.write_parquet)

    options: what, beside spec and raw files, decides on the content of parts. Raises ValueError
    for a folder that holds something else.
    """

    def __init__(self, folder, spec, folder_raw, **options):
        self.folder, self.report = Path(folder), {"seconds": {}, "rows": {}}
        raw = {
            path.name: [path.stat().st_size, path.stat().st_mtime_ns]
            for path in sorted(Path(folder_raw).glob("*.csv"))
        }
        about = {"format": _FORMAT, "spec": asdict(spec), "raw": raw, "options": options}
        about = json.loads(json.dumps(about))
        path = self.folder / "about.json"
        found = json.loads(path.read_text()) if path.is_file() else None
        if found != about and self.folder.is_dir() and any(self.folder.iterdir()):
            differs = [key for key in about if not found or found.get(key) != about[key]]
            what = f"features of another {', '.join(differs)}" if found else "other files"
            raise ValueError(f"{self.folder} holds {what}; name an empty or new folder")
        for name in SETS:
            (self.folder / name).mkdir(parents=True, exist_ok=True)
            for left in (self.folder / name).glob(".part-*"):
                left.unlink()
        self.write_json("about.json", about)
        done = self.folder / "report.json"
        self.done = json.loads(done.read_text()) if done.is_file() else None

    def path(self, name, number):
        """The path of a part of the set `name`; parts in the order of names are in row order."""
        return self.folder / name / f"part-{number:05d}.parquet"

    def has(self, name, number):
        """True for a part that is there, and whole."""
        return self.path(name, number).is_file()

    def write(self, name, number, write):
        """None; `write(path)` writes the part, which then gets its name."""
        path = self.path(name, number)
        temp = path.with_name(f".{path.name}")
        write(temp)
        os.replace(temp, path)

    def write_json(self, name, content):
        """None; writes a JSON file, whole or not at all."""
        temp = self.folder / f".{name}"
        temp.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        os.replace(temp, self.folder / name)

    @contextlib.contextmanager
    def stage(self, name):
        """A context whose seconds are added to those of the stage `name` in the report."""
        began = time.perf_counter()
        yield
        seconds = Counter(self.report["seconds"]) + Counter({name: time.perf_counter() - began})
        self.report["seconds"] = dict(seconds)

    def finish(self):
        """The report, once everything is written: {"seconds": {stage: s}, "rows": {set: n}}."""
        for name in SETS:
            parts = (self.folder / name).glob("part-*.parquet")
            self.report["rows"][name] = sum(pq.read_metadata(path).num_rows for path in parts)
        self.write_json("report.json", self.report)
        return self.report


def paths(folder, name):
    """The Parquet files of the set `name` ("train", "valid") in the order of their rows.

    Raises FileNotFoundError for a folder that was not finished.
    """
    if not (Path(folder) / "report.json").is_file():
        raise FileNotFoundError(
            f"{folder} has no report.json: not finished; call `build` again"
        )
    return sorted((Path(folder) / name).glob("part-*.parquet"))
