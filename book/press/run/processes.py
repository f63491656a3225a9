"""A process with all its descendants: their memory, their end."""

import contextlib
import re
import time
from pathlib import Path

import psutil

GONE = (psutil.NoSuchProcess, psutil.AccessDenied, FileNotFoundError, ProcessLookupError)


def descendants(pid: int) -> list[psutil.Process]:
    """The living descendants of a process, without itself."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except GONE:
        return []


def memory_bytes(pid: int) -> int:
    """The resident memory that the descendants of `pid` hold now, or one of them held at its highest.

    The operating system keeps each process's own peak, so that a short one between two samples is seen too.
    """
    held, highest = 0, 0
    for process in descendants(pid):
        with contextlib.suppress(*GONE):
            held += process.memory_info().rss
            highest = max(highest, _own_peak(process.pid))
    return max(held, highest)


class Taken:
    """The processor time that the descendants of `pid` took, by looking now and then: `seconds`, at least.

    What a process took after the last look at it is missing, and one that came and went between two looks.
    """

    def __init__(self, pid: int):
        self.pid = pid
        self._seen: dict[tuple[int, float], float] = {}

    def look(self) -> None:
        """Take in what each of them says now."""
        for process in descendants(self.pid):
            with contextlib.suppress(*GONE, psutil.ZombieProcess, OSError):
                times = process.cpu_times()
                self._seen[process.pid, process.create_time()] = times.user + times.system

    @property
    def seconds(self) -> float:
        """Of all that were seen, the ended ones included."""
        return sum(self._seen.values())


def _own_peak(pid: int) -> int:
    status = Path(f"/proc/{pid}/status")
    found = re.search(r"^VmHWM:\s+(\d+) kB", status.read_text(), re.MULTILINE) if status.exists() else None
    return int(found.group(1)) * 1024 if found else 0


def available_bytes() -> int:
    """The memory that a new process may take: what the machine has free, or its container has left."""
    free = psutil.virtual_memory().available
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
    except (OSError, ValueError):
        return free
    return free if limit == "max" else max(0, min(free, int(limit) - used))


def marked(process: psutil.Process, marker: tuple[str, str]) -> bool:
    """Whether a process inherited the environment variable of a run, with its value; psutil's errors pass."""
    return process.environ().get(marker[0]) == marker[1]


def end_tree(pid: int, marker: tuple[str, str], *, own: bool = True) -> list[str]:
    """The names of the processes that were still there; they are ended now, the kernel's own sessions included.

    `marker` is an environment variable and its value: whoever inherited it belongs to the run, also when
    its parent is gone. With `own` False only those end, not the process `pid` and its descendants.
    """
    try:
        victims = [*descendants(pid), psutil.Process(pid)] if own else []
    except GONE:
        victims = []
    known = {process.pid for process in victims}
    for process in psutil.process_iter():
        with contextlib.suppress(*GONE, psutil.ZombieProcess, OSError):
            if process.pid not in known and marked(process, marker):
                victims.append(process)
    names = []
    for process in victims:
        with contextlib.suppress(*GONE):
            names.append(process.name())
            process.kill()
    deadline = time.monotonic() + 5
    while any(map(alive, victims)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return names


def alive(process: psutil.Process) -> bool:
    """Whether the process still runs; one that only waits to be collected by its parent does not."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except GONE:
        return False
