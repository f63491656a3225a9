"""The gate on time: what the newest runs on this machine took, in units of the calibration beside them.

It measures nothing. Where the calibration before and after differ, or others were at work, seconds mean little: there
the processor's time is judged, by the faster of both, and that is said. What has not run here, or ran without a
calibration, is told, and is a problem only where `REBUILT_CALIBRATED=1` says that all has just been run.
"""

import os
from collections.abc import Callable, Iterator

from ...files import read_json
from ...ledger import BUSY_CORES
from ...repository import Chapter, Repository
from ...run.calibration import slowness, slownesses
from ...run.suite import record_of
from .. import gate

NOTEBOOK_SECONDS, TESTS_SECONDS = 60.0, 20.0
SLACK = 1.15  # a machine has phases that a second's calibration before and after does not see
UNEVEN = 1.3  # times between the calibration before and after


@gate
def budgets(repository: Repository) -> Iterator[tuple]:
    """A notebook takes {NOTEBOOK_SECONDS:.0f} s, a slice's tests {TESTS_SECONDS:.0f} s, on the machine of the unit."""
    runs = {str(chapter): (chapter, newest(chapter, _at_cpu), NOTEBOOK_SECONDS) for chapter in repository.chapters}
    for chapter in repository.chapters:
        record = read_json(record_of(repository, chapter.home)) or {}
        runs[f"tests of {chapter.part}/{chapter.folder}"] = (chapter, record, TESTS_SECONDS)
    untold = []
    for name, (chapter, run, allowed) in runs.items():
        if slowness(run.get("calibration")) is None:
            untold.append(name)
        elif what := _too_slow(name, run, allowed):
            yield chapter.notebook, f"{name}: {what}; allowed are {allowed:.0f} s and {SLACK - 1:.0%}"
    if untold and os.environ.get("REBUILT_CALIBRATED") == "1":
        yield "_build", f"no calibrated run on this machine of {', '.join(untold)}"
    elif untold:
        print(f"budgets: no calibrated run on this machine of {len(untold)} notebooks and slices", flush=True)


def newest(chapter: Chapter, fits: Callable[[dict], object]) -> dict:
    """The newest fitting receipt of the chapter's executed copy; empty where there is none."""
    found = ((read_json(chapter.run_record) or {}).get("receipts") or {}).values()
    return max(filter(fits, found), key=lambda one: str(one.get("date")), default={})


def _at_cpu(receipt: dict) -> bool:
    return receipt.get("tier") == "cpu" and bool(receipt.get("seconds"))


def busiest(run: dict) -> float:
    """The most cores that others were seen to use beside a run; 0 where nobody looked."""
    return max((cores for cores in (run.get("busy_cores") or {}).values() if cores is not None), default=0.0)


def _too_slow(name: str, run: dict, allowed: float) -> str:
    """How long a run took that took too long; empty where it did not, and where that cannot be said, which is told."""
    seconds, slow, told = run["seconds"], slowness(run["calibration"]), f"{run['seconds']:.0f} s"
    if disturbed := _disturbed(run):
        taken = run.get("processor_seconds")
        if taken is None:
            print(f"budgets: {name}: {disturbed}, and no processor time is known: not judged", flush=True)
            return ""
        seconds, slow = taken / (run.get("threads") or 1), min(slownesses(run["calibration"]))
        print(f"budgets: {name}: {disturbed}, so not its {told} are judged but the processor's time", flush=True)
        told = f"{seconds:.0f} s of processor on each thread,"
    measured = f"{seconds / slow:.0f} s ({told} where the calibration took {slow:.2f} of its unit)"
    return measured if seconds / slow > allowed * SLACK else ""


def _disturbed(run: dict) -> str:
    """What makes a run's seconds no measure of it; empty where nothing does."""
    sides = slownesses(run["calibration"])
    if busiest(run) >= BUSY_CORES:
        return f"others took {busiest(run):.1f} cores meanwhile"
    if max(sides) > UNEVEN * min(sides):
        return f"the calibration took {sides[0]:.2f} of its unit before and {sides[-1]:.2f} after"
    return ""
