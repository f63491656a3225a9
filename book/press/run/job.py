"""One notebook on its way through papermill, in a process of its own; its results are put in their place."""

import os
import re
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from textwrap import indent

import nbformat

from ..files import read_json, remove, write_bytes, write_json, write_text
from ..repository import Chapter, Repository, read_notebook, tags
from ..reuse import cache, store
from . import calibration, child, conditions
from .processes import environment

HERE = Path(__file__).resolve().parent
KERNEL_SECONDS = 120  # for the kernel's start, before the notebook's own limit begins to count
AROUND_SECONDS = 300.0  # for what the process does before the kernel's start and after the notebook's end
KERNEL_START = f"import runpy\n\nrunpy.run_path({str(HERE / 'figure_data.py')!r})['install']()\ndel runpy\n"
QUIET = ("JUPYTER_PREFER_ENV_PATH", "JUPYTER_PLATFORM_DIRS", "PYDEVD_DISABLE_FILE_VALIDATION", "TQDM_DISABLE")
NO_RECEIPT = "the notebook wrote no receipt. Mend: receipts.start(…) at its beginning, and .write() at its end."
BAR = re.compile(r"\d+%\|.*\|\s*\S+/\S+ \[|\d+(\.\d+)?\w*\s?(it|B) \[\d+:\d+")
CELL_FILE = re.compile(r"[^\s'\"]*/ipykernel_\d+/\d+\.py")
TOOL_METADATA = ("papermill", "execution", "collapsed", "scrolled", "widgets")


@dataclass(frozen=True)
class Outcome:
    """How a notebook came out: `state` is fresh, cached or failed; `message` says why it failed."""

    chapter: Chapter
    state: str
    seconds: float = 0.0
    peak_bytes: int = 0
    message: str = ""
    notes: list[str] = field(default_factory=list)


def say(line: str) -> None:
    """Print a line with the time of day, at once."""
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def execute(repository: Repository, chapter: Chapter, tier: str, timeout: float, threads: int) -> Outcome:
    """How the notebook came out, with nothing of it left running; the limit `timeout` counts from its first cell."""
    say(f"{chapter}: started")
    made_of, began = cache.parts(repository, chapter, tier, threads), time.monotonic()
    with child.scratch(repository, chapter.stem) as scratch:
        inside = scratch / "inside"
        task = {"root": str(repository.root), "seconds": timeout, "cwd": str(chapter.home)}
        task |= {"parameters": {} if tier == "auto" else {"TIER": tier}, "start_timeout": KERNEL_SECONDS}
        write_json(inside / "task.json", task)
        notebook = read_notebook(chapter.notebook)
        notebook.cells = [cell for cell in notebook.cells if "wrong" not in tags(cell)]
        nbformat.write(notebook, inside / "input.ipynb")
        write_text(inside / "ipython" / "profile_default" / "startup" / "figure_data.py", KERNEL_START)
        command, limit = [sys.executable, str(HERE.parent), "worker"], KERNEL_SECONDS + timeout + AROUND_SECONDS
        with (inside / "log").open("wb") as log:
            own = environment(threads) | dict.fromkeys(QUIET, "1")
            own |= {"IPYTHONDIR": str(inside / "ipython"), "JUPYTER_RUNTIME_DIR": str(inside / "runtime")}
            path = filter(None, [str(repository.root), os.environ.get("PYTHONPATH")])
            own |= {"PYTHONPATH": os.pathsep.join(path)}
            ended = child.run(command, inside, own, scratch, limit, log, held=True)
        told = read_json(inside / "told.json") or {}
        receipts = {path.name: read_json(path) for path in sorted(scratch.glob("*.json"))}
        if why := _failure(told, receipts, ended.status, inside / "log"):
            return _failed(repository, chapter, time.monotonic() - began, why | told, inside / "output.ipynb")
        notebook = nbformat.read(inside / "output.ipynb", as_version=4)
        names = {f"{scratch}/": "_build/receipts/", f"{repository.root}/": ""}
        return _succeeded(repository, chapter, made_of, told, receipts, tidy(notebook, names), ended.left)


def _failure(told: dict, receipts: dict, status: int | None, log: Path) -> dict:
    """What went wrong, as `error` and `traceback`; empty where nothing did."""
    if "seconds" not in told:
        said = log.read_text(encoding="utf-8", errors="replace").strip()
        return {"error": "the process ended", "traceback": said or f"status {status}"}  # unless it told better
    lacks = not any(isinstance(content, dict) for content in receipts.values())
    return {"error": "no receipt", "traceback": NO_RECEIPT} if lacks else {}


