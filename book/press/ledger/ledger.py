"""Claims, receipts and findings of the book as plain data: `gather` reads all of it once, pages print what they get."""

from collections import namedtuple
from functools import cached_property
from pathlib import Path

from helpers import _records, receipts, verdicts

from ..errors import PressError
from ..files import read_json
from ..repository import Chapter, Repository

FINDINGS = (*verdicts.FINDINGS[:3], verdicts.MET, verdicts.MISSED, *verdicts.FINDINGS[3:])  # figures have none
DECIDED = (verdicts.HOLDS, verdicts.FAILS)
BEHIND = ("fresh", "cached")  # the origins of the runs that chapters' pages show


class Run:
    """One receipt with what follows from it, and whether the code is another now (`stale`). `origin`: fresh or cached
    (behind the page), by hand (a benchmark on this machine), or recorded (committed). `name`: of a race or study, ""
    for the notebook's own run. `disturbed`: why its timings decide nothing, beside what is `usual`."""

    def __init__(self, content: dict, origin: str, stale: bool, usual: dict):
        self.content, self.origin, self.name, self.stale = content, origin, content.get("name", ""), stale
        self.tier, self.machine, self.date = content["tier"], _hardware(content), content["date"][:10]
        recorded = origin == "recorded"
        self.uncommitted = recorded and content.get("dirty") is not False  # no commit is known to hold its code
        self.disturbed = verdicts.disturbed(content, usual)


def _hardware(content: dict) -> str:
    return str((content["tier"] != "cpu" and content["machine"].get("gpu")) or content["machine"].get("cpu"))


class Finding(namedtuple("Finding", "chapter claim found like says run barred others")):
    """What was found of a claim: one of FINDINGS, None for a figure that only stands beside. `run`: whose number stands
    first; `barred`: why it may not decide, or ""; `others` measured the same. `like`: how like the article's case it
    is; `says`: (supports, contradicts or silent, because)."""

    @property
    def word(self) -> str:
        """What was found in words, of a figure too."""
        return self.found or verdicts.FIGURE

    @property
    def undecided(self) -> str:
        """Why a deciding run decides nothing, such as "one run"; else ""."""
        return verdicts.undecided(self.metric(self.run)) if self.found == verdicts.UNDECIDED else ""

    def metric(self, run: Run | None) -> dict | None:
        """What a run measured for this claim."""
        return run.content["metrics"].get(self.claim["metric"]) if run else None


class Entry(namedtuple("Entry", "chapter runs findings")):
    """One chapter with all that pages print of it: its runs, those behind the page first, and its claims' findings."""

    @property
    def behind(self) -> Run | None:
        """The run that the chapter's page shows."""
        return next((run for run in self.runs if run.origin in BEHIND), None)

    def metric(self, name: str) -> dict:
        """A metric of the page's run, or else of the newest that has it; PressError where none has."""
        for run in self.runs:
            if found := run.content["metrics"].get(name):
                return found
        raise PressError(f"{self.chapter}: no run has recorded {name!r}, which an act asks to predict")

    @property
    def totals(self) -> dict[str, int]:
        """How many of the chapter's claims came out in each way; every finding is named."""
        return count(self.findings)


class Ledger(namedtuple("Ledger", "entries")):
    """The entries of a book, in its order."""

    @cached_property
    def findings(self) -> list[Finding]:
        """Every claim of every card with what was found."""
        return [finding for entry in self.entries for finding in entry.findings]


def count(findings: list[Finding]) -> dict[str, int]:
    """How many claims came out in each way; every finding is named, figures are not counted."""
    return {word: sum(finding.found == word for finding in findings) for word in FINDINGS}


def gather(repository: Repository, chapters: list[Chapter] | None = None) -> Ledger:
    """The ledger of some chapters, or of all; PressError names a broken receipt or a claim that cannot be judged."""
    found = {chapter.name: _receipts(chapter) for chapter in repository.chapters}
    usual, entries = verdicts.usual(content for pairs in found.values() for content, _ in pairs), []
    for chapter in repository.chapters if chapters is None else chapters:
        runs = [Run(one, origin, receipts.stale(one, chapter.notebook), usual) for one, origin in found[chapter.name]]
        runs = sorted(_newest_first(runs), key=lambda run: run.origin not in BEHIND)
        claims = chapter.card.get("claims") or []
        entries.append(Entry(chapter, runs, [judged(chapter, claim, runs) for claim in claims]))
    return Ledger(entries)


def _receipts(chapter: Chapter) -> list[tuple[dict, str]]:
    """(content, origin) of the chapter's receipts, each once, races and studies with a name: that of the page first."""
    record = read_json(chapter.run_record) or {}
    origin = "cached" if record.get("cached") else "fresh"
    found = [(content, origin) for content in record.get("receipts", {}).values()]
    for path in sorted((chapter.root / "_build" / "receipts").glob(f"{chapter.stem}.*.json")):
        name = ".".join(path.name.split(".")[2:-1])
        found.append((_read(path) | ({"name": name} if name else {}), "by hand"))
    for path in sorted((chapter.root / "data" / "receipts" / chapter.stem).glob("*.json")):
        content = _read(path)
        found.append((content | {"name": _records.run_name(path, content)}, "recorded"))
    once = {}
    for one in found:
        once.setdefault((one[0]["tier"], _hardware(one[0]), one[0]["date"]), one)
    return [*once.values()]


def _newest_first(runs: list[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: run.content["date"], reverse=True)


def _read(path: Path) -> dict:
    try:
        return receipts.read(path)
    except ValueError as error:
        raise PressError(str(error)) from None


def judged(chapter: Chapter, claim: dict, runs: list[Run]) -> Finding:
    """The newest run that may decide does (see `verdicts.barred`); how it came out is not looked at."""
    measured = _newest_first(run for run in runs if claim["metric"] in run.content["metrics"])
    barred = {run: verdicts.barred(claim, run.content, run.stale, run.disturbed) for run in measured}
    chosen = next((run for run in measured if not barred[run]), next(iter(measured), None))
    why = barred.get(chosen, "")
    try:
        found = verdicts.finding(claim, chosen.content["metrics"][claim["metric"]] if chosen and not why else None)
    except ValueError as error:
        raise PressError(f"{chapter.card_path.relative_to(chapter.root)}: {error}") from None
    others = [run for run in measured if run is not chosen]
    return Finding(chapter, claim, found, verdicts.likeness(claim), verdicts.says(claim, found), chosen, why, others)
