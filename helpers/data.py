"""Data sets of the registry as verified files: downloaded or copied from a mirror, checked by SHA-256.

`data/registry.tsv` names each file's address, hash and exact size; nothing else is trusted. A file gets its
name only when it is whole and its hash is right. What an interruption leaves is resumed.
"""

import contextlib
import csv
import json
import os
import re
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from fnmatch import fnmatchcase
from pathlib import Path

from helpers import root
from helpers._download import DataError, File, fetch_all, sha256

__all__ = ["DataError", "extract", "fetch"]
COLUMNS = ["dataset", "file", "url", "sha256", "bytes", "licence", "citation", "used_for"]


def fetch(dataset, files=None, folder=None, workers=8, registry=None):
    """The folder (a `Path`) that holds the files of a data set, each verified by its SHA-256.

        folder = data.fetch("mitbih", ["100.dat", "*.hea"])

    `files`: names or patterns, default all; `folder`: default `_build/data/<dataset>` in the repository, else
    `~/.cache/rebuilt/<dataset>`. What is there and verified is not fetched again. REBUILT_DATA_MIRROR names a
    folder or an http(s) address with `<dataset>/<file>` below it, asked first; REBUILT_OFFLINE=1 forbids the
    network. Two processes may fetch at once. Raises ValueError for what the registry does not or must not
    hold, DataError for a file that cannot be had or has a wrong hash.
    """
    home = root()
    wanted = _registered(dataset, files, registry or home and home / "data" / "registry.tsv")
    folder = Path(folder or (home / "_build" / "data" if home else Path.home() / ".cache/rebuilt") / dataset)
    folder.mkdir(parents=True, exist_ok=True)
    targets = {file: _inside(folder, file.name) for file in wanted}
    with _locked(folder) as suffix:
        seen = folder / ".verified.json"  # sizes and times of files whose hash was right
        try:
            known = dict(json.loads(seen.read_text()))
        except (OSError, ValueError, TypeError):
            known = {}
        missing = [file for file in wanted if not _have(targets[file], file, known)]
        try:
            if missing:
                for file in fetch_all(dataset, missing, targets, suffix, workers):
                    _have(targets[file], file, known)
        finally:
            with contextlib.suppress(OSError):  # a read-only folder
                (temp := seen.with_suffix(suffix)).write_text(json.dumps(known, indent=0))
                os.replace(temp, seen)
    return folder


def extract(archive, folder, max_bytes=10**10, max_files=100_000):
    """The `folder` (a `Path`) with the unpacked files of a zip or tar archive, all of them or none.

    Done before, it is left as it is. Raises ValueError for a damaged archive, names that leave the folder,
    links and devices, more than `max_files` entries or `max_bytes` bytes; FileExistsError for a folder in use.
    """
    archive, folder, mark = Path(archive), Path(folder), sha256(Path(archive))
    done = folder / ".extracted"
    if done.is_file() and done.read_text() == mark:
        return folder
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} holds other files; remove it or name a new folder for {archive.name}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temp, left = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent)), max_bytes
    try:
        for count, (name, plain, stream) in enumerate(_entries(archive), 1):
            target = _inside(temp, name)
            if not plain or count > max_files:
                what = "a link or device" if not plain else f"entry {count}, {max_files} are allowed"
                raise ValueError(f"{archive.name}: {name!r} is {what}; refused")
            (target if stream is None else target.parent).mkdir(parents=True, exist_ok=True)
            if stream is not None:
                with stream, target.open("xb") as out:
                    while chunk := stream.read(2**16):
                        out.write(chunk)
                        if (left := left - len(chunk)) < 0:
                            raise ValueError(f"{archive.name} unpacks to more than {max_bytes} bytes; refused")
        (temp / done.name).write_text(mark)
        temp.chmod(0o755)
        if folder.exists():
            folder.rmdir()
        os.replace(temp, folder)
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, RuntimeError) as error:
        raise ValueError(f"{archive.name} is no whole zip or tar archive: {error}") from error
    finally:
        shutil.rmtree(temp, ignore_errors=True)
    return folder


