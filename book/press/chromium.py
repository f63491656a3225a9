"""A Chromium without a window, with the outside network cut."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec

NAMES = ("chromium", "chromium-browser", "google-chrome")
WANTED = "no Chromium was found (on Debian and Ubuntu: apt-get install chromium)"
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
OPEN: list[object] = []  # the browser of this process; a start takes a second


def find() -> str | None:
    """The path of a Chromium that playwright can drive (`REBUILT_CHROMIUM` names another, or none), or None."""
    named = os.environ.get("REBUILT_CHROMIUM")
    names = NAMES if named is None else (named,)
    return next(filter(None, map(shutil.which, names)), None) if find_spec("playwright") else None


@contextlib.contextmanager
def browser() -> Iterator[object]:
    """A browser of playwright, while the block runs; inside such a block, the one that is there already."""
    from playwright.sync_api import sync_playwright

    if OPEN:
        yield OPEN[-1]
        return
    with sync_playwright() as playwright:
        OPEN.append(playwright.chromium.launch(executable_path=find(), args=OPTIONS))
        try:
            yield OPEN[-1]
        finally:
            OPEN.pop().close()


def page(window: object, address: str) -> object:
    """A new page in a browser's window that asks nobody but `address`."""
    made = window.new_page()
    made.route(lambda url: not url.startswith((address, "data:", "blob:")), lambda route: route.abort())
    return made
