"""What other processes do beside a measurement: how many cores they keep busy, and their names. No torch here."""

import contextlib
import os
import time

import psutil

BUSY_CORES = 0.3  # of other work, from here on times are of that work, too
NAMED_CORES = 0.05  # a process that takes less is not named
IDLE = {"idle", "iowait", "steal", "guest", "guest_nice"}  # guests' time is in user's already


class Watch:
    """Other work since it was made: `Watch().told()` is a dict of `cores` and `names`, name -> cores."""

    ENDED = "what has ended since"

    def __init__(self):
        self.began, self.all, self.each = time.monotonic(), _busy_seconds(), _by_process()

    def told(self) -> dict:
        """Cores that others kept busy; the names are of processes that are still there, `ENDED` for the rest."""
        now, seconds = _by_process(), max(1e-3, time.monotonic() - self.began)
        own = now.pop(os.getpid(), ("", 0.0))[1] - self.each.get(os.getpid(), ("", 0.0))[1]
        names: dict[str, float] = {}
        for pid, (name, took) in now.items():
            cores = (took - self.each.get(pid, ("", 0.0))[1]) / seconds
            if cores >= NAMED_CORES:
                names[name] = round(names.get(name, 0.0) + cores, 2)
        cores = max(0.0, (_busy_seconds() - self.all - own) / seconds)
        if cores - sum(names.values()) >= NAMED_CORES:
            names[self.ENDED] = round(cores - sum(names.values()), 2)
        return {"cores": round(cores, 2), "names": names}


def is_busy(told: dict) -> bool:
    """Whether others take so much that times are theirs, too."""
    return told["cores"] >= BUSY_CORES


def sentence(told: dict) -> str:
    """What a reader is told of other work.

    >>> sentence({"cores": 1.2, "names": {"python": 1.1}}), sentence({"cores": 0.1, "names": {}})
    ('busy: 1.2 cores of other work (python 1.1)', 'quiet: 0.1 cores of other work')
    """
    names = ", ".join(f"{name} {cores}" for name, cores in sorted(told["names"].items(), key=lambda pair: -pair[1]))
    word = "busy" if is_busy(told) else "quiet"
    return f"{word}: {told['cores']} cores of other work" + (f" ({names})" if names else "")


def _busy_seconds() -> float:
    """Seconds that all cores of the machine have been busy."""
    return sum(took for name, took in psutil.cpu_times()._asdict().items() if name not in IDLE)


def _by_process() -> dict[int, tuple[str, float]]:
    """(Name, seconds of the processor) of each process that may be looked at."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            took = process.cpu_times()
            found[process.pid] = process.name(), took.user + took.system
    return found
