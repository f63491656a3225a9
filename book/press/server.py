"""The press's one web server: `press serve` shows the built book, `site` serves a folder to a browser for a while."""

import contextlib
import errno
import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

from .errors import PressError
from .repository import Repository


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and prints nothing, or with `tells` the requests that fail; has no page kept by the browser."""

    def __init__(self, *arguments: object, tells: bool = False, **options: object):
        self.tells = tells
        super().__init__(*arguments, **options)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Print failed requests only."""
        if str(getattr(code, "value", code))[0] in "45":
            super().log_request(code, size)

    def log_message(self, *arguments: object) -> None:
        """Print when asked to."""
        if self.tells:
            super().log_message(*arguments)

    def end_headers(self) -> None:
        """Add that nothing is to be kept: the next build shows at once."""
        self.send_header("Cache-Control", "no-store")
        super().end_headers()


def _bound(folder: Path, port: int, *, tells: bool) -> http.server.ThreadingHTTPServer:
    handler = functools.partial(Quiet, directory=str(folder), tells=tells)
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)


@contextlib.contextmanager
def site(folder: Path) -> Iterator[str]:
    """The address of a server of the folder on this machine, while the block runs."""
    with _bound(folder, 0, tells=False) as serving:
        threading.Thread(target=serving.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{serving.server_port}/"
        finally:
            serving.shutdown()


def server(repository: Repository, port: int) -> http.server.ThreadingHTTPServer:
    """A server of `_build/html` bound to 127.0.0.1; port 0 takes a free one."""
    html = repository.build / "html"
    if not (html / "index.html").is_file():
        raise PressError("there is no built book yet; `make book` (or `.venv/bin/python book/press build`) makes it")
    if not 0 <= port < 65536:
        raise PressError(f"port {port}: 0 to 65535 are allowed")
    try:
        return _bound(html, port, tells=True)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        why = "is taken by another program" if error.errno == errno.EADDRINUSE else "is not allowed to you"
        raise PressError(f"port {port} {why}; choose another: serve --port {port + 1}") from None


def serve(repository: Repository, port: int) -> int:
    """Serve until interrupted."""
    with server(repository, port) as serving:
        print(f"http://127.0.0.1:{serving.server_port}/ (Ctrl-C ends it)", flush=True)
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            print()
    return 0
