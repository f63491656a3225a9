"""Data sets of the registry as verified files, from a mirror or their address: bounded, resumed, verified, atomic."""

import contextlib
import csv
import hashlib
import http.client
import os
import random
import re
import shutil
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor, as_completed
from fnmatch import fnmatchcase
from pathlib import Path

from helpers import root

COLUMNS = ["dataset", "file", "url", "sha256", "bytes", "licence", "citation", "used_for"]
STALL_S = 20  # a connection, and each read from it, may take this long
GRACE_S, SLOWEST = 60, 20_000  # in all, a file may take a minute and its bytes at 20 kB/s
TRIES, BACKOFF_S = 4, 0.5  # for what may get better: 5xx, timeouts, broken connections, short bodies
PATIENCE_S = 900  # and a server may ask for a pause of so long in all: that costs no try
_rests = {}  # host -> when it may be asked again: one file's answer holds for all
File = namedtuple("File", "name url sha256 bytes")


class DataError(RuntimeError):
    """A file that cannot be had, or is not what the registry says; nothing wrong is kept."""


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
    targets = {file: folder / file.name for file in wanted}
    for path in {folder / file.name.rsplit("/", up)[0] for file in wanted for up in range(file.name.count("/") + 1)}:
        if path.is_symlink():
            raise ValueError(f"{path} is a symbolic link: what is written there may leave {folder}; refused")
    suffix = f".{os.getpid()}.part"  # Windows, some network drives: names of its own, nothing to resume
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError):  # one process at a time in the folder
            import fcntl

            fcntl.flock(stack.enter_context((folder / ".lock").open("w")), fcntl.LOCK_EX)
            suffix = ".part"
        missing = {file: path for file, path in targets.items() if not path.is_file() or _sha256(path) != file.sha256}
        if missing:
            _fetch_all(dataset, missing, suffix, workers)
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
        outside = re.search(r"(^|/)(\.|/|$)|\\|\0|^[A-Za-z]:", name)  # the folder, on some system, or hidden in it
        if not good or name in found or outside or None in row or None in row.values():
            need = f"{len(COLUMNS)} columns, a relative name of its own without leading dots, http(s), SHA-256, a size"
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


def _fetch_all(dataset, targets, suffix, workers):
    """None, once every File of `targets`, {File: Path}, is in its place; one progress bar for all; DataError if not."""
    from tqdm import tqdm

    stop, lock, done = threading.Event(), threading.Lock(), {}

    def report(file, size, note=""):
        with lock:
            done[file] = size
            bar.set_postfix_str(note, refresh=bool(note))
            bar.update(sum(done.values()) - bar.n)

    bar = tqdm(total=sum(file.bytes for file in targets), desc=dataset, unit="B", unit_scale=True, leave=False)
    with bar, ThreadPoolExecutor(workers) as pool:
        jobs = [pool.submit(_fetch, dataset, file, path, suffix, report, stop) for file, path in targets.items()]
        try:
            for job in as_completed(jobs):
                job.result()
        except BaseException:  # an interruption as well; what is half done stays for the next time
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _sha256(path):
    """The SHA-256 of a file, as 64 hexadecimal digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _fetch(dataset, file, target, suffix, report, stop):
    name, mirror = f"{dataset}/{file.name}", os.environ.get("REBUILT_DATA_MIRROR", "").rstrip("/")
    offline = os.environ.get("REBUILT_OFFLINE", "0") not in ("", "0")
    mirrored = [f"{mirror}/{urllib.parse.quote(name) if '://' in mirror else name}"] if mirror else []
    part, problems = target.with_name(f".{target.name}{suffix}"), ""
    target.parent.mkdir(parents=True, exist_ok=True)
    if part.is_symlink():
        part.unlink()
    for source in [*mirrored, file.url]:
        try:
            if "://" not in source:
                copied = Path(source).expanduser()
                if not copied.is_file() or copied.stat().st_size != file.bytes:
                    raise DataError(f"no file of {file.bytes:,} bytes there")
                _verify(Path(shutil.copyfile(copied, part)), file)
            elif offline:
                raise DataError("not asked, because REBUILT_OFFLINE is set")
            else:
                _download(source, part, file, report, stop)
            report(file, file.bytes)
            return os.replace(part, target)
        except (DataError, OSError) as error:
            problems += f"\n  from {source}: {error}"
    remedy = f"Put it at {target}, or set REBUILT_DATA_MIRROR to a folder or address that holds {name}; run again."
    raise DataError(f"{name} ({file.bytes:,} bytes) cannot be had{problems}\n{remedy}")


def _download(url, part, file, report, stop):
    deadline, patience, tries = time.monotonic() + GRACE_S + file.bytes / SLOWEST, PATIENCE_S, 0
    host = urllib.parse.urlsplit(url).netloc
    while tries < TRIES:
        if (rest := _rests.get(host, 0) - time.monotonic()) > 0:
            deadline += rest
            report(file, 0, f"{host} asks for a pause of {rest:.0f} s")
        pause = BACKOFF_S * 2 ** (tries - 1) if tries else BACKOFF_S * (rest > 0)
        stop.wait(max(rest, 0) + pause * random.uniform(0.5, 1))  # not all at once
        try:
            return _receive(url, part, file, report, stop, deadline)
        except urllib.error.HTTPError as error:
            last, asked = f"HTTP {error.code} {error.reason}", error.headers.get("Retry-After") or ""
            error.close()
            if error.code < 500 and error.code not in (408, 429):
                raise DataError(last) from None
            rest = int(asked) if asked.isdecimal() else 60 * bool(asked)  # a date: a minute
            if (patience := patience - rest) < 0:
                raise DataError(f"{last}: asked to come back in {rest} s; what came is kept") from None
            _rests[host], tries = time.monotonic() + rest, tries + (not rest)
        except (http.client.HTTPException, OSError) as error:
            last, tries = f"{error or type(error).__name__}", tries + 1
    raise DataError(f"{TRIES} tries failed, at last with: {last}")


def _receive(url, part, file, report, stop, deadline):
    """None, once `part` is whole and verified; it goes on from the bytes that are there."""
    size = resumed = part.stat().st_size if part.exists() else 0
    if size < file.bytes or not part.exists():
        opener = urllib.request.build_opener()
        for scheme in ("ftp", "file", "data"):  # http and https alone, wherever a redirection leads
            opener.handle_open.pop(scheme, None)
        request = urllib.request.Request(url, headers={"Range": f"bytes={size}-"} if size else {})
        with opener.open(request, timeout=STALL_S) as answer:
            if answer.status != 206:  # the whole file, even where a piece was asked for
                size = resumed = 0
            with part.open("ab" if size else "wb") as out:
                while size < file.bytes:  # and never beyond: the registry has the size, the hash decides
                    report(file, size)
                    if stop.is_set() or time.monotonic() > deadline:
                        why = "stopped" if stop.is_set() else "too slow, given up"
                        raise DataError(f"{why} after {size:,} of {file.bytes:,} bytes")
                    if not (chunk := answer.read1(min(2**16, file.bytes - size))):
                        raise ConnectionError(f"the connection ended after {size:,} of {file.bytes:,} bytes")
                    size += out.write(chunk)
    _verify(part, file, resumed)


def _verify(part, file, resumed=False):
    if (found := _sha256(part)) != file.sha256:
        part.unlink()
        problem = f"wrong SHA-256 {found}, the registry has {file.sha256}; refused"
        raise ConnectionError(problem) if resumed else DataError(problem)  # a changed file: again, from the start
