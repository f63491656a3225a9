"""The process that executes one notebook with papermill and reports to the press.

It is told what to do by a JSON file and tells what happens by lines of JSON in an events file; its parent
holds its stdin, and when that closes (the parent died) it ends its kernel and itself.
"""

import json
import os
import re
import sys
import threading
import time
from pathlib import Path

import nbformat

from . import conditions

LOOK_SECONDS = 1.0  # at how busy the machine is, before and after; what is busy meanwhile is measured all along
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def execute(task: dict) -> int:
    """Run the task's notebook from the scratch folder that holds it; the exit status.

    `task`: `root`, `cwd`, `parameters`, `cell_timeout`, `start_timeout`; the scratch folder holds `input.ipynb` and
    receives `output.ipynb` and `events.jsonl`. Events: looked (before; see `conditions`), kernel, cell …, done or
    failed, looked (after); `done` says how long the notebook took, its kernel's start included, on the clock
    and on the processors, and how many cores other work kept busy meanwhile.
    """
    with Path("events.jsonl").open("a", encoding="utf-8") as events:

        def tell(event: str, **facts: object) -> None:
            events.write(json.dumps({"event": event, **facts}) + "\n")
            events.flush()

        threading.Thread(target=_die_with_parent, daemon=True).start()
        tell("looked", when="before", look=conditions.look(Path(task["root"]), LOOK_SECONDS))
        tell("kernel")
        began, others, own = time.monotonic(), _other_seconds(), _own_seconds()
        try:
            _papermill(task, tell)
        except Exception as error:  # whatever went wrong, the press has to hear it
            tell("failed", **_facts(error))
            return 1
        seconds = time.monotonic() - began
        busy, own = max(0.0, (_other_seconds() - others) / seconds), _own_seconds() - own
        tell("done", seconds=seconds, busy_cores=busy, processor_seconds=own)
        tell("looked", when="after", look=conditions.look(Path(task["root"]), LOOK_SECONDS))
    return 0


def _other_seconds() -> float:
    """Seconds of processor time that this machine has spent on anything but this process and its ended children."""
    import psutil

    busy = sum(took for name, took in psutil.cpu_times()._asdict().items() if name not in conditions.IDLE)
    return busy - _own_seconds()


def _own_seconds() -> float:
    """Seconds of processor time of this process and its ended children."""
    return sum(os.times()[:4])


def _papermill(task: dict, tell) -> None:
    import papermill

    notebook = papermill.execute_notebook(
        "input.ipynb",
        "output.ipynb",
        parameters=task["parameters"],
        cwd=task["cwd"],
        progress_bar=False,
        autosave_cell_every=0,
        start_timeout=task["start_timeout"],
        execution_timeout=task["cell_timeout"],
        on_cell_start=lambda cell, cell_index: tell("cell", id=cell.get("id")),
    )
    for cell in notebook.cells:  # exit() ends a kernel quietly; a page needs every cell
        if cell.cell_type == "code" and cell.source.strip() and cell.execution_count is None:
            raise RuntimeError("the run ended here with cells left over: did a cell call exit()?")


def _facts(error: Exception) -> dict:
    """What the press prints: the error's name and the traceback, without colours."""
    lines = [ANSI.sub("", line) for line in getattr(error, "traceback", None) or []]
    if not lines:
        lines = [f"{type(error).__name__}: {ANSI.sub('', str(error))}"]
    name = getattr(error, "ename", type(error).__name__)
    return {"error": name, "traceback": "\n".join(lines)}


def _die_with_parent() -> None:
    """End everything once stdin closes: the parent holds the other end and is gone."""
    import psutil

    sys.stdin.buffer.read()
    for child in psutil.Process().children(recursive=True):
        child.kill()
    os._exit(1)


def prepare(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook to execute: without its `wrong` answers; changed in place. Papermill empties old outputs."""
    notebook.cells = [cell for cell in notebook.cells if "wrong" not in cell.metadata.get("tags", [])]
    return notebook
