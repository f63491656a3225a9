"""`press run`: every notebook through papermill, as many at once as cores and memory allow."""

import contextlib
import os
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

from helpers.device import cores

from ..errors import PressError
from ..files import lock, read_json, remove, write_json, write_text
from ..repository import Chapter, Repository
from ..reuse import cache, store
from . import processes
from .job import Outcome, execute, record, say

UNKNOWN_SECONDS = 90.0  # what a notebook may take on two cores; assumed where no receipt says better
TIMEOUT_SECONDS = 1200.0
CORES_EACH = 2  # what tier `cpu` promises a notebook; with less, its timings are those of a busy machine


class Options(NamedTuple):
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
        found = {one: None if options.force else reuse(repository, one, options) for one in chapters}
        pending = sorted((one for one in chapters if not found[one]), key=expected_seconds, reverse=True)
        try:
            found |= _executed(repository, pending, options)
        finally:
            remove(repository.build / "running")
    return [found[chapter] for chapter in chapters]


def reuse(repository: Repository, chapter: Chapter, options: Options) -> Outcome | None:
    """The outcome of taking the chapter from the cache; None when it has to run, and then it says why."""
    made_of = cache.parts(repository, chapter, options.tier, threads_each(options))
    if kept := store.get("notebooks", cache.key(made_of)):
        for file, content in kept["receipts"].items():
            write_json(repository.build / "receipts" / file, content)
        write_text(chapter.executed, kept["notebook"])
        record(chapter, made_of, kept["receipts"], cached=True)
        ran = max(str(content.get("date", "")) for content in kept["receipts"].values())[:10]
        say(f"{chapter}: unchanged since {ran or 'its run'}, taken from the cache")
        return Outcome(chapter, "cached")
    say(f"{chapter}: to run ({cache.why(made_of, read_json(chapter.run_record))})")
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


def _executed(repository: Repository, pending: list[Chapter], options: Options) -> dict[Chapter, Outcome]:
    """The outcome of each notebook, when all are through; no child survives it."""
    jobs, outcomes = fitting(pending, at_once(options), processes.available_bytes()), {}
    left = {chapter: expected_seconds(chapter) for chapter in pending}
    with ThreadPoolExecutor(jobs) as pool:
        how = options.tier, options.timeout, threads_each(options)
        found = {pool.submit(execute, repository, chapter, *how): chapter for chapter in pending}
        try:
            for future in as_completed(found):
                outcomes[found[future]] = one = future.result()
                del left[found[future]]
                told = f"{'FAILED' if one.state == 'failed' else 'done'} in {one.seconds:.0f} s"
                told += f", peak {one.peak_bytes / 1e6:,.0f} MB; {len(left)} left"
                say(f"{one.chapter}: {told}, about {sum(left.values()) / jobs / 60:.1f} min")
                for note in one.notes:
                    say(f"{one.chapter}: note: {note}")
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            while not all(future.done() for future in found):  # interrupted, or one went wrong
                for process in processes.descendants(os.getpid()):
                    with contextlib.suppress(*processes.GONE):
                        process.kill()
                time.sleep(0.1)
    return outcomes


def fitting(pending: list[Chapter], jobs: int, memory_bytes: float) -> int:
    """How many of these may run at once, of so many, whichever of them come together; one always may."""
    asked = ((chapter.card.get("needs") or {}).get("memory_gb", 1) for chapter in pending)
    most = max((gb for gb in asked if isinstance(gb, int | float)), default=1) or 1
    return max(1, min(jobs, len(pending), int(memory_bytes / 1e9 / most)))


def report(outcomes: list[Outcome]) -> int:
    """Print the failures in full and one line in sum; the exit status."""
    count = Counter(outcome.state for outcome in outcomes)
    for outcome in outcomes:
        if outcome.state == "failed":
            print(f"\n{'=' * 100}\n{outcome.message}", file=sys.stderr)
    print(f"\n{count['fresh']} run, {count['cached']} from the cache, {count['failed']} failed", flush=True)
    return int(count["failed"] > 0)
