"""How fast the machine is beside a run: `fixed_work` in a process of its own, so that budgets hold anywhere.

Machines differ threefold, and one machine at two times of the day. A budget of 60 s therefore means 60 s where the
calibration takes its unit, and twice that where it takes twice the unit.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from .threads import ASLEEP, THREADS

LIMIT_SECONDS = 60.0
SCRIPT = Path("book/press/run/fixed_work.py")


def measure(root: Path) -> dict[str, float]:
    """`seconds` and `unit_s` of one calibration with the threads that the environment names; empty without one.

    A repository without the press's own folder is run without.
    """
    found = _script(root, [], {})
    return {"seconds": round(found[0], 4), "unit_s": found[1]} if found else {}


def on_threads(root: Path) -> dict[str, float]:
    """`one_thread_s` and `two_threads_s` of the same part of that work; empty without a calibration."""
    found = _script(root, ["--gain"], dict.fromkeys(THREADS, "1"))
    return {"one_thread_s": round(found[0], 4), "two_threads_s": round(found[1], 4)} if found else {}


def _script(root: Path, arguments: list[str], environment: dict[str, str]) -> list[float]:
    """The two numbers that the script prints; empty where it is not there or prints anything else."""
    if not (root / SCRIPT).is_file():
        return []
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(root / SCRIPT), *arguments],
            env={**ASLEEP, **os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )
        first, second = json.loads(done.stdout)
        return [float(first), float(second)]
    except (OSError, TypeError, ValueError, subprocess.TimeoutExpired):
        return []


def named(event: dict) -> dict[str, float]:
    """The part of a receipt's `calibration` that one measurement gives: `before_s` or `after_s`, and `unit_s`."""
    return {f"{event['when']}_s": event["seconds"], "unit_s": event["unit_s"]} if "seconds" in event else {}


def slownesses(calibration: dict[str, float] | None) -> list[float]:
    """How many times as long as its unit the calibration took, before and after, as far as they are known."""
    if not calibration or not calibration.get("unit_s"):
        return []
    return [calibration[name] / calibration["unit_s"] for name in ("before_s", "after_s") if calibration.get(name)]


def slowness(calibration: dict[str, float] | None) -> float | None:
    """The mean of both; None without one."""
    found = slownesses(calibration)
    return sum(found) / len(found) if found else None
