"""A notebook's cells on the pretended device: `python -m rehearsal.chapter task.json`, started by `press rehearse`.

The path is tier gpu's, the sizes are tier cpu's. Each cell runs even when one before it failed, so that one rehearsal
finds more than one mistake; what fails for want of a name that a failed cell should have made is told apart.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from . import device
from .counts import CELL, is_ours, ledger, short

NOTHING = "nothing ran on the device in the notebook's own process; what its child processes do is not counted"
SIZES = "cpu"  # of the tiers' sizes; a card's would take the CPU hours


def main(path: str) -> int:
    """Rehearse what the task says: `cells` (index, source), `report` (where to), `seconds`, `share` (of sizes)."""
    task = json.loads(Path(path).read_text(encoding="utf-8"))
    os.environ["MPLBACKEND"] = "agg"
    children = [str(Path(__file__).resolve().parent / "children"), str(Path(__file__).resolve().parents[1])]
    os.environ["PYTHONPATH"] = os.pathsep.join([*children, *filter(None, [os.environ.get("PYTHONPATH")])])
    sys.path[:0] = [os.getcwd()]
    device.install()
    _small(task.get("share", 1))
    report = Path(task["report"])
    for told in rehearse([(cell["index"], cell["source"]) for cell in task["cells"]], task["seconds"]):
        part = report.with_suffix(".part")  # whole after each cell, also when a later one is ended
        part.write_text(json.dumps(told), encoding="utf-8")
        os.replace(part, report)
    return 0


def _small(share: int = 1) -> None:
    """Tier gpu with a `share`-th of the sizes of tier cpu; what is timed runs twice: its seconds mean nothing here."""
    from helpers import bench
    from helpers.device import Tier

    def pick(self, *, cpu, gpu, big):
        size = {"cpu": cpu, "gpu": gpu, "big": big}[SIZES]
        return max(1, size // share) if isinstance(size, int) else size

    Tier.pick = pick
    race, peak, memory_of = bench.race, bench.peak, bench._memory_of

    def once(contestants, repeats=20, warmup=3, reference=None, device=None):
        return race(contestants, min(repeats, 1), min(warmup, 1), reference, device)

    def unmeasured(device=None, dtype="float32"):
        if device is not None and str(device).startswith("cpu"):
            return peak(device, dtype)
        return bench.Peak(1.0, 1.0, str(device), dtype)

    def watched(fn, calls, where):
        before = ledger.counts.copy()
        found = memory_of(fn, calls, where)
        after = ledger.counts - before
        if where.startswith("cuda") and not after.operations + sum(after.links.values()):
            ledger.counts.idle[ledger.place()] += 1
        return found

    bench.race, bench.peak, bench._memory_of = once, unmeasured, watched


def rehearse(cells: list[tuple[int, str]], seconds: float = 600) -> Iterator[dict]:
    """What was counted and found after each cell: `cells`, one entry each, `findings`, the sums of `counts`."""
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    asyncio.set_event_loop(asyncio.new_event_loop())
    shell, found, failed, began = InteractiveShell.instance(), [], [], time.monotonic()
    for index, source in cells:
        ledger.cell = index
        if time.monotonic() - began > seconds:
            found.append({"cell": index, "error": f"not reached within {seconds:.0f} s", "follows": False})
            yield {"cells": found, "findings": findings(found), "counts": ledger.counts.summary()}
            return
        with device.counted() as counts, capture_output():
            result = shell.run_cell(source, store_history=True)
        entry = {"cell": index} | counts.summary() | {"findings": counts.findings()}
        entry |= {"work": [[*key, calls] for key, calls in counts.work.items()]}
        entry |= {"links": [[*key, copies] for key, copies in counts.links.items()]}
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            follows = bool(failed) and isinstance(error, NameError)
            entry |= {"error": f"{type(error).__name__}: {_one_line(str(error))}", "at": _at(error), "follows": follows}
            failed.append(index)
        found.append(entry)
        yield {"cells": found, "findings": findings(found), "counts": ledger.counts.summary()}
    if not ledger.counts.operations:
        yield {"cells": found, "findings": [*findings(found), NOTHING], "counts": ledger.counts.summary()}


def findings(cells: list[dict]) -> list[str]:
    """All findings in the order of the cells; what merely follows from an earlier one is left out."""
    told = []
    for entry in cells:
        if "error" in entry and not entry["follows"]:
            told.append(f"cell {entry['cell']}{entry.get('at', '')}: {entry['error']}")
        told += entry.get("findings", ())
    return told


def _one_line(text: str) -> str:
    """The first and the last line of a message: what lies between is a child's traceback."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " … ".join(dict.fromkeys([*lines[:1], *lines[-1:]]))


def _at(error: BaseException) -> str:
    """The innermost line of our own code in a traceback."""
    places, at = [], error.__traceback__
    while at:
        name = at.tb_frame.f_code.co_filename
        if name.startswith(CELL):
            places.append(f", line {at.tb_lineno}")
        elif is_ours(name):
            places.append(f", {short(name)}:{at.tb_lineno}")
        at = at.tb_next
    return places[-1] if places else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
