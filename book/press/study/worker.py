"""The process of one study, in the chapter's folder: measures what is missing, then writes the receipt. What was made
and scored is kept in files, each written whole: a process that is ended loses one arm at most."""

import importlib
import json
import os
import pickle
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from helpers import device, receipts
from helpers.study import Study

from ..files import read_json, write_bytes, write_json
from .running import record, run

MOST_BYTES = 1 << 30  # of one arm's end that is kept


class Kept:
    """A `keep` of `running.run` with files: `<folder>/<kind>-<arm>-<seed>`."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._inner = [0.0]  # seconds that are counted already, of what is computed inside of what

    def __call__(self, kind: str, name: str, seed: int, compute: Callable[[], Any]) -> Any:
        path = self.folder / f"{kind}-{quote(name, safe=' ')}-{seed}.json"
        packed, known = path.with_name(f"{path.name}.pickle"), read_json(path)
        if known is not None and kind != "made":
            return known["value"]
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
    print(measured(study, Kept(Path(task["folder"])), task["command"], module.replace(".", "/") + ".py"))
    return 0
