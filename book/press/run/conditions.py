"""What the machine was like beside a run: other work, time that its host took, its speed, and what two threads gain.
`look` before and after, `joined` for the receipt. What cannot be known is None there, which never means quiet."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil

from helpers.device import cores as cores

from . import calibration, processes
from .processes import ASLEEP, THREADS

LOOK_SECONDS = 3.0
WATCH_SECONDS = 20.0
GUESTS = ("guest", "guest_nice")  # what they took is counted under user
IDLE = ("idle", "iowait", *GUESTS)
NOT_KNOWN = {"busy_cores": None, "steal": None, "load": None, "calibration": {}}  # of a look that nobody took


def look(root: Path, seconds: float = LOOK_SECONDS) -> dict:
    """How the machine is now: `busy_cores` over some seconds; `steal`, the share of our cores' time that the host gave
    to others; `load` of the last minute; `calibration`, empty without a press; `counted`, for `joined`."""
    load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    begin, started, busy = counters(), time.monotonic(), None
    time.sleep(seconds)
    middle, took = counters(), time.monotonic() - started
    if begin and middle and seconds > 0:
        busy = round(min(max((middle["busy_s"] - begin["busy_s"]) / took, 0.0), float(middle["cores"])), 2)
    speed = calibrated(root) | _printed(root, "one_thread_s", "two_threads_s", "--gain", **dict.fromkeys(THREADS, "1"))
    counted = {"begin": begin, "end": counters()}
    return {"busy_cores": busy, "steal": _share(**counted), "load": load, "calibration": speed, "counted": counted}


def joined(before: dict, after: dict, during: dict | None = None) -> dict:
    """What a receipt keeps of two looks, None where not known; `during` (`busy_cores`) was seen between."""
    speeds = {"before": before["calibration"], "after": after["calibration"]}
    found = {"unit_s": next((speed["unit_s"] for speed in speeds.values() if "unit_s" in speed), None)}
    for when, speed in speeds.items():
        found |= {f"{when}_s": speed.get("seconds"), f"gain_{when}": gain(speed)}
    kept = {name: {"before": before[name], "after": after[name]} for name in ("busy_cores", "steal", "load")}
    between = (before.get("counted") or {}).get("end"), (after.get("counted") or {}).get("begin")
    kept["steal"]["during"] = _share(*between)
    for name, value in (during or {}).items():
        kept[name]["during"] = value
    return {"calibration": found} | kept


def gain(speed: dict[str, float]) -> float | None:
    """How many times faster two threads did the calibration's parallel work than one; None where nobody looked."""
    one, two = speed.get("one_thread_s"), speed.get("two_threads_s")
    return round(one / two, 2) if one and two else None


def calibrated(root: Path) -> dict[str, float]:
    """`seconds` and `unit_s` of one calibration with the threads that the environment names; empty without one."""
    return _printed(root, "seconds", "unit_s")


def _printed(root: Path, first: str, second: str, *options: str, **environment: str) -> dict[str, float]:
    """The two numbers that the calibration prints; empty where it is not there or prints anything else."""
    command = [sys.executable, "-P", str(root / calibration.SCRIPT), *options]
    how = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 60}
    try:
        done = subprocess.run(command, env={**ASLEEP, **os.environ, **environment}, **how)
        one, other = map(float, json.loads(done.stdout))
    except (OSError, TypeError, ValueError, subprocess.TimeoutExpired):
        return {}
    return {first: round(one, 4), second: round(other, 4)}


def counters() -> dict[str, float] | None:
    """`cores`, `all_s`, `busy_s` and `steal_s` (None if not counted) of the cores that this process may use, so far."""
    with contextlib.suppress(OSError, psutil.Error, NotImplementedError, RuntimeError):
        every = psutil.cpu_times(percpu=True)
        own = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(every))
        times = [every[core]._asdict() for core in own if core < len(every)]
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


class Watch:
    """Between its begin and its end: how many cores were busy with others than a process and what that started.
    `busiest`, of every `WATCH_SECONDS`, None where not known: by the time that each process says it took, so that a
    short one is not seen. `marker`: the run's variable, which an orphan has, too."""

    def __init__(self, pid: int, marker: tuple[str, str]):
        self.pid, self.marker, self.busiest = pid, marker, None
        self._over, self._thread = threading.Event(), threading.Thread(target=self._watch, daemon=True)

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
        own, found = {self.pid, os.getpid()} | {process.pid for process in processes.descendants(self.pid)}, {}
        for process in psutil.process_iter():
            with contextlib.suppress(*processes.GONE):
                if process.pid not in own and not processes.marked(process, self.marker):
                    times = process.cpu_times()
                    found[process.pid, process.create_time()] = times.user + times.system
        return found
