"""`press serve`: the built book on this machine only."""

import errno
import functools
import http.server
from pathlib import Path

from .errors import PressError
from .repository import Repository


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files, prints nothing for those that are there, and has no page kept by the browser."""

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Print failed requests only."""
        if str(getattr(code, "value", code))[0] in "45":
            super().log_request(code, size)

    def end_headers(self) -> None:
        """Add that nothing is to be kept: the next build shows at once."""
        self.send_header("Cache-Control", "no-store")
        super().end_headers()


def server(repository: Repository, port: int) -> http.server.ThreadingHTTPServer:
    """A server of `_build/html` bound to 127.0.0.1; port 0 takes a free one."""
    html = repository.build / "html"
    if not (html / "index.html").is_file():
        raise PressError("there is no built book yet; `make book` (or `python book/press build`) makes it")
    if not 0 <= port < 65536:
        raise PressError(f"port {port}: 0 to 65535 are allowed")
    handler = functools.partial(Quiet, directory=str(Path(html)))
    try:
        return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
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
