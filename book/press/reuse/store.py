"""What this machine keeps between clones: entries by kind and key, checked when read, bounded, outside the clone: in
`$REBUILT_CACHE`, else in `rebuilt` in the user's cache folder. An entry's first line: the rest's SHA-256."""

import contextlib
import json
import os
import time
from collections import Counter, namedtuple
from pathlib import Path

from ..files import read_json, remove, sha256, write_text

DAYS = 60.0  # an entry that nobody read for so long goes
MOST_BYTES = 5e9  # of all entries together; the longest unused go first
STAMP = "made.json"  # stands in a whole environment (see `race`) and says how many `bytes` it takes
KINDS = {"notebooks": "executed notebooks", "tests": "results of tests", "peers": "peers' environments", "pdf": "PDFs"}


def folder() -> Path:
    """Where entries lie; it need not exist yet."""
    import platformdirs

    named = os.environ.get("REBUILT_CACHE")
    return Path(named).expanduser().resolve() if named else platformdirs.user_cache_path("rebuilt", appauthor=False)


def put(kind: str, key: str, content: object) -> Path:
    """The path of the entry that now holds the content; old entries may go for it."""
    body = json.dumps(content)
    path = write_text(folder() / kind / f"{key}.entry", f"{sha256(body)}\n{body}")
    prune()
    return path


def get(kind: str, key: str) -> object | None:
    """The content of an entry; None where there is none, or where it is damaged: then it is removed."""
    path = folder() / kind / f"{key}.entry"
    with contextlib.suppress(OSError, ValueError):
        digest, _, body = path.read_bytes().partition(b"\n")
        if sha256(body).encode() == digest and (content := json.loads(body)) is not None:
            with contextlib.suppress(OSError):  # a cache that may only be read keeps its old times
                os.utime(path)
            return content
    path.unlink(missing_ok=True)
    return None


Kept = namedtuple("Kept", "path kind bytes used")  # one thing in the cache: a file, or an environment of peers


def contents() -> list[Kept]:
    """All that is kept, the longest unused first. What is half made, by now or by one that died, is not listed."""
    found = []
    for path in (*folder().glob("*/*.entry"), *folder().glob(f"peers/*/{STAMP}")):
        with contextlib.suppress(FileNotFoundError):  # another press was quicker
            facts, entry = path.stat(), path.suffix == ".entry"
            kept = path if entry else path.parent
            size = facts.st_size if entry else (read_json(path) or {}).get("bytes", 0)
            found.append(Kept(kept, kept.parent.name, size, facts.st_mtime))
    return sorted(found, key=lambda kept: kept.used)


def prune(days: float = DAYS, most_bytes: float = MOST_BYTES) -> list[Path]:
    """What went: entries unused for `days`, then the longest unused until the rest fits."""
    now, gone, kept = time.time(), [], contents()
    total = sum(one.bytes for one in kept)
    for one in kept:
        if now - one.used > days * 86400 or total > most_bytes:
            remove(one.path)
            gone.append(one.path)
            total -= one.bytes
    return gone


def clear() -> float:
    """The bytes that were kept; all is gone now."""
    total = sum(one.bytes for one in contents())
    for kind in KINDS:
        remove(folder() / kind)
    return total


def told() -> str:
    """One sentence on what is kept here."""
    kept = contents()
    count = Counter(KINDS[one.kind] for one in kept if one.kind in KINDS)
    parts = ", ".join(f"{words}: {number}" for words, number in count.items())
    return f"{folder()} keeps " + (f"{parts}; {sum(one.bytes for one in kept) / 1e6:,.0f} MB" if parts else "nothing")