def _registered(dataset, files, registry):
    if not registry or not Path(registry).is_file():
        raise ValueError(f"no registry of data sets at {registry}; run inside the book's repository")
    with open(registry, encoding="utf-8", newline="") as text:
        reader = csv.DictReader(text, delimiter="\t", quoting=csv.QUOTE_NONE)
        rows = list(reader)
    if reader.fieldnames != COLUMNS:
        raise ValueError(f"{registry}: columns {reader.fieldnames}; they must be {COLUMNS}")
    found = {}
    for row in (row for row in rows if row["dataset"] == dataset):
        name, url, sha, size = (row[key] or "" for key in COLUMNS[1:5])
        good = re.fullmatch("[0-9a-f]{64}", sha) and re.fullmatch("[0-9]+", size) and re.match("https?://.", url)
        if not good or name in found or re.search(r"(^|/)\.", name) or None in row or None in row.values():
            raise ValueError(
                f"{registry}: bad row for {name!r}: it needs {len(COLUMNS)} columns, a name of its own "
                f"without leading dots, an http(s) address, a SHA-256, a size; got {row}"
            )
        found[name] = File(name, url, sha, int(size))
    if not found:
        raise ValueError(f"no data set {dataset!r} in {registry}; it has {sorted({r['dataset'] for r in rows})}")
    picked = dict.fromkeys(found if files is None else ())
    for pattern in [files] if isinstance(files, str) else files or ():
        hits = [pattern] if pattern in found else [name for name in found if fnmatchcase(name, pattern)]
        if not hits:
            raise ValueError(f"no file {pattern!r} in {dataset}; it has {', '.join(list(found)[:40])}")
        picked |= dict.fromkeys(hits)
    return [found[name] for name in picked]


def _inside(folder, name):
    """The path of `name` in `folder`; ValueError where it would leave it."""
    parts = name.split("/")
    if {"", ".", ".."} & set(parts) or re.search(r"\\|\0|^[A-Za-z]:", name):
        raise ValueError(f"file name {name!r} refused: allowed are relative names that stay in {folder}")
    for i in range(len(parts)):
        if folder.joinpath(*parts[: i + 1]).is_symlink():
            raise ValueError(f"{folder.joinpath(*parts[: i + 1])} is a symbolic link: {name!r} may leave {folder}")
    return folder.joinpath(*parts)


@contextlib.contextmanager
def _locked(folder):
    """Lets one process at a time into the folder; gives the suffix of its unfinished files."""
    with contextlib.ExitStack() as stack:
        try:
            import fcntl

            handle = stack.enter_context((folder / ".lock").open("w"))
            fcntl.flock(handle, fcntl.LOCK_EX)
            suffix = ".part"
        except (ImportError, OSError):  # Windows, some network drives: names of its own, so nothing to resume
            suffix = f".{os.getpid()}.part"
        yield suffix


def _entries(archive):
    """(name, whether it is a plain file or folder, its open stream or None for a folder) of each entry."""
    if tarfile.is_tarfile(archive):
        with tarfile.open(archive) as tar:
            for entry in tar:
                name = re.sub(r"^(\./)+|/+$", "", entry.name)
                if not (entry.isdir() and name in ("", ".")):
                    plain = entry.isreg() or entry.isdir()
                    yield name, plain, tar.extractfile(entry) if entry.isreg() else None
        return
    with zipfile.ZipFile(archive) as pack:
        for entry in pack.infolist():
            plain = stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG, stat.S_IFDIR)
            yield entry.filename.rstrip("/"), plain, None if entry.is_dir() else pack.open(entry)


def _have(target, file, known):
    if not target.is_file() or target.stat().st_size != file.bytes:
        return False
    stamp = [file.bytes, target.stat().st_mtime_ns, file.sha256]
    if known.get(file.name) != stamp and sha256(target) != file.sha256:
        return False
    known[file.name] = stamp
    return True
