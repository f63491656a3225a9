"""`pytest -p rehearsal.plugin …`: tests that ask for a GPU run on the pretended one; the end says what was counted."""

import contextlib
from collections import Counter

import pytest

from . import device

device.install()
MOST = 40  # finds of a process that the end of a session lists
_helpers = []  # what processes beside this one counted
_launched: Counter = Counter()  # operations by the folder of the tests, as a chapter's

from .counts import ledger  # noqa: E402  after the device
from .streams import StreamError, in_flight  # noqa: E402


def pytest_report_header(config) -> str:
    """One line above the tests."""
    return "rehearsal: torch's CUDA device is pretended; values are the CPU's, seconds mean nothing"


def pytest_addoption(parser) -> None:
    """`--only-gpu` and `--few`."""
    parser.addoption("--only-gpu", action="store_true", help="only tests that are skipped for want of a GPU")
    parser.addoption("--few", type=int, metavar="N", help="of each test's cases at most N, evenly spread")


def pytest_collection_modifyitems(config, items) -> None:
    """Leave out, visibly, what only a card can show; with `--only-gpu` also what needs no GPU."""
    for item in items:
        if item.get_closest_marker("card"):
            item.add_marker(pytest.mark.skip(reason="only a real GPU can show it"))
    if config.getoption("only_gpu"):
        _keep(config, items, [item for item in items if needs_gpu(item)])
    if config.getoption("few"):
        _keep(config, items, [item for cases in _by_test(items) for item in spread(cases, config.getoption("few"))])


def _keep(config, items, wanted) -> None:
    """None; leaves in place those that are wanted."""
    config.hook.pytest_deselected(items=list(set(items) - set(wanted)))
    items[:] = wanted


def _by_test(items) -> list[list]:
    """The cases of each test, together."""
    found: dict[str, list] = {}
    for item in items:
        found.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return list(found.values())


def spread(cases: list, count: int) -> list:
    """At most so many of them, the first and the last among them.

    >>> spread(list("abcdefg"), 3)
    ['a', 'd', 'g']
    """
    if len(cases) <= count:
        return cases
    return [cases[round(i * (len(cases) - 1) / max(1, count - 1))] for i in range(count)]


def needs_gpu(item) -> bool:
    """Whether a test is skipped where there is no GPU, and says so in its reason."""
    return any("GPU" in mark.kwargs.get("reason", "") for mark in item.iter_markers("skipif"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Count a test's operations as its chapter's, `notebooks/<part>/<chapter>`; it begins with an idle device."""
    with contextlib.suppress(StreamError):
        in_flight.finish()
    before = ledger.counts.operations
    found = yield
    _launched["/".join(item.nodeid.partition("::")[0].split("/")[:3])] += ledger.counts.operations - before
    return found


def pytest_sessionfinish(session) -> None:
    """A process that only helps tells the one that leads what it counted."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["rehearsal"] = _told()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error) -> None:
    """Take in what a helping process counted."""
    _helpers.append(getattr(node, "workeroutput", {}).get("rehearsal"))


def pytest_terminal_summary(terminalreporter) -> None:
    """What the session did on the device, process by process, and what is to be questioned."""
    for sums, found in filter(None, [*_helpers, _told()]):
        terminalreporter.section("rehearsal")
        terminalreporter.write_line(f"in this process: {sums}")
        for line in found[: MOST + len(_launched)]:
            terminalreporter.write_line(line)


def _told() -> tuple[str, list[str]] | None:
    """The sums and the finds of this process; None where nothing ran on the device."""
    counts = ledger.counts
    if not counts.operations:
        return None
    by_folder = [f"{folder}: operations {number:,}" for folder, number in sorted(_launched.items())]
    sums = ", ".join(f"{name} {value:,}" for name, value in counts.summary().items())
    return sums, by_folder + counts.findings()
