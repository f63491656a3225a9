"""A crawler that visits a site again and again, and keeps an index in step with it.

What is known of each address lies in a table beside the index, in the same file: a page and the
row that says so are written in one transaction, so a crawl that is killed goes on where it was.
Rules of visiting are RFC 9309 (robots, read by protego) and RFC 9110 (conditional requests).
"""

import hashlib
import sqlite3
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from typing import NamedTuple
from urllib.parse import urldefrag, urljoin, urlsplit

from protego import Protego

from .page_text import PageText, read
from .pdf_text import Unreadable

AGENT = "rebuilt-city-search"
MOST_BYTES, MOST_LINKS, TIRED = 2_000_000, 2000, 4  # TIRED: failures until the old text goes
TABLE = """CREATE TABLE IF NOT EXISTS visits (url TEXT PRIMARY KEY, tag TEXT DEFAULT '',
  hash TEXT DEFAULT '', state TEXT DEFAULT 'new', next_at REAL, failures INT DEFAULT 0)"""


class Answer(NamedTuple):
    """What a server said: 0 is no answer at all."""

    status: int
    headers: dict[str, str]
    body: bytes


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None  # where a page moved to is news for the table


OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay).open


def get(url: str, tag: str = "", seconds: float = 5) -> Answer:
    """A page, or 304 where its entity tag is still `tag`."""
    told = {"User-Agent": AGENT} | ({"If-None-Match": tag} if tag else {})
    try:
        with OPEN(urllib.request.Request(url, headers=told), timeout=seconds) as answer:
            body, status = answer.read(MOST_BYTES + 1), answer.status
    except urllib.error.HTTPError as error:
        answer, body, status = error, b"", error.code
    except (OSError, ValueError):
        return Answer(0, {}, b"")
    return Answer(status, {name.lower(): value for name, value in answer.headers.items()}, body)


class Crawler:
    """Visits `site` and no other host. `index` has `table`, `put(url, page, until)` and
    `drop(url)`, which write inside the transaction that is open.
    """

    def __init__(self, index, site: str, every_s: float = 86_400, fetch: Callable = get):
        self.index, self.table, self.site = index, index.table, site.rstrip("/")
        self.every_s, self.fetch = every_s, fetch
        self.table.execute(TABLE)
        self.robots = None

    def add(self, path: str, now: float) -> None:
        """Notes an address of the site, to be visited now if it is new."""
        url = urldefrag(urljoin(self.site + "/", path))[0]
        if urlsplit(url)[:2] == urlsplit(self.site)[:2]:
            row = "INSERT OR IGNORE INTO visits (url, next_at) VALUES (?, ?)"
            self.table.execute(row, (url, now))

    def crawl(self, now: float, most: int = 1000) -> Counter:
        """Visits what is due, at most so many addresses; says how often each thing happened."""
        self.robots = self._robots()
        happened = Counter()
        due = "SELECT url, tag, hash FROM visits WHERE next_at <= ? ORDER BY next_at, url"
        while happened.total() < most:
            row = self.table.execute(due + " LIMIT 1", (now,)).fetchone()
            if row is None:
                break
            allowed = self.robots.can_fetch(row[0], AGENT)
            answer = self.fetch(row[0], row[1]) if allowed else None
            self.table.execute("BEGIN IMMEDIATE")
            try:
                happened[self._keep(*row, answer, now)] += 1
            except BaseException:
                self.table.execute("ROLLBACK")
                raise
            self.table.execute("COMMIT")
        return happened

    def _robots(self) -> Protego:
        answer = self.fetch(self.site + "/robots.txt")
        if answer.status == 200:
            return Protego.parse(answer.body[:500_000].decode("utf-8", "replace"))
        unreachable = answer.status == 0 or answer.status >= 500  # then all is forbidden
        return Protego.parse("User-agent: *\nDisallow: /" if unreachable else "")

    def _keep(self, url, tag, known, answer, now) -> str:
        """What became of a visit, after the table and the index were told."""
        if answer is None:
            return self._gone(url, "forbidden", now)
        status, headers, body = answer
        if status == 304:
            return self._row(url, "unchanged", now, tag, known)
        if status in (301, 308):
            self.add(urljoin(url, headers.get("location", "")), now)
            return self._gone(url, "moved", now)
        if status in (404, 410):
            return self._gone(url, "gone", now)
        if status != 200:
            return self._failed(url, now)
        hashed = hashlib.sha256(body).hexdigest()
        if hashed == known:
            return self._row(url, "unchanged", now, headers.get("etag", ""), hashed)
        try:
            page = self._read(headers, body)
        except Unreadable:
            return self._gone(url, "unreadable", now)
        for link in page.links[:MOST_LINKS]:
            self.add(urljoin(url, link), now)
        until = _until(headers.get("x-robots-tag", ""), page)
        if "noindex" in page.attributes.get("robots", "") or not page.sections:
            return self._gone(url, "empty", now)
        self.index.put(url, page, until)
        return self._row(
            url, "changed" if known else "new", now, headers.get("etag", ""), hashed
        )

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


def _until(header: str, page: PageText) -> str:
    """The last day (ISO) on which a page may be shown, "" without one."""
    for told in (header, page.attributes.get("robots", "")):
        _, _, after = told.partition("unavailable_after:")
        with suppress(ValueError):
            return date.fromisoformat(after.strip()[:10]).isoformat()
    return ""


def connect(path) -> sqlite3.Connection:
    """A table that commits when told and waits for another process."""
    return sqlite3.connect(path, isolation_level=None, timeout=10)
