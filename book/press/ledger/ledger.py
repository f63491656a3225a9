"""Claims, receipts and verdicts of the book as plain data: `gather` reads all of it once, pages print what they get."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from helpers import cards, receipts, verdicts

from ..errors import PressError
from ..files import read_json
from ..repository import Chapter, Repository
from ..run.calibration import slowness

VERDICTS = (
    verdicts.REPRODUCED,
    verdicts.PARTLY,
    verdicts.NOT_REPRODUCED,
    verdicts.ANALOGUE,
    verdicts.NOT_TESTABLE,
    verdicts.NOT_MEASURED,
)
TESTED = VERDICTS[:3]
BUSY_CORES = 0.5  # from here on a timing is one of the other work, too
SLOW = 1.4  # times its machine's fastest calibration in the book's receipts: a timing of a slow phase
TIMING = re.compile(r"(ns|µs|ms|s|min|h|×|times as (long|fast))|.*(/s|per second)")  # the units of what time decides


@dataclass(frozen=True)
class Run:
    """One receipt: its content, where it came from, whether the code is another now.

    `origin`: fresh or cached (behind the page), by hand (a benchmark on this machine), or recorded (committed).
    `name`: which of the chapter's races or studies it is, "" for the notebook's own run. `fastest`: the fastest
    calibration of its machine in the book's receipts, in units; 0 where there is none.
    """

    content: dict
    origin: str
    stale: bool
    name: str = ""
    fastest: float = 0.0

    @property
    def tier(self) -> str:
        """The tier that it ran at."""
        return self.content["tier"]

    @property
    def busy_cores(self) -> float:
        """How many cores other work kept busy beside it, at most; 0 where nobody looked."""
        return max(_looks(self.content), default=0.0)

    @property
    def unseen(self) -> list[str]:
        """What nobody knows of the machine beside it: not known is not quiet."""
        return unseen_in(self.content)

    @property
    def uncommitted(self) -> bool:
        """Whether it was recorded of code that no commit is known to hold."""
        return self.origin == "recorded" and self.content.get("dirty") is not False

    @property
    def barred(self) -> bool:
        """Whether it decides nothing: a GPU's run that was sent in, which nobody here can record again."""
        return self.origin == "recorded" and self.tier != "cpu" and (self.stale or self.uncommitted)

    @property
    def phase(self) -> float:
        """How many times as long as at its fastest the machine took for the same work then; 1 where nobody looked."""
        own = slowness(self.content.get("calibration"))
        return own / self.fastest if own and self.fastest else 1.0

    @property
    def disturbed(self) -> bool:
        """Whether its timings may be of more than the code: of other work, or of a slow phase of the machine."""
        return bool(self.unseen) or self.busy_cores >= BUSY_CORES or self.phase >= SLOW

    @property
    def date(self) -> str:
        """The day, as YYYY-MM-DD."""
        return self.content["date"][:10]

    @property
    def machine(self) -> str:
        """The GPU, or the processor where the tier has none."""
        machine = self.content["machine"]
        gpu = machine.get("gpu") if self.tier != "cpu" else None
        return str(gpu or machine.get("cpu") or "unknown")


def unseen_in(content: dict) -> list[str]:
    """What a receipt does not say of the machine beside its run: "no calibration", "no load"."""
    found = {"no calibration": slowness(content.get("calibration")), "no load": _looks(content) or None}
    return [name for name, value in found.items() if value is None]


def _looks(content: dict) -> list[float]:
    """The busy cores that were seen beside a run, each time that somebody looked."""
    return [busy for busy in (content.get("busy_cores") or {}).values() if busy is not None]


@dataclass(frozen=True)
class Finding:
    """A claim with the one run that decides it and the others that measured the same."""

    chapter: Chapter
    claim: dict
    verdict: str
    run: Run | None
    others: list[Run]

    def metric(self, run: Run | None) -> dict | None:
        """What a run measured for this claim."""
        return run.content["metrics"].get(self.claim["metric"]) if run else None


@dataclass(frozen=True)
class Entry:
    """One chapter with all that pages print of it: its runs, those behind the page first, and its claims' findings."""

    chapter: Chapter
    runs: list[Run]
    findings: list[Finding]

    @property
    def behind(self) -> Run | None:
        """The run that the chapter's page shows."""
        return next((run for run in self.runs if run.origin in ("fresh", "cached")), None)

    @property
    def totals(self) -> dict[str, int]:
        """How many of the chapter's claims have each verdict; every verdict is named."""
        return count(self.findings)


@dataclass(frozen=True)
class Ledger:
    """The entries of a book, in its order."""

    entries: list[Entry]

    @cached_property
    def findings(self) -> list[Finding]:
        """Every claim of every card with its verdict."""
        return [finding for entry in self.entries for finding in entry.findings]

    def totals(self) -> dict[str, int]:
        """How many claims have each verdict in the book."""
        return count(self.findings)

    def of(self, chapter: Chapter) -> Entry:
        """The entry of a chapter; KeyError when the book does not hold it."""
        for entry in self.entries:
            if entry.chapter == chapter:
                return entry
        raise KeyError(str(chapter))


