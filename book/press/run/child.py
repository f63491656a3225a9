"""One process run to its end, with all that it starts."""

import contextlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from . import conditions, processes


class Ended(NamedTuple):
    """How a process ended, how many cores others took at the most meanwhile, and what it had left running."""

    status: int | None  # None: its time was over
    busiest: float | None
    left: list[str]


def run(
    command: Sequence[str], home: Path, environment: dict, scratch: Path, seconds: float, log: BinaryIO | None = None
) -> Ended:
    """Run a command from the folder `home` for so many seconds at most; it and all that it started are gone afterwards.

    Its receipts come to `scratch`, whose name marks what belongs to it; what it says to `log`, else to the terminal.
    """
    marker, status = ("REBUILT_RUN", scratch.name), None
    process = subprocess.Popen(
        command,
        cwd=home,
        env=environment | {"REBUILT_RECEIPTS": str(scratch), marker[0]: marker[1]},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=sys.platform != "win32",
    )
    try:
        with conditions.Watch(process.pid, marker) as watch, contextlib.suppress(subprocess.TimeoutExpired):
            status = process.wait(seconds)
    finally:
        left = processes.end_tree(process.pid, marker)
        process.wait()
    return Ended(status, watch.busiest, left)
