"""`pytest -p rehearsal.plugin …`: tests that ask for a GPU run on the pretended one; the end says what was counted."""

import pytest

from . import device

device.install()
MOST = 40  # finds that the end of a session lists

from .counts import ledger  # noqa: E402  after the device


def pytest_report_header(config) -> str:
    """One line above the tests."""
    return "rehearsal: torch's CUDA device is pretended; values are the CPU's, seconds mean nothing"


def pytest_collection_modifyitems(items) -> None:
    """Leave out, visibly, what only a card can show."""
    for item in items:
        if item.get_closest_marker("card"):
            item.add_marker(pytest.mark.skip(reason="only a real GPU can show it"))


def pytest_terminal_summary(terminalreporter) -> None:
    """What the session did on the device."""
    counts = ledger.counts
    if counts.operations:
        terminalreporter.section("rehearsal")
        sums = ", ".join(f"{name} {value:,}" for name, value in counts.summary().items())
        terminalreporter.write_line(f"in this process: {sums}")
        for told in counts.findings()[:MOST]:
            terminalreporter.write_line(told)
