"""A process with all its descendants: the environment that it gets, their memory, their end."""

import contextlib
import os
import re
import time
from pathlib import Path

import psutil

GONE = (psutil.Error, OSError)
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
ASLEEP = {"OPENBLAS_THREAD_TIMEOUT": "4"}  # else its threads spin on after a product, on what is timed next
SHELL = re.compile("OMP_|GOMP_|OPENBLAS_|.*_THREADS$|.*_DYNAMIC$")  # OMP_THREAD_LIMIT, MKL_DYNAMIC and the like


def environment(threads: int) -> dict[str, str]:
    """The environment of a process whose libraries take so many threads each, whatever the shell's says of threads."""
    others = {name: value for name, value in os.environ.items() if not SHELL.match(name)}
    return others | dict.fromkeys(THREADS, str(threads)) | ASLEEP


def descendants(pid: int) -> list[psutil.Process]:
    """The living descendants of a process, without itself."""
    with contextlib.suppress(*GONE):
        return psutil.Process(pid).children(recursive=True)
    return []


def memory_bytes(pid: int) -> int:
    """The memory that the descendants of `pid` hold now, or one held at its highest, which the system keeps."""
    held, peaks = 0, [0]
    for process in descendants(pid):
        with contextlib.suppress(*GONE):
            held += process.memory_info().rss
            status = Path(f"/proc/{process.pid}/status").read_text()
            peaks += [1024 * int(found) for found in re.findall(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)]
    return max(held, *peaks)


def available_bytes() -> int:
    """The memory that a new process may take: what the machine has free, or its container has left."""
    free, group = psutil.virtual_memory().available, Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, ValueError):  # no such group, or "max"
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        return max(0, min(free, limit - used))
    return free


def marked(process: psutil.Process, marker: tuple[str, str]) -> bool:
    """Whether a process inherited the environment variable of a run, with its value; another user's did not."""
    with contextlib.suppress(*GONE):
        return process.environ().get(marker[0]) == marker[1]
    return False


def end_tree(pid: int, marker: tuple[str, str]) -> list[str]:
    """The names of the processes that were still there; they are ended now, kernels too. Whoever inherited `marker`, an
    environment variable and its value, belongs to the run, also when its parent is gone."""
    victims, names = {}, []
    with contextlib.suppress(*GONE):
        victims = {process.pid: process for process in [*descendants(pid), psutil.Process(pid)]}
    victims |= {one.pid: one for one in psutil.process_iter() if one.pid not in victims and marked(one, marker)}
    for process in victims.values():
        with contextlib.suppress(*GONE):
            names.append(process.name())
            process.kill()
    deadline = time.monotonic() + 5
    while any(map(alive, victims.values())) and time.monotonic() < deadline:
        time.sleep(0.01)
    return names


def alive(process: psutil.Process) -> bool:
    """Whether the process still runs; one that only waits to be collected by its parent does not."""
    with contextlib.suppress(*GONE):
        return process.status() != psutil.STATUS_ZOMBIE
    return False
