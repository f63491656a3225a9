"""A data set on disk that can be interrupted: whole shards, and an index that says what
they are.

A folder holds `cases_0000.npz` and so on, and `index.json`: how the data set was made (seed,
grid, ranges, a hash of the code) and for each shard its SHA-256, bytes and number of cases.
Files are written beside their place and moved there, so a shard is whole or not there.
"""

import ast
import hashlib
import json
import os
from pathlib import Path

import numpy as np
import torch


def load(folder, limit=None):
    """A dict of tensors, first axis N, of all finished shards, or of the first `limit` cases.

    Fields, float32: `permeability` (mD), `porosity` [N, Z, R]; `saturation`, `pressure`
    (bar of build-up) [N, T, Z, R]. `mask` [N, Z, R] and `perforation_mask` [N, Z], bool.
    [N] float64: `kv_kh`, `thickness`, `depth` (m), `rate` (Mt a year), `swi`, `lam`,
    `balance`, `seconds`. Also `perforation` [N, 2] in m, `bottom_hole` [N, T] in bar,
    `steps`, `number`. Raises FileNotFoundError for a folder without an index, ValueError
    for a file that is not what was written.
    """
    path = Path(folder) / "index.json"
    if not path.exists():
        need = "no data set here; python -m storage_sites.generate makes one"
        raise FileNotFoundError(f"{path}: {need}")
    parts, found = [], 0
    for name, entry in json.loads(path.read_text())["shards"].items():
        if limit is not None and found >= limit:
            break
        verify_shard(path.with_name(name), entry)
        with np.load(path.with_name(name)) as file:
            parts.append({key: file[key] for key in file.files})
        found += entry["cases"]
    if not parts:
        raise ValueError(f"{path}: no shard is finished yet")
    joined = {key: np.concatenate([part[key] for part in parts])[:limit] for key in parts[0]}
    return {key: torch.from_numpy(array) for key, array in joined.items()}


def open_index(folder, made):
    """The folder's index, or a new one with what `made` says; ValueError if it says
    otherwise."""
    made = json.loads(json.dumps(made))
    path = Path(folder) / "index.json"
    if not path.exists():
        return made | {"shards": {}}
    index = json.loads(path.read_text())
    other = ", ".join(name for name in made if index.get(name) != made[name])
    if other:
        raise ValueError(f"{path} was made with another {other}: take a new folder")
    for name, entry in index["shards"].items():
        verify_shard(path.with_name(name), entry)
    return index


def add_shard(folder, index, arrays):
    """The index with one shard more, both written to the folder."""
    name = f"cases_{len(index['shards']):04d}.npz"
    scratch = Path(folder) / f"{name}.{os.getpid()}.tmp"
    with scratch.open("wb") as file:
        np.savez_compressed(file, **arrays)
    entry = {"sha256": sha256(scratch), "bytes": scratch.stat().st_size}
    entry["cases"] = len(next(iter(arrays.values())))
    scratch.replace(Path(folder) / name)
    index = index | {"shards": index["shards"] | {name: entry}}
    scratch = Path(folder) / f"index.json.{os.getpid()}.tmp"
    scratch.write_text(json.dumps(index, indent=1))
    scratch.replace(Path(folder) / "index.json")
    return index


def verify_shard(path, entry):
    """None; ValueError if a shard is missing or is not what was written."""
    found = sha256(path) if path.exists() else "no file"
    if found != entry["sha256"]:
        told = f"SHA-256 {found[:12]}…, the index says {entry['sha256'][:12]}…"
        raise ValueError(f"{path}: {told}; delete the folder and generate the data set again")


def kept(path, make):
    """A dict of tensors: the arrays of `make()`, called where there is no file `path` yet."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **make())
    with np.load(path) as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


def sha256(path):
    """The hexadecimal SHA-256 of a file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def code_hash(paths):
    """SHA-256 of Python modules without their docstrings, comments and layout."""
    trees = [ast.parse(Path(path).read_text(encoding="utf-8")) for path in paths]
    for node in (node for tree in trees for node in ast.walk(tree)):
        documented = isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        if documented and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return hashlib.sha256("".join(map(ast.dump, trees)).encode()).hexdigest()
