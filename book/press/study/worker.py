"""The process of one study, in the slice's folder: measures what is missing, then writes the receipt.

What was made and scored is kept in files, each written whole, so that a process that was ended loses one arm at most.
"""

import argparse
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

LATER = 75  # the exit status when there is more to do in another process
MOST_BYTES = 1 << 30  # of one arm's end that is kept


class Later(Exception):
    """This process has worked long enough; another one goes on."""


class Kept:
    """A `keep` of `running.run` with files: `<folder>/<kind>-<arm>-<seed>`; begins nothing new after `until`."""

    def __init__(self, folder: Path, until: float = float("inf")):
        self.folder, self.until = folder, until
        self._inner = [0.0]  # seconds that are counted already, of what is computed inside of what

    def __call__(self, kind: str, name: str, seed: int, compute: Callable[[], Any]) -> Any:
        path = self.folder / f"{kind}-{quote(name, safe=' ')}-{seed}.json"
        known = read_json(path)
        if known is not None and (kind != "made" or _packed(path).is_file()):
            return _read(path) if kind == "made" else known["value"]
        if kind == "made" and time.monotonic() > self.until:  # each scoring asks for what was made first
            raise Later
        self._inner.append(0.0)
        began = time.monotonic()
        value = compute()
        took = time.monotonic() - began  # of all of it
        own = took - self._inner.pop()
        self._inner[-1] += took
        print(f"{name or kind}, seed {seed}: {kind} in {own:.0f} s", flush=True)
        return self._write(path, kind, value, own + (known or {"seconds": 0.0})["seconds"])

    def _write(self, path: Path, kind: str, value: Any, seconds: float) -> Any:
        if kind == "made":
            try:
                packed = pickle.dumps(value)
            except Exception:  # what holds a process or a function cannot be kept, and is made anew
                packed = None
            write_json(path, {"value": None, "seconds": seconds})
            if packed is None or len(packed) > MOST_BYTES:
                return value
            write_bytes(_packed(path), packed)
            return _read(path)
        write_json(path, {"value": value, "seconds": seconds})
        return read_json(path)["value"]


def _packed(path: Path) -> Path:
    return path.with_name(f"{path.name}.pickle")


def _read(path: Path) -> Any:
    """An end that this code's own process kept: the folder is named by the code's hash, in the user's own cache."""
    return pickle.loads(_packed(path).read_bytes())


def studies_of(module: str) -> dict[str, Study]:
    """The studies that a module of the current folder declares, by name."""
    sys.path.insert(0, os.getcwd())
    found = vars(importlib.import_module(module)).values()
    return {one.name: one for one in found if isinstance(one, Study)}


def measured(study: Study, kept: Kept, command: str, script: str) -> Path:
    """The receipt's path, once every arm and seed is there."""
    tier = device.tier("auto")
    receipt = receipts.start(study.notebook, tier, threads=study.threads)
    found = run(study, kept)
    record(study, receipt, found)
    counted = kept("counted", "", study.seeds[0], dict)  # written by the run, or empty
    numbers = {name: size for name, size in study.sizes.items() if isinstance(size, int | float)}
    receipt.sizes(**numbers, **{f"units_{name}": count for name, count in counted.items()}, seeds=len(study.seeds))
    receipt.script, receipt.command = script, command
    receipt.study = {"name": study.name, "seeds": list(study.seeds), "over": study.over, "added": study.added}
    return receipt.write(study.name)


def main(arguments: list[str]) -> int:
    """The exit status: 0 with a receipt, or `LATER`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("--study")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--command", default="")
    parser.add_argument("--trial", action="store_true")
    given = parser.parse_args(arguments)
    studies = studies_of(given.module)
    if not given.study:
        print(json.dumps({name: [one.notebook, one.threads] for name, one in studies.items()}))
        return 0
    study = studies[given.study]
    study = replace(study.small(), name=f"{study.name}-trial") if given.trial else study
    kept = Kept(given.folder, time.monotonic() + given.seconds)
    script = given.module.replace(".", "/") + ".py"
    try:
        print(measured(study, kept, given.command, script))
    except Later:
        return LATER
    return 0
