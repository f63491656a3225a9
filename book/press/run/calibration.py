"""How fast the machine is beside a run: `fixed_work` in a process of its own, so that budgets hold anywhere.

Machines differ threefold, and one machine at two times of the day. A budget of 60 s therefore means 60 s where the
calibration takes its unit, and twice that where it takes twice the unit.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from .threads import ASLEEP

LIMIT_SECONDS = 60.0
SCRIPT = Path("book/press/run/fixed_work.py")


def measure(root: Path) -> dict[str, float]:
    """`seconds` and `unit_s` of one calibration with the threads that the environment names; empty without one.

    A repository without the press's own folder is run without.
    """
    if not (root / SCRIPT).is_file():
        return {}
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(root / SCRIPT)],
            env={**ASLEEP, **os.environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )
        seconds, unit = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}
    return {"seconds": round(seconds, 4), "unit_s": unit}


def named(event: dict) -> dict[str, float]:
    """The part of a receipt's `calibration` that one measurement gives: `before_s` or `after_s`, and `unit_s`."""
    return {f"{event['when']}_s": event["seconds"], "unit_s": event["unit_s"]} if "seconds" in event else {}


def slowness(calibration: dict[str, float] | None) -> float | None:
    """How many times as long as its unit the calibration took, before and after on average; None without one."""
    if not calibration or not calibration.get("unit_s"):
        return None
    taken = [calibration[name] for name in ("before_s", "after_s") if name in calibration]
    return sum(taken) / len(taken) / calibration["unit_s"] if taken else None
