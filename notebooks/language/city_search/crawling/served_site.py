"""A small web site on this machine, for a crawler to visit: pages change, move and go.

It answers as RFC 9110 says: an entity tag with each page, 304 where the visitor has it already,
301 where a page moved, 404 where it is not, 410 where it is gone for good.
"""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

HTML = "text/html; charset=utf-8"


class Page(NamedTuple):
    """A page: its bytes, their kind, and the date (ISO) after which it is not to be shown.
    `status` 301 moves it to `moved`. With `since`, the date of its last change as HTTP writes
    it, that is told instead of an entity tag.
    """

    body: bytes
    kind: str = HTML
    until: str = ""
    status: int = 200
    moved: str = ""
    since: str = ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 5

    def do_GET(self):
        page = self.server.pages.get(self.path, Page(b"not here", status=404))
        tag = f'"{hashlib.sha256(page.body).hexdigest()[:16]}"'
        asked = self.headers.get("If-Modified-Since" if page.since else "If-None-Match")
        kept = page.status == 200 and asked == (page.since or tag)
        status = 304 if kept else page.status
        body = b"" if kept else page.body
        self.server.log.append((self.path, status))
        self.send_response(status)
        told = {"Content-Type": page.kind, "Content-Length": len(body)}
        told |= {"Last-Modified": page.since} if page.since else {"ETag": tag}
        if page.until:
            told["X-Robots-Tag"] = f"unavailable_after: {page.until}"
        if page.moved:
            told["Location"] = page.moved
        for name, value in told.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing: the site's log is `Site.log`."""


class Site(NamedTuple):
    """The site's address, its pages by path, which may be changed while it is served, and what
    was asked: (path, status) in order.
    """

    url: str
    pages: dict[str, Page]
    log: list[tuple[str, int]]


@contextmanager
def served(pages: dict[str, Page]) -> Iterator[Site]:
    """The site on a free port of this machine, until the block ends."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads, server.pages, server.log = True, dict(pages), []
        server.handle_error = lambda *_: None  # a visitor that left before the end
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield Site(f"http://127.0.0.1:{server.server_port}", server.pages, server.log)
        finally:
            server.shutdown()
            thread.join()
