"""A data set on disk: `cases_0000.npz` and so on, each whole or not there."""

import ast
import hashlib
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
    `steps`, `number`. Raises FileNotFoundError for a folder without shards; a file that is not
    what was written fails its check sum.
    """
    parts, found = [], 0
    for path in sorted(Path(folder).glob("cases_*.npz")):
        if limit is None or found < limit:
            parts.append(_read(path))
            found += len(next(iter(parts[-1].values())))
    if not parts:
        need = "no shard is finished here; python -m storage_sites.generate makes them"
        raise FileNotFoundError(f"{folder}: {need}")
    return {name: torch.cat([part[name] for part in parts])[:limit] for name in parts[0]}


def _read(path):
    with np.load(path) as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


def kept(path, make):
    """A dict of tensors: the arrays of `make()`, called where there is no file `path` yet. They
    are written beside their place and moved there."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays, scratch = make(), path.with_name(f"{path.name}.{os.getpid()}.tmp")
        with scratch.open("wb") as file:
            np.savez_compressed(file, **arrays)
        scratch.replace(path)
    return _read(path)


def code_hash(paths):
    """SHA-256 of Python modules without their docstrings, comments and layout."""
    trees = [ast.parse(Path(path).read_text(encoding="utf-8")) for path in paths]
    for node in (node for tree in trees for node in ast.walk(tree)):
        documented = isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        if documented and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return hashlib.sha256("".join(map(ast.dump, trees)).encode()).hexdigest()
