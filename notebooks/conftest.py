"""The press's browser and its server, with which a chapter tries its live model."""

import pytest
from press import chromium, server


@pytest.fixture(scope="module")
def browser():
    """The press's Chromium; what asks for it is skipped where it or playwright is missing."""
    if not chromium.find():
        pytest.skip(chromium.WANTED)
    with chromium.browser() as made:
        yield made


@pytest.fixture(scope="session")
def site():
    """A function of a folder: the address of its server, while a block runs."""
    return server.site
