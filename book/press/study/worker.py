"""The process of one study, in the chapter's folder: measures what is missing, then writes the receipt. What was made
and scored is kept in files, each written whole: a process that is ended loses one arm at most. Where a study lets two
`processes` work, a second begins at the last seed and goes back, until both are at the same arm and seed."""

import importlib
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from helpers import device, receipts
from helpers.study import Study

from ..files import read_json, remove, write_bytes, write_json
from .running import record, run

MOST_BYTES = 1 << 30  # of one arm's end that is kept


class Kept:
    """A `keep` of `running.run` with files: `<folder>/<kind>-<arm>-<seed>`."""

    def __init__(self, folder: Path, second: bool = False):
        self.folder, self.second, self.other = folder, second, None
        self._inner = [0.0]  # seconds that are counted already, of what is computed inside of what

    def __call__(self, kind: str, name: str, seed: int, compute: Callable[[], Any]) -> Any:
        path = self.folder / f"{kind}-{quote(name, safe=' ')}-{seed}.json"
        packed, known = path.with_name(f"{path.name}.pickle"), read_json(path)
        if known is not None and kind != "made":
            return known["value"]
        if kind == "scored" and self._met(path.name):
            return self(kind, name, seed, compute)
        if packed.is_file() and known is not None:
            return pickle.loads(packed.read_bytes())  # this code's own: the folder, the user's, is named by its hash
        self._inner.append(0.0)
        began = time.monotonic()
        value = compute()
        took = time.monotonic() - began  # of all of it
        own = took - self._inner.pop()
        self._inner[-1] += took
        print(f"{name or kind}, seed {seed}: {kind} in {own:.0f} s", flush=True)
        seconds = own + (known or {"seconds": 0.0})["seconds"]
        write_json(path, {"value": None if kind == "made" else value, "seconds": seconds})
        return _kept(packed, value) if kind == "made" else read_json(path)["value"]

    def _met(self, job: str) -> bool:
        """Says which job this process is at; where the other is at the same, the second ends and the first waits."""
        own, its = (self.folder / f"process-{second}" for second in (self.second, not self.second))
        write_bytes(own, job.encode())
        if not its.is_file() or its.read_text() != job:
            return False
        if self.second:
            raise SystemExit
        return remove(its) and self.other is not None and self.other.wait() is not None


def _kept(packed: Path, value: Any) -> Any:
    """An arm's end as the next process will read it, or as it is where it cannot be kept and is made anew."""
    try:
        content = pickle.dumps(value)
    except Exception:  # it holds a process or a function
        return value
    if len(content) > MOST_BYTES:
        return value
    write_bytes(packed, content)
    return pickle.loads(content)


def measured(study: Study, kept: Kept, command: str, script: str) -> Path:
    """The receipt's path, once every arm and seed is there."""
    receipt = receipts.start(study.notebook, device.tier("auto"), threads=study.threads)
    record(study, receipt, run(study, kept))
    counted = kept("counted", "", study.seeds[0], dict)  # written by the run, or empty
    numbers = {name: size for name, size in study.sizes.items() if isinstance(size, int | float)}
    receipt.sizes(**numbers, **{f"units_{name}": count for name, count in counted.items()}, seeds=len(study.seeds))
    receipt.script, receipt.command = script, command
    receipt.study = {"name": study.name, "seeds": list(study.seeds), "over": study.over, "added": study.added}
    return receipt.write(study.name)


def main(_: object, arguments: list[str]) -> int:
    """The exit status; prints the receipt's path or, without a study, what the module declares."""
    task = json.loads(arguments[0])
    module, name = task["module"], task.get("study")
    sys.path.insert(0, os.getcwd())
    found = vars(importlib.import_module(module)).values()
    studies = {one.name: one for one in found if isinstance(one, Study)}
    if not name:
        print(json.dumps({name: [one.notebook, one.threads] for name, one in studies.items()}))
        return 0
    study = replace(studies[name].small(), name=f"{name}-trial") if task["trial"] else studies[name]
    kept = Kept(Path(task["folder"]), bool(task.get("second")))
    if kept.second:
        run(study, kept, turn=reversed)
    else:
        remove(kept.folder / "process-True")  # of a piece that was ended
        if study.processes > 1:
            kept.other = subprocess.Popen([*sys.orig_argv[:-1], json.dumps(task | {"second": True})])
        print(measured(study, kept, task["command"], module.replace(".", "/") + ".py"))
    return 0
