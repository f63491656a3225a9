"""The browser in which a slice tries its live model."""

import os
import shutil

import pytest


@pytest.fixture(scope="module")
def browser():
    """A Chromium of playwright; what asks for it is skipped where either is missing.

    `REBUILT_CHROMIUM` names another one, or none at all when it is empty.
    """
    api = pytest.importorskip("playwright.sync_api")
    own = os.environ.get("REBUILT_CHROMIUM")
    names = ["chromium", "google-chrome"] if own is None else [own]
    found = next(filter(None, map(shutil.which, names)), None)
    if not found:
        pytest.skip("no Chromium")
    with api.sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield made
        made.close()
