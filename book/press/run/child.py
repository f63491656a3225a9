"""One process run to its end, with all that it starts."""

import contextlib
import subprocess
import sys
import uuid
from collections import namedtuple
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from ..files import remove
from ..repository import Repository
from . import conditions, processes

# How a process ended (None: its time was over), the most cores that others took meanwhile, and what it left running.
Ended = namedtuple("Ended", "status busiest left")


@contextlib.contextmanager
def scratch(repository: Repository, what: str) -> Iterator[Path]:
    """A folder of a run's own below `_build/running`; gone afterwards."""
    folder = repository.build / "running" / f"{what}-{uuid.uuid4().hex[:12]}"
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        remove(folder)


def run(
    command: Sequence[str],
    home: Path,
    environment: dict,
    scratch: Path,
    seconds: float,
    log: BinaryIO | None = None,
    held: bool = False,
) -> Ended:
    """How a command ended, run from `home` for so many seconds at most; it and all that it started are gone. Its
    receipts come to `scratch`, whose name marks what belongs to it; what it says to `log`, else to the terminal. Where
    it is `held`, its stdin closes when this process dies."""
    marker, status = ("REBUILT_RUN", scratch.name), None
    own = {**environment, "REBUILT_RECEIPTS": str(scratch), marker[0]: marker[1]}
    how = {"stdin": subprocess.PIPE if held else subprocess.DEVNULL, "stdout": log, "stderr": log}
    with subprocess.Popen(command, cwd=home, env=own, **how, start_new_session=sys.platform != "win32") as process:
        try:
            with conditions.Watch(process.pid, marker) as watch, contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(seconds)
        finally:
            left = processes.end_tree(process.pid, marker)
    return Ended(status, watch.busiest, left)
