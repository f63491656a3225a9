"""A Chromium without a window, over a folder of pages, with the outside network cut."""

import contextlib
import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
WANTED = "no Chromium was found (on Debian and Ubuntu: apt-get install chromium)"
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]


def find() -> str | None:
    """The path of a Chromium that playwright can drive; None where either is missing.

    `REBUILT_CHROMIUM` names another one, or none at all when it is empty.
    """
    try:
        import playwright  # noqa: F401  only asked whether it is there
    except ImportError:
        return None
    if "REBUILT_CHROMIUM" in os.environ:
        return shutil.which(os.environ["REBUILT_CHROMIUM"])
    return next(filter(None, map(shutil.which, NAMES)), None)


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


@contextlib.contextmanager
def site(folder: Path) -> Iterator[str]:
    """The address of a server of the folder on this machine, while the block runs."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()


@contextlib.contextmanager
def browser() -> Iterator[object]:
    """A browser of playwright, while the block runs."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=find(), args=OPTIONS)
        try:
            yield made
        finally:
            made.close()


def page(window: object, address: str) -> object:
    """A new page in a browser's window that asks nobody but `address`."""
    made = window.new_page()
    made.route(lambda url: not url.startswith((address, "data:", "blob:")), lambda route: route.abort())
    return made
