"""`press run`: every notebook through papermill, as many at once as cores and memory allow."""

import signal
import sys
import time
from dataclasses import dataclass

from helpers.device import cores

from ..errors import PressError
from ..files import lock, read_json, remove
from ..repository import Chapter, Repository
from ..reuse import cache
from . import processes
from .job import Job, Outcome, record

UNKNOWN_SECONDS = 90.0  # what a notebook may take on two cores; assumed where no receipt says better
TIMEOUT_SECONDS = 1200.0
CORES_EACH = 2  # what tier `cpu` promises a notebook; with less, its timings are those of a busy machine


@dataclass(frozen=True)
class Options:
    """What the command line says: `jobs` 0 means as many as have `CORES_EACH` cores to themselves."""

    tier: str = "auto"
    jobs: int = 0
    timeout: float = TIMEOUT_SECONDS
    force: bool = False


def run(repository: Repository, names: list[str] | None = None, options: Options = Options()) -> list[Outcome]:  # noqa: B008
    """How each chosen notebook came out. KeyboardInterrupt ends every child and leaves whole files only."""
    chapters = repository.select(names)
    if not chapters:
        raise PressError("there is no notebook under notebooks/; `new chapter PART/NAME` makes one")
    with lock(repository.build / ".press.lock", "press run"):
        remove(repository.build / "running")
        outcomes, pending = [], []
        for chapter in chapters:
            hit = None if options.force else reuse(repository, chapter, options.tier, threads_each(options))
            outcomes.append(hit) if hit else pending.append(chapter)
        pending.sort(key=lambda chapter: -expected_seconds(chapter))
        try:
            outcomes += Schedule(repository, pending, options).work()
        finally:
            remove(repository.build / "running")
    return sorted(outcomes, key=lambda outcome: chapters.index(outcome.chapter))


def reuse(repository: Repository, chapter: Chapter, tier: str, threads: int) -> Outcome | None:
    """The outcome of taking the chapter from the cache; None when it has to run, and then it says why."""
    made_of = cache.parts(repository, chapter, tier, threads)
    receipts = cache.restore(repository, cache.key(made_of), chapter)
    if receipts:
        record(chapter, made_of, receipts, cached=True)
        ran = max(str(content.get("date", "")) for content in receipts.values())[:10]
        _say(f"{chapter}: unchanged since {ran or 'its run'}, taken from the cache")
        return Outcome(chapter, "cached")
    _say(f"{chapter}: to run ({cache.why(made_of, read_json(chapter.run_record))})")
    return None


def expected_seconds(chapter: Chapter) -> float:
    """What the chapter took when it last ran here, else what it may take."""
    record = read_json(chapter.run_record)
    found = record.get("receipts", {}).values() if isinstance(record, dict) else []
    return max((content["seconds"] for content in found if content.get("seconds")), default=UNKNOWN_SECONDS)


def at_once(options: Options) -> int:
    """How many notebooks may run at once: as many as were asked for, else as have `CORES_EACH` cores."""
    return max(1, min(options.jobs or cores() // CORES_EACH, cores()))


def threads_each(options: Options) -> int:
    """The threads of each notebook's libraries, for its key: the same whether one is left to run or many."""
    return max(1, cores() // at_once(options))


class Schedule:
    """Starts notebooks as they fit, the longest first, and tells how far they are."""

    def __init__(self, repository: Repository, pending: list[Chapter], options: Options):
        self.repository, self.options = repository, options
        self.pending = list(pending)
        self.running: list[Job] = []
        self.outcomes: list[Outcome] = []
        self.jobs = min(at_once(options), max(1, len(pending)))
        self.threads = threads_each(options)
        self.memory_bytes = processes.available_bytes()
        self.expected = {chapter: expected_seconds(chapter) for chapter in pending}
        self._told: dict[Chapter, tuple[int, float]] = {}

    def work(self) -> list[Outcome]:
        """The outcome of each notebook, when all are through; no child survives it."""
        before = signal.signal(signal.SIGTERM, _interrupt) if _in_main_thread() else None
        try:
            while self.pending or self.running:
                self._start_what_fits()
                time.sleep(0.1)
                for job in list(self.running):
                    self._look_at(job)
        finally:
            for job in self.running:
                job.stop()
            if before is not None:
                signal.signal(signal.SIGTERM, before)
        return self.outcomes

    def _start_what_fits(self) -> None:
        for chapter in list(self.pending):
            if len(self.running) >= self.jobs:
                return
            taken = sum(map(needed_bytes, (job.chapter for job in self.running)))
            if self.running and taken + needed_bytes(chapter) > self.memory_bytes:
                continue  # a smaller one may fit; alone, each gets its try
            self.pending.remove(chapter)
            options = self.options
            job = Job(self.repository, chapter, tier=options.tier, timeout=options.timeout, threads=self.threads)
            self.running.append(job.start())
            _say(f"{chapter}: started, {self._left()}")

    def _look_at(self, job: Job) -> None:
        outcome = job.poll()
        if outcome is None:
            self._tell(job)
            return
        self.running.remove(job)
        self.outcomes.append(outcome)
        verb = "FAILED" if outcome.state == "failed" else "done"
        size = f"peak {outcome.peak_bytes / 1e6:,.0f} MB"
        _say(f"{job.chapter}: {verb} in {outcome.seconds:.0f} s, {size}, {self._left()}")
        for note in outcome.notes:
            _say(f"{job.chapter}: note: {note}")

    def _tell(self, job: Job) -> None:
        """One line when a notebook reached another cell, at most every two seconds, at least every fifteen."""
        cell, when = self._told.get(job.chapter, (-1, job.began))
        now = time.monotonic()
        if (job.cell != cell and now - when >= 2) or now - when >= 15:
            self._told[job.chapter] = (job.cell, now)
            place = f"cell {job.cell + 1}/{job.count}"
            _say(f"{job.chapter}: {place}, {job.elapsed:.0f} s so far, {self._left()}")

    def _left(self) -> str:
        going = [max(self.expected[job.chapter] - job.elapsed, 0) for job in self.running]
        seconds = (sum(going) + sum(self.expected[chapter] for chapter in self.pending)) / self.jobs
        seconds = max([seconds, *going])
        count = len(self.running) + len(self.pending)
        if not count:
            return "none left"
        return f"about {seconds / 60:.1f} min left for {count}" if seconds >= 3 else "longer than expected by now"


def needed_bytes(chapter: Chapter) -> float:
    """The memory that the card asks for; 1 GB where it says nothing usable."""
    asked = (chapter.card.get("needs") or {}).get("memory_gb", 1)
    return float(asked if isinstance(asked, int | float) else 1) * 1e9


def report(outcomes: list[Outcome]) -> int:
    """Print the failures in full and one line in sum; the exit status."""
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    for outcome in failed:
        print(f"\n{'=' * 100}\n{outcome.message}", file=sys.stderr)
    count = {state: sum(o.state == state for o in outcomes) for state in ("fresh", "cached", "failed")}
    print(f"\n{count['fresh']} run, {count['cached']} from the cache, {count['failed']} failed", flush=True)
    return 1 if failed else 0


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _in_main_thread() -> bool:
    import threading

    return threading.current_thread() is threading.main_thread()
