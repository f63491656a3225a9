"""One notebook on its way through papermill: started, watched, ended, its results put in their place."""

import json
import os
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import nbformat

from ..files import read_json, remove, write_bytes, write_json, write_text
from ..repository import Chapter, Repository, read_notebook
from ..reuse import cache
from . import calibration, conditions, processes
from .outputs import stderr_lines, tidy
from .threads import environment
from .worker import prepare

PRESS = Path(__file__).resolve().parent  # of this package; the press itself is one up
KERNEL_SECONDS = 120.0  # for the kernel's start, before the notebook's own limit begins to count
WEIGH_SECONDS = 0.4  # between two looks at the memory; the system keeps each process's own peak meanwhile
KERNEL_START = f"""\
def _load():
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("rebuilt_figure_data", {str(PRESS / "figure_data.py")!r})
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.install()


_load()
del _load
"""


@dataclass(frozen=True)
class Outcome:
    """How a notebook came out: `state` is fresh, cached or failed; `message` says why it failed."""

    chapter: Chapter
    state: str
    seconds: float = 0.0
    peak_bytes: int = 0
    message: str = ""
    notes: list[str] = field(default_factory=list)


class Job:
    """One running notebook. `poll()` until `outcome` is there; `stop()` ends it at any time.

    The notebook's limit counts from its first cell; until then the kernel's start has `KERNEL_SECONDS`.
    """

    def __init__(self, repository: Repository, chapter: Chapter, *, tier: str, timeout: float, threads: int):
        self.repository, self.chapter, self.tier = repository, chapter, tier
        self.timeout, self.threads = timeout, threads
        self.made_of = cache.parts(repository, chapter, tier, threads)
        self.run_id = uuid.uuid4().hex[:12]
        self.scratch = repository.build / "running" / f"{chapter.stem}-{self.run_id}"
        self.outcome: Outcome | None = None
        self.cell, self.count, self.cell_id = 0, 0, None
        self._failure: dict | None = None
        self._done = False
        self._kernel: float | None = None  # when its start began
        self._first: float | None = None  # when the first cell began
        self._seconds = self._busy_cores = self._processor_seconds = 0.0
        self._looks = {"before": conditions.NOT_KNOWN, "after": conditions.NOT_KNOWN}
        self._read = 0
        self._peak_bytes, self._weighed = 0, 0.0

    def start(self) -> "Job":
        """The job, its process started."""
        (self.scratch / "receipts").mkdir(parents=True)
        notebook = prepare(read_notebook(self.chapter.notebook))
        self.order = {cell.get("id"): index for index, cell in enumerate(notebook.cells)}
        self.count = len(notebook.cells)
        nbformat.write(notebook, self.scratch / "input.ipynb")
        task = {
            "root": str(self.repository.root),
            "cwd": str(self.chapter.home),
            "parameters": {} if self.tier == "auto" else {"TIER": self.tier},
            "cell_timeout": max(1, int(self.timeout)),
            "start_timeout": KERNEL_SECONDS,
        }
        write_json(self.scratch / "task.json", task)
        write_text(self.scratch / "ipython" / "profile_default" / "startup" / "figure_data.py", KERNEL_START)
        with (self.scratch / "worker.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(PRESS.parent), "worker"],
                cwd=self.scratch,
                env=self._environment(),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.began = time.monotonic()
        return self

    def _environment(self) -> dict[str, str]:
        path = [str(self.repository.root), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        own = {
            "PYTHONPATH": os.pathsep.join(path),
            "REBUILT_RECEIPTS": str(self.scratch / "receipts"),
            "REBUILT_RUN": self.run_id,
            "IPYTHONDIR": str(self.scratch / "ipython"),
            "JUPYTER_RUNTIME_DIR": str(self.scratch / "runtime"),
            "JUPYTER_PREFER_ENV_PATH": "1",
            "JUPYTER_PLATFORM_DIRS": "1",
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            "TQDM_DISABLE": "1",
        }
        return environment(self.threads) | own

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.began

    def poll(self) -> Outcome | None:
        """The outcome once the notebook is through, failed or out of time; None before."""
        if self._kernel is not None and not self._done:  # what calibrates is not the notebook's
            self._weigh()
        ended = self.process.poll() is not None
        self._hear()
        if not ended and not self._done and (late := self._late()):
            self._failure = {"error": "Timeout", "traceback": late}
            ended = True
        if ended:
            seconds = self._seconds or self.elapsed
            left = self._end()
            self.outcome = self._finish(seconds, left if self._done else [])
            remove(self.scratch)
        return self.outcome

    def _weigh(self) -> None:
        """Look at the memory, now and then only: it means reading of every process on the machine."""
        now = time.monotonic()
        if now - self._weighed >= WEIGH_SECONDS:
            self._weighed = now
            self._peak_bytes = max(self._peak_bytes, processes.memory_bytes(self.process.pid))

    def _late(self) -> str:
        """Which limit has run out; empty as long as none has."""
        now = time.monotonic()
        if self._first is not None:
            return f"not finished after {self.timeout:.0f} s" if now - self._first > self.timeout else ""
        if self._kernel is not None and now - self._kernel > KERNEL_SECONDS:
            return f"the kernel did not start within {KERNEL_SECONDS:.0f} s; the notebook's own limit had not begun"
        return ""

    def stop(self) -> None:
        """End the notebook and everything that it started, and leave nothing behind."""
        self._end()
        remove(self.scratch)

    def _end(self) -> list[str]:
        left = processes.end_tree(self.process.pid, ("REBUILT_RUN", self.run_id))
        self.process.stdin.close()
        self.process.wait()
        return left

    def _hear(self) -> None:
        """Take in the events that the worker has written since the last look."""
        path = self.scratch / "events.jsonl"
        if not path.exists():
            return
        with path.open("rb") as handle:
            handle.seek(self._read)
            whole, newline, _ = handle.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        for line in whole.splitlines():
            self._take(json.loads(line))

    def _take(self, event: dict) -> None:
        kind = event["event"]
        if kind == "looked":
            self._looks[event["when"]] = event["look"]
        elif kind == "kernel":
            self._kernel = time.monotonic()
        elif kind == "cell":
            self._first = self._first or time.monotonic()
            self.cell_id = event["id"]
            self.cell = self.order.get(event["id"], self.cell)
        elif kind == "done":
            self._done, self._seconds, self._busy_cores = True, event["seconds"], event["busy_cores"]
            self._processor_seconds = event["processor_seconds"]
        elif kind == "failed":
            self._failure = event

    def _finish(self, seconds: float, left: list[str]) -> Outcome:
        receipts = {path.name: read_json(path) for path in sorted((self.scratch / "receipts").glob("*.json"))}
        if self._failure is None and not self._done:
            log = (self.scratch / "worker.log").read_text(encoding="utf-8", errors="replace").strip()
            self._failure = {"error": "the process ended", "traceback": log or f"status {self.process.returncode}"}
        if self._failure is None and not any(isinstance(content, dict) for content in receipts.values()):
            mend = "Mend: receipts.start(…) at the beginning and .write() at the end of the notebook."
            self._failure = {"error": "no receipt", "traceback": f"the notebook wrote no receipt. {mend}"}
        if self._failure:
            return self._failed(seconds)
        notes = [f"ended what the notebook left running: {', '.join(left)}"] if left else []
        calibrated = any(look["calibration"] for look in self._looks.values())
        if not calibrated and (self.repository.root / calibration.SCRIPT).is_file():
            notes.append("the calibration gave no number, so no budget can be held")
        return self._succeeded(seconds, receipts, notes)

    def _failed(self, seconds: float) -> Outcome:
        partial = self.scratch / "output.ipynb"
        where = self.repository.build / "failed" / f"{self.chapter.document}.ipynb"
        kept = ""
        if read_json(partial) is not None:
            write_bytes(where, partial.read_bytes())
            kept = f"\nThe notebook as far as it came: {self.repository.relative(where)}"
        cells = {cell.get("id"): (index, cell.source) for index, cell in enumerate(self.chapter.cells)}
        index, source = cells.get(self.cell_id, ("?", "(before the first cell)"))
        title = f"{self.chapter}: {self._failure['error']} in cell {index} after {seconds:.0f} s"
        shown = "\n".join(f"    {line}" for line in source.splitlines())
        message = f"{title}\n{shown}\n\n{self._failure['traceback'].strip()}{kept}"
        return Outcome(self.chapter, "failed", seconds, self._peak_bytes, message)

    def _succeeded(self, seconds: float, receipts: dict, notes: list[str]) -> Outcome:
        """Write receipts, the executed copy and the record, each whole, and keep them in the cache."""
        measured = {"seconds": round(seconds, 2), "peak_memory_bytes": self._peak_bytes}
        measured["processor_seconds"] = round(self._processor_seconds, 2)
        measured |= conditions.joined(**self._looks, during={"busy_cores": round(self._busy_cores, 2)})
        for name, content in receipts.items():
            if content.get("tier") != "cpu":  # the notebook's own number is the GPU's memory
                content["gpu_peak_memory_bytes"] = content.get("peak_memory_bytes")
            content.update(measured)
            write_json(self.repository.build / "receipts" / name, content)
        names = {f"{self.scratch}/": "_build/", f"{self.repository.root}/": ""}
        notebook = tidy(nbformat.read(self.scratch / "output.ipynb", as_version=4), names)
        nbformat.write(notebook, self.scratch / "page.ipynb")
        write_bytes(self.chapter.executed, (self.scratch / "page.ipynb").read_bytes())
        record(self.chapter, self.made_of, receipts, cached=False)
        cache.store_run(cache.key(self.made_of), self.chapter.executed, receipts)
        remove(self.repository.build / "failed" / f"{self.chapter.document}.ipynb")
        notes += [f"cell {index} wrote to stderr: {line[:160]}" for index, line in stderr_lines(notebook)]
        return Outcome(self.chapter, "fresh", seconds, self._peak_bytes, notes=notes)


def record(chapter: Chapter, made_of: dict[str, str], receipts: dict[str, dict], *, cached: bool) -> None:
    """Note beside the executed copy what it was made of, its receipts, and whether it came from the cache.

    The receipts are kept here too, because a benchmark run by hand may write one of the same name.
    """
    when = datetime.now(UTC).isoformat(timespec="seconds")
    facts = {"made_of": made_of, "receipts": receipts, "cached": cached, "date": when}
    write_json(chapter.run_record, facts)
