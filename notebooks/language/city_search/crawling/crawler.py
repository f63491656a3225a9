"""A crawler that visits a site again and again, and keeps an index in step with it.

What is known of each address lies in a table beside the index, in the same file: a page and the
row that says so are written in one transaction, so a crawl that is killed goes on where it was.
Rules of visiting are RFC 9309 (robots, read by protego) and RFC 9110 (conditional requests).
No server, slow, garbled or endless, and no link on a page ends a crawl or holds it up for long.
"""

import hashlib
import re
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import date
from email.utils import parsedate
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from socket import SHUT_RDWR
from typing import NamedTuple
from urllib.parse import quote, urldefrag, urljoin, urlsplit

from protego import Protego

from .page_text import PageText, read
from .pdf_text import Unreadable

AGENT = "rebuilt-city-search"
MOST_BYTES, MOST_LINKS, TIRED = 2_000_000, 2000, 4  # TIRED: failures until the old text goes
MOST_ADDRESSES, DEEP, LONG = 20_000, 12, 500  # of a site; clicks from its start; characters
TABLE = """CREATE TABLE IF NOT EXISTS visits (url TEXT PRIMARY KEY, depth INT, tag TEXT
  DEFAULT '', hash TEXT DEFAULT '', state TEXT DEFAULT 'new', next_at REAL, failures INT
  DEFAULT 0)"""

DUE = """SELECT url, tag, hash, depth FROM visits WHERE next_at <= ?
  ORDER BY next_at, depth, url LIMIT 1"""


class Answer(NamedTuple):
    """What a server said: 0 is no answer at all, or not a whole one."""

    status: int
    headers: dict[str, str]
    body: bytes


NONE = Answer(0, {}, b"")
SEE, MOVES = (302, 303, 307), (301, 302, 303, 307, 308)  # for now; for good, too


def get(url: str, tag: str = "", seconds: float = 5) -> Answer:
    """A page, or 304 where it is still as `tag` says: its entity tag, or the date of its last
    change where it has none. After so many seconds all is over, however slowly it comes.
    """
    at, begun = urlsplit(url), time.monotonic()
    kind = HTTPSConnection if at.scheme == "https" else HTTPConnection
    told = {"User-Agent": AGENT}
    if tag:
        told["If-None-Match" if tag.endswith('"') else "If-Modified-Since"] = tag
    try:
        with closing(kind(at.netloc, timeout=seconds)) as link:
            link.connect()
            cut = threading.Timer(seconds, _cut, (link.sock,))
            cut.start()
            try:
                target = at._replace(scheme="", netloc="", path=at.path or "/").geturl()
                link.request("GET", target, headers=told)
                with link.getresponse() as answer:
                    body = answer.read(MOST_BYTES + 1) if answer.status == 200 else b""
                    short = answer.status == 200 and answer.length and len(body) <= MOST_BYTES
            finally:
                cut.cancel()
    except (OSError, ValueError, HTTPException):
        return NONE
    if short or time.monotonic() - begun >= seconds:  # half a page would be taken for a whole
        return NONE
    headers = {
        name.lower(): " ".join(", ".join(answer.headers.get_all(name)).split())
        for name in answer.headers
    }
    return Answer(answer.status, headers, body)


def _cut(socket) -> None:
    with suppress(OSError):
        socket.shutdown(SHUT_RDWR)


