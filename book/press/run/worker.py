"""The process that executes one notebook with papermill and tells the press how that goes, in a JSON file. Its parent
holds its stdin: when that closes (the parent died) it ends its kernel and itself."""

import os
import re
import sys
import threading
import time
from pathlib import Path

from ..files import read_json, write_json
from . import conditions, processes

LOOK_SECONDS = 1.0  # at how busy the machine is, before and after; what is busy meanwhile is measured all along
WEIGH_SECONDS = 0.4  # between two looks at the memory; the system keeps each process's own peak meanwhile
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def main(_: object) -> int:
    """Run the task of this folder, `task.json`; the exit status."""
    return execute(read_json(Path("task.json")))


def execute(task: dict) -> int:
    """Run this folder's `input.ipynb` into `output.ipynb`; the exit status. `task`: the book's `root`, the `seconds`
    that it may take, and what papermill is told. `told.json` gets the machine `before` and `after` (see `conditions`),
    the `cell`; what it took, itself and its kernel, `busy_cores` of other work; or the `error`."""
    told, where = {}, Path("told.json").resolve()  # papermill changes the folder
    root, limit, held, over = Path(task.pop("root")), task.pop("seconds"), {}, threading.Event()

    def tell(**facts: object) -> None:
        told.update(facts)
        write_json(where, told)

    threading.Thread(target=_die_with_parent, daemon=True).start()
    tell(before=conditions.look(root, LOOK_SECONDS))
    weighing = threading.Thread(target=_weigh, args=(held, over), daemon=True)
    weighing.start()
    began, others, own = time.monotonic(), _other_seconds(), _own_seconds()
    try:
        _papermill(task, limit, tell)
    except Exception as error:  # whatever went wrong, the press has to hear it
        lines = getattr(error, "traceback", None) or [f"{type(error).__name__}: {error}"]
        traceback = ANSI.sub("", "\n".join(lines))  # without colours
        tell(error=getattr(error, "ename", type(error).__name__), traceback=traceback)
        return 1
    seconds = time.monotonic() - began
    busy, own = max(0.0, (_other_seconds() - others) / seconds), _own_seconds() - own
    over.set()
    weighing.join()
    own -= held.get("seconds", 0.0)
    tell(seconds=seconds, busy_cores=busy, processor_seconds=own, peak_bytes=held.get("bytes", 0))
    tell(after=conditions.look(root, LOOK_SECONDS))
    return 0


def _weigh(held: dict, over: threading.Event) -> None:
    """Keep the most `bytes` that this process's children held, and the `seconds` of processor that looking took."""
    while not over.wait(WEIGH_SECONDS):
        held["bytes"] = max(held.get("bytes", 0), processes.memory_bytes(os.getpid()))
        held["seconds"] = time.thread_time()


def _other_seconds() -> float:
    """Seconds of processor time that this machine has spent on anything but this process and its ended children."""
    import psutil

    busy = sum(took for name, took in psutil.cpu_times()._asdict().items() if name not in conditions.IDLE)
    return busy - _own_seconds()


def _own_seconds() -> float:
    return sum(os.times()[:4])


def _papermill(task: dict, limit: float, tell) -> None:
    """Execute the notebook; who takes longer than the limit, from its first cell on, is left to the press to end."""
    import papermill

    def late() -> None:
        tell(error="Timeout", traceback=f"not finished after {limit:.0f} s")
        os._exit(1)

    def start(cell, cell_index: int) -> None:
        if timer.ident is None:
            timer.start()
        tell(cell=cell.get("id"))

    timer = threading.Timer(limit, late)
    timer.daemon = True
    how = {"progress_bar": False, "autosave_cell_every": 0, "on_cell_start": start}
    try:
        notebook = papermill.execute_notebook("input.ipynb", "output.ipynb", **task, **how)
    finally:
        timer.cancel()
    for cell in notebook.cells:  # exit() ends a kernel quietly; a page needs every cell
        if cell.cell_type == "code" and cell.source.strip() and cell.execution_count is None:
            raise RuntimeError("the run ended here with cells left over: did a cell call exit()?")


def _die_with_parent() -> None:
    """End everything once stdin closes: the parent holds the other end and is gone."""
    import psutil

    sys.stdin.buffer.read()
    for child in psutil.Process().children(recursive=True):
        child.kill()
    os._exit(1)
