"""Files written whole or not at all, hashes, and the lock that keeps two presses apart."""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from .errors import PressError


def write_bytes(path: Path, content: bytes) -> Path:
    """The path, now holding `content`: a reader sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        beside.write_bytes(content)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def write_text(path: Path, content: str) -> Path:
    """The path, now holding `content` in UTF-8, written atomically."""
    return write_bytes(path, content.encode("utf-8"))


def write_json(path: Path, content: object) -> Path:
    """The path, now holding `content` as indented JSON, written atomically."""
    return write_text(path, json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


def read_json(path: Path) -> object | None:
    """What the JSON file holds; None when it is absent or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def sha256(content: bytes | str) -> str:
    """The hex SHA-256 of some bytes, or of a text in UTF-8."""
    return hashlib.sha256(content.encode("utf-8") if isinstance(content, str) else content).hexdigest()


@functools.cache
def _validator(schema: Path) -> object:
    import jsonschema

    return jsonschema.Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))


def breaches(schema: Path, content: object, whole: str) -> list[str]:
    """What is wrong by a JSON schema, with its place, or the `whole`, in the words that a part has as `allowed`."""
    found = []
    for error in _validator(schema).iter_errors(content):
        place, allowed = ".".join(map(str, error.absolute_path)) or whole, error.schema.get("allowed")
        found.append(f"{place} {error.instance!r}: {allowed}" if allowed else f"{place}: {error.message}")
    return found


def remove(path: Path) -> bool:
    """Whether there was a file, link or folder at `path`; it is gone now."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
        return True
    existed = path.exists() or path.is_symlink()
    path.unlink(missing_ok=True)
    return existed


def swap_folder(new: Path, old: Path) -> None:
    """Put the folder `new` in the place of `old`; a reader of `old` sees one or the other."""
    aside = old.with_name(f".{old.name}.{uuid.uuid4().hex[:8]}.old")
    if old.exists():
        os.replace(old, aside)
    os.replace(new, old)
    remove(aside)


@contextlib.contextmanager
def lock(path: Path, what: str) -> Iterator[None]:
    """Hold the lock file while the block runs (it goes with its holder); PressError when another press does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            raise PressError(f"another press is at work here ({handle.read().strip()}): wait for it") from None
        handle.truncate(0)
        handle.write(f"process {os.getpid()}, {what}")
        handle.flush()
        yield
