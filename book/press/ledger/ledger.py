"""Claims, receipts and verdicts of the whole book, gathered from cards, this machine's runs and the committed ones."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from helpers import receipts

from ..errors import PressError
from ..files import read_json
from ..repository import Chapter, Repository

VERDICTS = (
    receipts.REPRODUCED,
    receipts.PARTLY,
    receipts.NOT_REPRODUCED,
    receipts.NOT_TESTABLE,
    receipts.NOT_MEASURED,
)
TESTED = VERDICTS[:3]


@dataclass(frozen=True)
class Run:
    """One receipt: its content, where it came from, whether the code is another now.

    `origin`: fresh or cached (behind the page), by hand (a benchmark on this machine), or recorded (committed).
    """

    content: dict
    origin: str
    stale: bool

    @property
    def tier(self) -> str:
        """The tier that it ran at."""
        return self.content["tier"]

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


class Ledger:
    """Every run and every finding of a repository; read when first asked for."""

    def __init__(self, repository: Repository):
        self.repository = repository
        self._runs: dict[Chapter, list[Run]] = {}

    def runs(self, chapter: Chapter) -> list[Run]:
        """The chapter's runs, this machine's first, then the committed ones, each the newest first."""
        if chapter not in self._runs:
            now = receipts.code_hash(chapter.notebook)
            record = read_json(chapter.run_record) or {}
            kind = "cached" if record.get("cached") else "fresh"
            found = [(content, kind) for content in record.get("receipts", {}).values()]
            root = self.repository.root
            for path in sorted((root / "_build" / "receipts").glob(f"{chapter.stem}.*.json")):
                found.append((_read(path), "by hand"))
            for path in sorted((root / "data" / "receipts" / chapter.stem).glob("*.json")):
                found.append((_read(path), "recorded"))
            self._runs[chapter] = _distinct([Run(content, origin, content["code"] != now) for content, origin in found])
        return self._runs[chapter]

    @cached_property
    def findings(self) -> list[Finding]:
        """Every claim of every card with its verdict, in the order of the chapters."""
        return [
            self._finding(chapter, claim)
            for chapter in self.repository.chapters
            for claim in chapter.card.get("claims") or []
        ]

    def _finding(self, chapter: Chapter, claim: dict) -> Finding:
        """The verdict comes from the newest run on hardware that can test the claim, of today's code if there is one.

        Which run decides does not depend on how it came out.
        """
        runs = self.runs(chapter)
        measured = [run for run in runs if claim["metric"] in run.content["metrics"]]
        able = [run for run in measured if run.tier in claim["tiers"]]
        ranked = sorted(able or measured, key=lambda run: (run.stale, _back(run.content["date"])))
        if not ranked:
            tested = any(run.tier in claim["tiers"] for run in runs) or not runs
            return Finding(chapter, claim, receipts.NOT_MEASURED if tested else receipts.NOT_TESTABLE, None, [])
        chosen = ranked[0]
        try:
            verdict = receipts.verdict(claim, chosen.content["metrics"][claim["metric"]], chosen.tier)
        except ValueError as error:
            raise PressError(f"{self.repository.relative(chapter.card_path)}: {error}") from None
        return Finding(chapter, claim, verdict, chosen, [run for run in measured if run is not chosen])

    def totals(self, chapter: Chapter | None = None) -> dict[str, int]:
        """How many claims have each verdict, in the book or in one chapter; every verdict is named."""
        chosen = [finding for finding in self.findings if chapter in (None, finding.chapter)]
        return {verdict: sum(finding.verdict == verdict for finding in chosen) for verdict in VERDICTS}


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