class Crawler:
    """Visits `site` and no other host. `index` has `table`, `put(url, page, until)` and
    `drop(url)`, which write inside the transaction that is open.
    """

    def __init__(self, index, site: str, every_s: float = 86_400, fetch: Callable = get):
        self.index, self.table, self.site = index, index.table, site.rstrip("/")
        self.every_s, self.fetch = every_s, fetch
        self.table.execute(TABLE)

    def add(self, path: str, now: float, depth: int = 0) -> None:
        """Notes an address of the site, `depth` clicks from where one began, to be visited now
        if it is new.
        """
        self._note(self._own(self.site + "/", path), now, depth)

    def _note(self, url, now, depth):
        (many,) = self.table.execute("SELECT coalesce(max(rowid), 0) FROM visits").fetchone()
        if url and depth <= DEEP and many < MOST_ADDRESSES:
            row = "INSERT OR IGNORE INTO visits (url, depth, next_at) VALUES (?, ?, ?)"
            self.table.execute(row, (url, depth, now))

    def _own(self, base: str, link: str) -> str:
        """The address that a link leads to, in the characters of RFC 3986; "" for none of the
        site.
        """
        try:
            url = urldefrag(urljoin(base, link.strip()))[0]
            same = urlsplit(url)[:2] == urlsplit(self.site)[:2]
        except ValueError:
            return ""
        url = quote(url, safe="%/:=&?~+!$,;'@()*[]")
        return url if same and len(url) <= LONG else ""

    def crawl(self, now: float, most: int = 1000) -> Counter:
        """Visits what is due, at most so many addresses, those of few clicks first: a calendar
        without end keeps no page waiting. Says how often each thing happened.
        """
        rules, happened = self._rules(), Counter()
        while happened.total() < most:
            row = self.table.execute(DUE, (now,)).fetchone()
            if row is None:
                break
            answer = self._visit(*row[:3], rules)
            self.table.execute("BEGIN IMMEDIATE")
            try:
                happened[self._keep(*row, answer, now)] += 1
            except BaseException:
                self.table.execute("ROLLBACK")
                raise
            self.table.execute("COMMIT")
        return happened

    def _rules(self) -> Protego | None:
        """What `robots.txt` allows; None where it does not come: then nothing is visited."""
        answer = self._answer(self.site + "/robots.txt", "", MOVES, lambda url: True)
        if answer.status == 200:
            return Protego.parse(answer.body[:512_000].decode("utf-8", "replace"))
        return (
            Protego.parse("") if 400 <= answer.status < 500 and answer.status != 429 else None
        )

    def _visit(self, url, tag, known, rules) -> Answer | None:
        """What the server says; None where the rules forbid to ask."""
        if rules is None:
            return NONE

        def allowed(url):
            return rules.can_fetch(url, AGENT)

        if not allowed(url):
            return None
        answer = self._answer(url, tag, SEE, allowed)
        told = known.partition(" ")[2]
        if answer.status == 304 and answer.headers.get("x-robots-tag", told) != told:
            answer = self._answer(url, "", SEE, allowed)  # the same page, under another rule
        return answer

    def _answer(self, url, tag, moves, allowed) -> Answer:
        """What is said there, or where the server points to for now: five times at most."""
        for _ in range(6):
            answer = self.fetch(url, tag) if url and allowed(url) else NONE
            if answer.status not in moves:
                return answer
            url = self._own(url, answer.headers.get("location", ""))
        return NONE

    def _keep(self, url, tag, known, depth, answer, now) -> str:
        """What became of a visit, after the table and the index were told."""
        if answer is None:
            return self._gone(url, "forbidden", now)
        status, headers, body = answer
        if status == 304:
            return self._row(url, "unchanged", now, tag, known)
        if status in (301, 308):
            self._note(self._own(url, headers.get("location", "")), now, depth + 1)
            return self._gone(url, "moved", now)
        if status in (404, 410):
            return self._gone(url, "gone", now)
        if status != 200:
            return self._failed(url, now)
        tag = headers.get("etag", "") or headers.get("last-modified", "")
        told = headers.get("x-robots-tag", "")
        hashed = f"{hashlib.sha256(body).hexdigest()} {told}"
        if hashed == known:
            return self._row(url, "unchanged", now, tag, hashed)
        try:
            page = self._read(headers, body)
        except Unreadable:
            return self._gone(url, "unreadable", now)
        told = f"{told}, {page.attributes.get('robots', '')}".lower()
        rules = {one.strip() for one in told.split(",")}
        if not rules & {"nofollow", "none"}:
            for link in page.links[:MOST_LINKS]:
                self._note(self._own(url, link), now, depth + 1)
        if rules & {"noindex", "none"} or not page.sections:
            return self._gone(url, "empty", now)
        self.index.put(url, page, _until(told))
        return self._row(url, "changed" if known else "new", now, tag, hashed)

    def _read(self, headers, body) -> PageText:
        if len(body) > MOST_BYTES:
            raise Unreadable(f"more than {MOST_BYTES} bytes")
        return read(body, headers.get("content-type", ""))

    def _row(self, url, state, now, tag="", hashed="", failures=0):
        row = (tag, hashed, state, now + self.every_s, failures, url)
        self.table.execute(
            "UPDATE visits SET tag=?, hash=?, state=?, next_at=?, failures=? WHERE url=?", row
        )
        return state

    def _gone(self, url, state, now):
        self.index.drop(url)
        return self._row(url, state, now)

    def _failed(self, url, now):
        """The old text stays for some failures: a server that is down has not said 'gone'."""
        row = "SELECT tag, hash, failures + 1 FROM visits WHERE url = ?"
        tag, hashed, failures = self.table.execute(row, (url,)).fetchone()
        if failures >= TIRED:
            self.index.drop(url)
            tag = hashed = ""  # or its return, unchanged, would not be indexed
        return self._row(url, "failed", now, tag, hashed, failures)


def _until(told: str) -> str:
    """The last day (ISO) on which a page may be shown, "" without one; of a date that cannot be
    read, one long ago.
    """
    named = re.search(r"unavailable_after:\D*([^,]*)", told)
    day = named[1] if named else ""
    with suppress(ValueError):
        return date.fromisoformat(day[:10]).isoformat()
    with suppress(ValueError, TypeError):
        return date(*parsedate(day)[:3]).isoformat()
    return "0" if named else ""


def connect(path) -> sqlite3.Connection:
    """A table that commits when told and waits for another process."""
    return sqlite3.connect(path, isolation_level=None, timeout=10)
