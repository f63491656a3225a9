"""What the machine was like beside a run: other work, time that its host took, its speed, and what two threads gain.

`look` before and after, `joined` for the receipt. What cannot be known is None there, which never means quiet.
"""

import contextlib
import os
import threading
import time
from pathlib import Path

import psutil

from . import calibration, processes

LOOK_SECONDS = 3.0
WATCH_SECONDS = 20.0
GUESTS = ("guest", "guest_nice")  # what they took is counted under user
IDLE = ("idle", "iowait", *GUESTS)
NOT_KNOWN = {"busy_cores": None, "steal": None, "load": None, "calibration": {}}  # of a look that nobody took


def look(root: Path, seconds: float = LOOK_SECONDS) -> dict:
    """How the machine is now: `busy_cores` over some seconds, `steal`, `load` of the last minute, `calibration`.

    `steal`: the share of the time of our cores that the host gave to others, the calibration's own included, for idle
    cores are not missed. `calibration`: `seconds, unit_s, one_thread_s, two_threads_s`; empty in a repository without
    the press. `counted`: the system's counters at the begin and the end of the look, for `joined`.
    """
    load, begin = _load(), counters()
    busy = busy_cores(seconds) if seconds > 0 else None
    speed, end = calibration.measure(root) | calibration.on_threads(root), counters()
    found = {"busy_cores": busy, "steal": _share(begin, end), "load": load, "calibration": speed}
    return found | {"counted": {"begin": begin, "end": end}}


def joined(before: dict, after: dict, during: dict | None = None) -> dict:
    """What a receipt keeps of two looks: `calibration`, `busy_cores`, `steal` and `load`, None where it is not known.

    `during`, such as `{"busy_cores": 0.2}`, is what was seen between them. Steal between them comes from the system's
    counters, unless `during` says it or the machine has been started anew.
    """
    speeds = {"before": before["calibration"], "after": after["calibration"]}
    units = [speed["unit_s"] for speed in speeds.values() if "unit_s" in speed]
    found = {f"{when}_s": speed.get("seconds") for when, speed in speeds.items()}
    found |= {"unit_s": units[0] if units else None}
    found |= {f"gain_{when}": gain(speed) for when, speed in speeds.items()}
    kept = {name: {"before": before[name], "after": after[name]} for name in ("busy_cores", "steal", "load")}
    between = ((before.get("counted") or {}).get("end"), (after.get("counted") or {}).get("begin"))
    kept["steal"]["during"] = _share(*between)
    for name, value in (during or {}).items():
        kept[name]["during"] = value
    return {"calibration": found} | kept


class Watch:
    """Between its begin and its end: how many cores were busy with others than a process and what that started.

    `busiest`, of every `WATCH_SECONDS`, None where that is not known: by the time that each process of the system says
    it took, so that a short one that came and went is not seen. `marker`: the run's variable, which an orphan has, too.
    """

    def __init__(self, pid: int, marker: tuple[str, str]):
        self.pid, self.marker, self.busiest = pid, marker, None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        known, began = self._others(), time.monotonic()
        while not self._over.wait(WATCH_SECONDS):
            found, now = self._others(), time.monotonic()
            took = sum(max(seconds - known[who], 0.0) for who, seconds in found.items() if who in known)
            self.busiest = round(max(self.busiest or 0.0, took / (now - began)), 2)
            known, began = found, now

    def _others(self) -> dict[tuple[int, float], float]:
        """{(pid, start): seconds of processor} of each process that is not ours."""
        own = {self.pid, os.getpid()} | {process.pid for process in processes.descendants(self.pid)}
        found = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.pid not in own and not self._ours(process):
                    times = process.cpu_times()
                    found[process.pid, process.create_time()] = times.user + times.system
        return found

    def _ours(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error, OSError):  # of another user: not ours
            return processes.marked(process, self.marker)
        return False


def gain(speed: dict[str, float]) -> float | None:
    """How many times faster two threads did the calibration's parallel work than one; None where nobody looked."""
    one, two = speed.get("one_thread_s"), speed.get("two_threads_s")
    return round(one / two, 2) if one and two else None


def busy_cores(seconds: float = LOOK_SECONDS) -> float | None:
    """How many of the cores that this process may use are busy, over some seconds; None where no system counts it."""
    begin, started = counters(), time.monotonic()
    time.sleep(seconds)
    end, took = counters(), time.monotonic() - started
    if not begin or not end:
        return None
    return round(min(max((end["busy_s"] - begin["busy_s"]) / took, 0.0), float(end["cores"])), 2)


def cores() -> int:
    """How many cores this process may use."""
    return len(_own(psutil.cpu_count() or 1))


def _own(cores: int) -> list[int]:
    process = psutil.Process()
    return process.cpu_affinity() if hasattr(process, "cpu_affinity") else list(range(cores))


def counters() -> dict[str, float] | None:
    """`cores`, `all_s`, `busy_s` and `steal_s` (None if not counted) of the cores that this process may use, so far."""
    with contextlib.suppress(OSError, psutil.Error, NotImplementedError, AttributeError, RuntimeError):
        every = psutil.cpu_times(percpu=True)
        times = [every[core]._asdict() for core in _own(len(every)) if core < len(every)]
        whole = sum(took for core in times for name, took in core.items() if name not in GUESTS)
        busy = sum(took for core in times for name, took in core.items() if name not in IDLE)
        steal = sum(core["steal"] for core in times) if times and "steal" in times[0] else None
        return {"cores": len(times), "all_s": whole, "busy_s": busy, "steal_s": steal}
    return None


def _share(begin: dict | None, end: dict | None) -> float | None:
    """The share of the cores' time between two readings that was stolen; None where it is not known."""
    if not begin or not end or None in (begin["steal_s"], end["steal_s"]):
        return None
    whole, stolen = end["all_s"] - begin["all_s"], end["steal_s"] - begin["steal_s"]
    return round(stolen / whole, 4) if whole > 0 and stolen >= 0 else None


def _load() -> float | None:
    """How many processes wanted a core in the last minute; None where the system does not count them."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
