"""The pages of the ledger and of the runs: cards and a table that stand alone, with `data-` attributes of each run's
receipt, of which `book/_static/filter.js` makes labelled controls."""

from helpers import verdicts

from ..predict.pages import ledger_lines
from ..repository import Chapter
from .ledger import BEHIND, FINDINGS, Entry, Finding, Run, count
from .tables import block, plain

LOOKED = ("load", "busy_cores", "steal", "calibration")  # what the machine was like; told also where nobody looked
DETAILS = ("sizes", "command", "peers", "threads", *LOOKED)  # of how a race or a study was run


def claims(entries: list[Entry]) -> str:
    """The totals by part and finding, then every claim with its measurements."""
    claimed = [entry for entry in entries if entry.findings]
    parts: dict[str, list[Finding]] = {"": []}
    for entry in claimed:
        for part in ("", entry.chapter.caption):
            parts.setdefault(part, []).extend(finding for finding in entry.findings if finding.found)
    return written("claims", claimed, parts)


def written(name: str, *values: object) -> str:
    """What a macro of `pages.html` makes: `cards` of a chapter's claims, the `status` of all runs."""
    own = {one.__name__: one for one in (facts, how, count, ledger_lines, verdicts.timing)}
    return block("ledger/pages.html", name, *values, FINDINGS=FINDINGS, OPEN=verdicts.FINDINGS[2:], **own)


def facts(chapter: Chapter, run: Run | None, finding: str | None = None) -> dict[str, str | None]:
    """The attributes of a row: what it is about, from the receipt alone."""
    found = {"part": chapter.caption, "finding": finding, "hardware": "none"}
    if run:
        took, peak = (float(run.content.get(name) or 0) for name in ("seconds", "peak_memory_bytes"))
        found |= {"hardware": run.machine, "tier": run.tier, "date": run.date}
        found |= {"code": "changed" if run.stale else "the same", "seconds": f"{took:.3f}", "memory": f"{peak:.0f}"}
    return {f"data-{name}": value for name, value in found.items()}


def how(run: Run) -> dict[str, str]:
    """How a race or a study was run and what the machine was like; empty where a receipt says nothing."""
    found = {name: run.content.get(name) for name in DETAILS}
    found["seeds added after a look"] = (run.content.get("study") or {}).get("added")
    if run.origin in BEHIND or not any(found.values()):
        return {}
    return {name.replace("_", " "): plain(one or None) for name, one in found.items() if one or name in LOOKED}
