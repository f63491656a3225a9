"""A folder of files kept in step with the index: what is new or changed is put, what left is
dropped. It is what a store of documents is for a crawler of sites.
"""

import hashlib
from collections import Counter
from pathlib import Path

from .crawler import MOST_BYTES
from .page_text import read
from .pdf_text import Unreadable

KINDS = {".html": "text/html", ".pdf": "application/pdf", ".csv": "text/csv"}
KINDS[".txt"] = "text/plain"


def sync(folder: str | Path, index, base: str) -> Counter:
    """How many files were new, changed, unchanged, unreadable or gone. A file's address is
    `base` and its path in the folder; all is written in one transaction. Links that lead out
    of the folder are not followed.
    """
    folder, happened, table = Path(folder).resolve(), Counter(), index.table
    paths = sorted(
        one for one in folder.rglob("*") if one.suffix.lower() in KINDS and one.is_file()
    )
    paths = [one for one in paths if one.resolve().is_relative_to(folder)]
    table.execute(
        "CREATE TABLE IF NOT EXISTS files (url TEXT PRIMARY KEY, hash TEXT, base TEXT)"
    )
    table.execute("BEGIN IMMEDIATE")
    try:
        own = "SELECT url, hash FROM files WHERE base = ?"
        known = dict(table.execute(own, (base,)))
        for path in paths:
            url = base + path.relative_to(folder).as_posix()
            with path.open("rb") as file:
                body = file.read(MOST_BYTES + 1)
            row = (url, body, KINDS[path.suffix.lower()], known.pop(url, None), base)
            happened[_one(index, *row)] += 1
        for url in known:
            index.drop(url)
            table.execute("DELETE FROM files WHERE url = ?", (url,))
            happened["gone"] += 1
    except BaseException:
        table.execute("ROLLBACK")
        raise
    table.execute("COMMIT")
    return happened


def _one(index, url, body, kind, known, base) -> str:
    hashed = hashlib.sha256(body).hexdigest()
    if hashed == known:
        return "unchanged"
    state = "changed" if known else "new"
    try:
        if len(body) > MOST_BYTES:
            raise Unreadable(f"more than {MOST_BYTES} bytes")
        index.put(url, read(body, kind), "")
    except Unreadable:
        index.drop(url)
        state = "unreadable"
    index.table.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", (url, hashed, base))
    return state
