"""Data sets of the registry as verified files: a file gets its name when it is whole and has the registry's SHA-256."""

import contextlib
import csv
import json
import os
import re
from fnmatch import fnmatchcase
from pathlib import Path

from helpers import root
from helpers._download import DataError, File, fetch_all, sha256

__all__ = ["DataError", "fetch"]
COLUMNS = ["dataset", "file", "url", "sha256", "bytes", "licence", "citation", "used_for"]


def fetch(dataset, files=None, folder=None, workers=4, registry=None):
    """The folder (a `Path`) of a data set's verified files: `data.fetch("mitbih", ["100.dat", "*.hea"])`.
    `files`: names or patterns, default all; `folder`: default `_build/data/<dataset>` in the repository, else in
    `~/.cache/rebuilt`. REBUILT_DATA_MIRROR, a folder or http(s) address with `<dataset>/<file>` below it, is asked
    first; REBUILT_OFFLINE=1 forbids the network. ValueError: not in the registry; DataError: a file cannot be had.
    """
    home = root()
    wanted = _registered(dataset, files, Path(registry or (home or Path()) / "data" / "registry.tsv"))
    folder = Path(folder or (home / "_build" / "data" if home else Path.home() / ".cache/rebuilt") / dataset)
    folder.mkdir(parents=True, exist_ok=True)
    targets = {file: _inside(folder, file.name) for file in wanted}
    suffix = f".{os.getpid()}.part"  # Windows, some network drives: names of its own, nothing to resume
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError):  # one process at a time in the folder
            import fcntl

            fcntl.flock(stack.enter_context((folder / ".lock").open("w")), fcntl.LOCK_EX)
            suffix = ".part"
        notes, known = folder / ".verified.json", {}  # sizes and times of files whose hash was right
        with contextlib.suppress(OSError, ValueError, TypeError):
            known = dict(json.loads(notes.read_text()))
        missing = [file for file in wanted if not _have(targets[file], file, known)]
        try:
            for file in fetch_all(dataset, missing, targets, suffix, workers) if missing else ():
                _have(targets[file], file, known)
        finally:
            with contextlib.suppress(OSError):  # a read-only folder
                notes.write_text(json.dumps(known, indent=0))
    return folder


def _registered(dataset, files, registry):
    """The Files of a data set, as far as `files` picks them."""
    if not registry.is_file():
        raise ValueError(f"no registry of data sets at {registry}; run inside the book's repository")
    with registry.open(encoding="utf-8", newline="") as text:
        rows = list(reader := csv.DictReader(text, delimiter="\t", quoting=csv.QUOTE_NONE))
    if reader.fieldnames != COLUMNS:
        raise ValueError(f"{registry}: columns {reader.fieldnames}; they must be {COLUMNS}")
    found, picked = {}, {}
    for row in (row for row in rows if row["dataset"] == dataset):
        name, url, sha, size = (row[key] or "" for key in COLUMNS[1:5])
        good = re.fullmatch("[0-9a-f]{64}", sha) and re.fullmatch("[0-9]+", size) and re.match("https?://.", url)
        if not good or name in found or re.search(r"(^|/)\.", name) or None in row or None in row.values():
            need = f"{len(COLUMNS)} columns, a name of its own without leading dots, http(s), SHA-256, a size"
            raise ValueError(f"{registry}: the row of {name!r} is refused; it needs {need}; got {row}")
        found[name] = File(name, url, sha, int(size))
    if not found:
        raise ValueError(f"no data set {dataset!r} in {registry}; it has {sorted({r['dataset'] for r in rows})}")
    for pattern in found if files is None else [files] if isinstance(files, str) else files:
        hits = [pattern] if pattern in found else [name for name in found if fnmatchcase(name, pattern)]
        if not hits:
            raise ValueError(f"no file {pattern!r} in {dataset}; it has {', '.join(list(found)[:40])}")
        picked |= {name: found[name] for name in hits}
    return list(picked.values())


def _inside(folder, name):
    """The path of `name` in `folder`; ValueError where it would leave it."""
    parts = name.split("/")
    if {"", ".", ".."} & set(parts) or re.search(r"\\|\0|^[A-Za-z]:", name):
        raise ValueError(f"file name {name!r} refused: allowed are relative names that stay in {folder}")
    for path in (folder.joinpath(*parts[: at + 1]) for at in range(len(parts))):
        if path.is_symlink():
            raise ValueError(f"{path} is a symbolic link: {name!r} may leave {folder}; refused")
    return path


def _have(target, file, known):
    if target.is_file() and target.stat().st_size == file.bytes:
        stamp = [file.bytes, target.stat().st_mtime_ns, file.sha256]
        if known.get(file.name) == stamp or sha256(target) == file.sha256:
            known[file.name] = stamp
            return True
