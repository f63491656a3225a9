"""How `helpers.data` brings one file here, from a mirror or its address: bounded, resumed, verified, atomic."""

import contextlib
import hashlib
import http.client
import os
import random
import shutil
import threading
import time
import urllib.error
import urllib.parse
import urllib.request as web
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

STALL_S = 20  # a connection, and each read from it, may take this long
GRACE_S, SLOWEST = 60, 20_000  # in all, a file may take a minute and its bytes at 20 kB/s
TRIES, BACKOFF_S = 4, 0.5  # for what may get better: 5xx, timeouts, broken connections, short bodies
CHUNK = 2**16
File = namedtuple("File", "name url sha256 bytes")


class DataError(RuntimeError):
    """A file that cannot be had, or is not what the registry says; nothing wrong is kept."""


class _Again(Exception):
    """What may go better at the next try."""


def fetch_all(dataset, files, targets, suffix, workers):
    """An iterator over the files, each given when it is in place; one progress bar for all of them."""
    stop, lock, bar = threading.Event(), threading.Lock(), None
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError):
            from tqdm import tqdm

            total = sum(file.bytes for file in files)
            bar = stack.enter_context(tqdm(total=total, desc=dataset, unit="B", unit_scale=True, leave=False))

        def advance(count):
            with lock:
                _ = bar is not None and bar.update(count)

        pool = stack.enter_context(ThreadPoolExecutor(workers))
        jobs = [pool.submit(_fetch, dataset, file, targets[file], suffix, advance, stop) for file in files]
        try:
            for job in as_completed(jobs):
                yield job.result()
        except BaseException:  # an interruption as well; what is half done stays for the next time
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def sha256(path):
    """The SHA-256 of a file, as 64 hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()


def _fetch(dataset, file, target, suffix, advance, stop):
    name, mirror = f"{dataset}/{file.name}", os.environ.get("REBUILT_DATA_MIRROR", "").rstrip("/")
    offline = os.environ.get("REBUILT_OFFLINE", "0") not in ("", "0")
    mirrored = [f"{mirror}/{urllib.parse.quote(name) if '://' in mirror else name}"] if mirror else []
    part, problems = target.with_name(f".{target.name}{suffix}"), []
    target.parent.mkdir(parents=True, exist_ok=True)
    if part.is_symlink():
        part.unlink()
    for source in [*mirrored, file.url]:
        try:
            if "://" not in source:
                _copy(Path(source).expanduser(), part, file, advance)
            elif offline:
                raise DataError("not asked, because REBUILT_OFFLINE is set")
            else:
                _download(source, part, file, advance, stop)
            os.replace(part, target)
            return file
        except (DataError, OSError) as error:
            problems.append(f"\n  from {source}: {error}")
    help = f"Put it at {target}, or set REBUILT_DATA_MIRROR to a folder or address that holds {name}; run again."
    raise DataError(f"{name} ({file.bytes:,} bytes) cannot be had{''.join(problems)}\n{help}")


def _copy(source, part, file, advance):
    if not source.is_file() or source.stat().st_size != file.bytes:
        raise DataError(f"no file of {file.bytes:,} bytes there")
    shutil.copyfile(source, part)
    _verify(part, file)
    advance(file.bytes)


def _download(url, part, file, advance, stop):
    deadline = time.monotonic() + GRACE_S + file.bytes / SLOWEST
    for attempt in range(TRIES):
        if attempt:
            stop.wait(BACKOFF_S * 2 ** (attempt - 1) * random.uniform(0.5, 1))  # not all workers at once
        if stop.is_set():
            raise DataError("stopped")
        try:
            return _receive(url, part, file, advance, stop, deadline)
        except urllib.error.HTTPError as error:
            last = f"HTTP {error.code} {error.reason}"
            error.close()
            if error.code == 416:  # what is here is more than what is there
                part.unlink(missing_ok=True)
            elif error.code < 500 and error.code not in (408, 429):
                raise DataError(last) from None
        except (_Again, http.client.HTTPException, OSError) as error:
            last = f"{type(error).__name__.strip('_')}: {error}" if not isinstance(error, _Again) else error
    raise DataError(f"{TRIES} tries failed, at last with: {last}")


def _receive(url, part, file, advance, stop, deadline):
    """None, once `part` is whole and verified; it goes on from the bytes that are there."""
    size = part.stat().st_size if part.exists() else 0
    size = resumed = size if size <= file.bytes else 0
    try:
        advance(size)
        if size < file.bytes or not part.exists():
            request = web.Request(url, headers={"Range": f"bytes={size}-"} if size else {})
            with _opener().open(request, timeout=STALL_S) as answer:
                piece = answer.headers.get("Content-Range", "")
                if answer.status == 206 and not piece.startswith(f"bytes {size}-"):
                    part.unlink(missing_ok=True)
                    raise _Again(f"asked for bytes from {size}, the server sent {piece!r}")
                if answer.status != 206:  # the whole file, although a piece was asked for
                    advance(-size)
                    size = resumed = 0
                with part.open("ab" if size else "wb") as out:
                    while size < file.bytes:  # never beyond: the registry knows the size, the hash decides
                        if stop.is_set() or time.monotonic() > deadline:
                            raise DataError(
                                f"stopped after {size:,} bytes, too slow" * (not stop.is_set()) or "stopped"
                            )
                        chunk = answer.read1(min(CHUNK, file.bytes - size))
                        if not chunk:
                            raise _Again(f"the connection ended after {size:,} of {file.bytes:,} bytes")
                        out.write(chunk)
                        size += len(chunk)
                        advance(len(chunk))
        _verify(part, file, resumed)
    except BaseException:
        advance(-size)
        raise


def _verify(part, file, resumed=0):
    if (found := sha256(part)) != file.sha256:
        part.unlink()
        if resumed:  # the file may have changed there between two pieces: once more, from the start
            raise _Again(f"wrong SHA-256 {found} after a resumed download")
        raise DataError(f"wrong SHA-256 {found}, the registry has {file.sha256}; refused")


def _opener():
    """An opener that knows http and https alone: no redirection leads to a file or to FTP."""
    opener = web.OpenerDirector()
    kinds = (web.ProxyHandler, web.UnknownHandler, web.HTTPHandler, web.HTTPSHandler, web.HTTPDefaultErrorHandler)
    for kind in (*kinds, web.HTTPRedirectHandler, web.HTTPErrorProcessor):
        opener.add_handler(kind())
    opener.addheaders = [("User-Agent", "rebuilt-helpers")]
    return opener
