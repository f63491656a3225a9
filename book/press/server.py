"""The press's one web server: `press serve` shows the built book, `site` serves a folder to a browser for a while."""

import contextlib
import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

from .errors import PressError
from .repository import Repository


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and prints nothing; has no page kept by the browser, so that the next build shows at once."""

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""

    def end_headers(self) -> None:
        """Add that nothing is to be kept."""
        self.send_header("Cache-Control", "no-store")
        super().end_headers()


def _bound(folder: Path, port: int) -> http.server.ThreadingHTTPServer:
    return http.server.ThreadingHTTPServer(("127.0.0.1", port), functools.partial(Quiet, directory=str(folder)))


@contextlib.contextmanager
def site(folder: Path) -> Iterator[str]:
    """The address of a server of the folder on this machine, while the block runs."""
    with _bound(folder, 0) as serving:
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
    try:
        return _bound(html, port)
    except (OSError, OverflowError) as error:
        told = f"port {port} is taken or not allowed ({error}); choose another of 0 to 65535: serve --port 8001"
        raise PressError(told) from None


def serve(repository: Repository, port: int) -> int:
    """Serve until interrupted."""
    with server(repository, port) as serving, contextlib.suppress(KeyboardInterrupt):
        print(f"http://127.0.0.1:{serving.server_port}/ (Ctrl-C ends it)", flush=True)
        serving.serve_forever()
    return 0
