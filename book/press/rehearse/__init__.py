"""`press rehearse`: chapters on a pretended GPU, in a process of their own; `rehearsal/` is what runs there. The press
imports no torch: it writes the task and tells what came back. No receipt comes from it."""

import os
import sys
from pathlib import Path

from rehearsal.predict import CARDS, predict

from ..files import read_json, write_json
from ..repository import Chapter, Repository, tags
from ..run import child

TIMEOUT_SECONDS = 600.0


def rehearse(repository: Repository, names: list[str] | None, timeout: float = TIMEOUT_SECONDS) -> int:
    """Rehearse the chosen notebooks; the exit status: 1 where a cell failed on the device."""
    failed = []
    for chapter in repository.select(names):
        print(f"{chapter}: on a pretended GPU, at the sizes of tier cpu", flush=True)
        told = one(repository, chapter, timeout)
        for line in lines(told):
            print(f"  {line}", flush=True)
        failed += [str(chapter)] * (not told["complete"] or any("error" in cell for cell in told["cells"]))
    print(f"cells failed in: {', '.join(failed)}" if failed else "every cell ran on the pretended GPU", flush=True)
    return int(bool(failed))


def one(
    repository: Repository, chapter: Chapter, timeout: float = TIMEOUT_SECONDS, until: int | None = None, share: int = 1
) -> dict:
    """The report of one chapter, also kept as `_build/rehearsal/<stem>.json`; {"findings": …} where none came."""
    chosen = [cell for cell in cells(chapter) if until is None or cell["index"] <= until]
    with child.scratch(repository, "rehearsal") as scratch:
        report = scratch / "report.json"
        task = {"cells": chosen, "report": str(report), "seconds": timeout, "share": share}
        write_json(scratch / "task.json", task)
        problem = run_module(repository, chapter.home, scratch, "rehearsal.chapter", 2 * timeout)
        told = read_json(report) or {"findings": []}
    told["findings"] += [problem] if problem else []
    told["complete"] = not problem
    if "cells" in told:
        write_json(repository.build / "rehearsal" / f"{chapter.stem}.json", told)
    return told


def cells(chapter: Chapter) -> list[dict]:
    """The code cells with their places in the notebook, tier gpu chosen after the parameters; no `wrong` answers."""
    code = [(at, cell) for at, cell in enumerate(chapter.cells) if cell.cell_type == "code"]
    code = [(at, cell.source, tags(cell)) for at, cell in code if "wrong" not in tags(cell)]
    return [{"index": at, "source": text + '\nTIER = "gpu"' * ("parameters" in own)} for at, text, own in code]


def lines(told: dict) -> list[str]:
    """What a person reads of a report: findings, sums, predictions."""
    said = [f"found: {line}" for line in told["findings"]] or ["found: nothing"]
    if "cells" not in told:
        return said
    sums = ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in told["counts"].items())
    rows = [[row for cell in told["cells"] for row in cell.get(kind, ())] for kind in ("work", "links")]
    said.append(f"counted: {sums}")
    for card in (card for tier in CARDS.values() for card in tier):
        found = predict(card, *rows, told["counts"]["syncs"], told["counts"]["peak_bytes"])
        said.append(
            f"predicted, not measured, at these sizes: {card.name} at least {found.seconds:.3g} s, "
            f"most of it {found.bound}; torch holds {found.peak_bytes / 1e6:,.0f} MB"
        )
    return said


def run_module(repository: Repository, folder: Path, scratch: Path, module: str, timeout: float) -> str:
    """What went wrong with `python -m module scratch/task.json`, if anything; all that it started is gone."""
    path = [str(repository.root), str(Path(__file__).resolve().parents[3]), os.environ.get("PYTHONPATH", "")]
    own = {"PYTHONPATH": os.pathsep.join(filter(None, path)), "IPYTHONDIR": str(scratch / "ipython")}
    own |= {"TQDM_DISABLE": "1", "MPLBACKEND": "agg"}
    command = [sys.executable, "-W", "ignore", "-m", module, str(scratch / "task.json")]
    with (scratch / "log").open("wb") as log:
        status = child.run(command, folder, {**os.environ, **own}, scratch, timeout, log).status
    if status is None:
        return f"not finished after {timeout:.0f} s"
    last = (scratch / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
    return f"ended with status {status}: {' '.join(last)}" if status else ""