def count(findings: Iterable[Finding]) -> dict[str, int]:
    """How many findings have each verdict; every verdict is named."""
    found = [finding.verdict for finding in findings]
    return {verdict: found.count(verdict) for verdict in VERDICTS}


def gather(repository: Repository, chapters: list[Chapter] | None = None) -> Ledger:
    """The ledger of some chapters, or of all; PressError names a broken receipt or a claim that cannot be judged."""
    entries = []
    found = {chapter.name: _runs(chapter) for chapter in repository.chapters}
    fastest = _fastest([run for runs in found.values() for run in runs])
    for chapter in repository.chapters if chapters is None else chapters:
        runs = [replace(run, fastest=fastest.get(_cpu(run), 0.0)) for run in found[chapter.name]]
        claims = chapter.card.get("claims") or []
        entries.append(Entry(chapter, runs, [_finding(chapter, claim, runs) for claim in claims]))
    return Ledger(entries)


def _fastest(runs: list[Run]) -> dict[str, float]:
    """The fastest calibration of each machine, in units: the smaller of those before and after a run."""
    found: dict[str, float] = {}
    for run in runs:
        own = run.content.get("calibration") or {}
        for name in ("before_s", "after_s"):
            if own.get(name) and own.get("unit_s"):
                taken = own[name] / own["unit_s"]
                found[_cpu(run)] = min(taken, found.get(_cpu(run), taken))
    return found


def _cpu(run: Run) -> str:
    """The machine as calibrations tell it apart: processors share a name, so cores, memory and system count too."""
    machine = run.content["machine"]
    return str([machine.get(name) for name in ("cpu", "cores", "memory_bytes", "os")])


def _runs(chapter: Chapter) -> list[Run]:
    """The chapter's runs, this machine's first, then the committed ones, each the newest first."""
    record = read_json(chapter.run_record) or {}
    kind = "cached" if record.get("cached") else "fresh"
    found = [(content, kind, "") for content in record.get("receipts", {}).values()]
    for path in sorted((chapter.root / "_build" / "receipts").glob(f"{chapter.stem}.*.json")):
        found.append((_read(path), "by hand", path.name.split(".")[2] if path.name.count(".") > 2 else ""))
    for path in sorted((chapter.root / "data" / "receipts" / chapter.stem).glob("*.json")):
        content = _read(path)
        name = path.stem.removeprefix(f"{content['tier']}-").removeprefix(str(content["machine"].get("slug")))
        found.append((content, "recorded", name.strip("-")))
    scripts = {content.get("script") for content, *_ in found}  # a race's code is its bench's, not the page's
    now = {script: cards.code_hash(chapter.notebook, script) for script in scripts}
    return _distinct([Run(one, kind, one["code"] != now[one.get("script")], name) for one, kind, name in found])


def _finding(chapter: Chapter, claim: dict, runs: list[Run]) -> Finding:
    """The verdict comes from the newest run on hardware that can test the claim, of today's code if there is one, and
    a timing's from a quiet machine if there is one.

    Which run decides does not depend on how it came out.
    """
    measured = [run for run in runs if claim["metric"] in run.content["metrics"]]
    allowed = [run for run in measured if not run.barred]
    able = [run for run in allowed if run.tier in claim["tiers"]]
    ranked = sorted(able or allowed, key=lambda run: (run.stale, _beside(run, claim), _back(run.content["date"])))
    if not ranked:
        tested = any(run.tier in claim["tiers"] for run in runs) or not runs
        return Finding(chapter, claim, verdicts.NOT_MEASURED if tested else verdicts.NOT_TESTABLE, None, measured)
    chosen = ranked[0]
    try:
        verdict = judged(claim, chosen)
    except ValueError as error:
        raise PressError(f"{chapter.card_path.relative_to(chapter.root)}: {error}") from None
    return Finding(chapter, claim, verdict, chosen, [run for run in measured if run is not chosen])


def _beside(run: Run, claim: dict) -> bool:
    """Whether the run may have measured more than the code: a timing, beside other work, in a slow phase, or unseen."""
    return run.disturbed and bool(TIMING.fullmatch(claim["unit"]))


def judged(claim: dict, run: Run) -> str:
    """The verdict that a run gives on a claim that it measured; none on a timing of a disturbed run, none if barred."""
    verdict = verdicts.verdict(claim, run.content["metrics"][claim["metric"]], run.tier)
    return verdicts.NOT_MEASURED if (run.barred or _beside(run, claim)) and verdict in TESTED else verdict


def _read(path: Path) -> dict:
    try:
        return receipts.read(path)
    except ValueError as error:
        raise PressError(str(error)) from None


def _distinct(runs: list[Run]) -> list[Run]:
    """The runs, each once, those behind the page first, then the newest first."""
    first: dict[tuple, Run] = {}
    for run in runs:
        first.setdefault((run.tier, run.machine, run.content["date"]), run)
    return sorted(first.values(), key=lambda run: (run.origin not in ("fresh", "cached"), _back(run.content["date"])))


def _back(date: str) -> list[int]:
    """A sorting key that puts later dates first."""
    return [-ord(letter) for letter in date]