def _failed(repository: Repository, chapter: Chapter, seconds: float, why: dict, partial: Path) -> Outcome:
    cells = {cell.get("id"): (index, cell.source) for index, cell in enumerate(chapter.cells)}
    index, source = cells.get(why.get("cell"), ("?", "(before the first cell)"))
    message = f"{chapter}: {why['error']} in cell {index} after {seconds:.0f} s\n{indent(source, '    ')}"
    message += f"\n\n{why['traceback'].strip()}"
    if read_json(partial) is not None:
        where = write_bytes(chapter.failed, partial.read_bytes())
        message += f"\nThe notebook as far as it came: {repository.relative(where)}"
    return Outcome(chapter, "failed", seconds, message=message)


def _succeeded(
    repository: Repository, chapter: Chapter, made_of: dict, told: dict, receipts: dict, notebook, left: list[str]
) -> Outcome:
    """Write receipts, the executed copy and the record, each whole, and keep them in the cache."""
    looks, peak = [told.get(when, conditions.NOT_KNOWN) for when in ("before", "after")], told["peak_bytes"]
    measured = {name: round(told[name], 2) for name in ("seconds", "processor_seconds")} | {"peak_memory_bytes": peak}
    measured |= conditions.joined(*looks, during={"busy_cores": round(told["busy_cores"], 2)})
    for name, content in receipts.items():
        if content.get("tier") != "cpu":  # the notebook's own number is the GPU's memory
            content["gpu_peak_memory_bytes"] = content.get("peak_memory_bytes")
        content.update(measured)
        write_json(repository.build / "receipts" / name, content)
    write_text(chapter.executed, nbformat.writes(notebook) + "\n")
    record(chapter, made_of, receipts, cached=False)
    kept = {"notebook": chapter.executed.read_text(encoding="utf-8"), "receipts": receipts}
    store.put("notebooks", cache.key(made_of), kept)
    remove(chapter.failed)
    notes = [f"ended what the notebook left running: {', '.join(left)}"] if left else []
    if not any(look["calibration"] for look in looks) and (repository.root / calibration.SCRIPT).is_file():
        notes.append("the calibration gave no number, so no budget can be held")
    for index, cell in enumerate(notebook.cells):  # warnings that readers would see
        said = [one.text.strip() for one in cell.get("outputs", ()) if one.get("name") == "stderr" and one.text.strip()]
        notes += [f"cell {index} wrote to stderr: {text.splitlines()[0][:160]}" for text in said]
    return Outcome(chapter, "fresh", told["seconds"], peak, notes=notes)


def record(chapter: Chapter, made_of: dict[str, str], receipts: dict[str, dict], *, cached: bool) -> None:
    """Note beside the executed copy what it was made of, its receipts (a bench may write others), if cached."""
    when = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(chapter.run_record, {"made_of": made_of, "receipts": receipts, "cached": cached, "date": when})


def tidy(notebook: nbformat.NotebookNode, names: dict[str, str]) -> nbformat.NotebookNode:
    """The notebook without progress bars, widget states, traces of papermill and folders of this machine, changed in
    place. `names`: what stands for each folder, the longest first."""
    from nbconvert.preprocessors.coalescestreams import CoalesceStreamsPreprocessor

    for owner in (notebook, *notebook.cells):
        for name in set(TOOL_METADATA) & set(owner.metadata):
            del owner.metadata[name]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if _cleaned(output, names)]
    return CoalesceStreamsPreprocessor().preprocess(notebook, {})[0]  # so that a page shows one block of each


def _cleaned(output: nbformat.NotebookNode, names: dict[str, str]) -> bool:
    """Whether anything is left of an output; what is left names no folder of this machine."""
    data = output.get("data", {})
    for kind, content in data.items():
        if kind.startswith("text/") and isinstance(content, str):
            data[kind] = _renamed(content, names)
    if output.output_type == "stream":
        kept = "".join(line for line in output.text.splitlines(keepends=True) if not BAR.search(line))
        output.text = _renamed(kept, names)
    return bool(output.get("text", "more")) and not any("jupyter.widget" in kind for kind in data)


def _renamed(text: str, names: dict[str, str]) -> str:
    if "/ipykernel_" in text:  # the search is slow on the long lines of an embedded image
        text = CELL_FILE.sub("this cell", text)
    for folder, name in names.items():
        text = text.replace(folder, name)
    return text
