"""The pages of the ledger and of the runs: cards and a table that stand alone, with the facts a script filters by.

A run's line carries `data-part`, `data-verdict`, `data-hardware`, `data-tier`, `data-date` and `data-code` from its
receipt; `book/_static/filter.js` makes labelled controls of them. Without the script everything stands.
"""

from helpers import verdicts
from helpers.show import number

from ..predict.pages import ledger_lines
from ..repository import Chapter
from . import tables
from .ledger import BEHIND, VERDICTS, Entry, Finding, Run, count, judged
from .tables import Markup, badge, beside, day, defined, joined, link, row, tag

LOOKED = ("load", "busy_cores", "steal", "calibration")  # what the machine was like; told also where nobody looked
DETAILS = ("sizes", "command", "peers", "threads", *LOOKED)  # of how a race or a study was run
ORIGINS = {"fresh": "behind the page", "cached": "behind the page, kept from that day"}  # others are their own words


def facts(chapter: Chapter, run: Run | None, verdict: str | None = None) -> dict[str, str | None]:
    """The attributes of a row: what it is about, from the receipt alone."""
    found = {"part": chapter.part, "verdict": verdict, "hardware": "none"}
    if run:
        took, peak = (float(run.content.get(name) or 0) for name in ("seconds", "peak_memory_bytes"))
        found |= {"hardware": run.machine, "tier": run.tier, "date": run.date}
        found |= {"code": "changed" if run.stale else "the same", "seconds": f"{took:.3f}", "memory": f"{peak:.0f}"}
    return {f"data_{name}": value for name, value in found.items()}


def claims(entries: list[Entry]) -> str:
    """The totals by part and verdict, then every claim with its measurements."""
    claimed = [entry for entry in entries if entry.findings]
    sums = _totals(claimed)
    if not claimed:
        return sums
    cards = joined(*map(_claims_of, claimed), between="\n")
    asked = {"data_rebuilt_filter": "part verdict hardware tier since code", "data_noun": "claim"}
    return f"{sums}\n{tag('div', cards, class_='rebuilt-ledger', **asked)}"


def _totals(entries: list[Entry]) -> Markup:
    rows = []
    for part in ["", *dict.fromkeys(entry.chapter.part for entry in entries)]:
        own = [finding for entry in entries if part in ("", entry.chapter.part) for finding in entry.findings]
        sums = [tag("td", many, data_count=f"{part}|{name}", data_label=name) for name, many in count(own).items()]
        rows.append(row(part or "whole book", tag("td", len(own), data_label="claims"), *sums))
    many = sum(len(entry.findings) for entry in entries)
    caption = f"{many} claims in {len(entries)} chapter{'s' * (len(entries) != 1)}, by part and verdict"
    return tables.html_table(caption, ["part", "claims", *map(badge, VERDICTS)], [rows], "rebuilt-claims totals")


def _claims_of(entry: Entry) -> Markup:
    told = ", ".join(f"{many} {verdict}" for verdict, many in entry.totals.items() if many)
    title = tag("p", joined(link(entry.chapter), tag("span", told, class_="note"), between=" "), class_="chapter")
    return tag("div", joined(title, *map(_claim, entry.findings)), class_="rebuilt-chapter")


def _claim(finding: Finding) -> Markup:
    """One claim: its verdict first, what the article says, then a line for each run that measured it."""
    claim, metric = finding.claim, finding.metric(finding.run)
    other = ", ".join(verdicts.differences(claim, metric, finding.run.tier)) if metric else ""
    value = number(float(claim["value"]), claim["unit"])
    value = f"our goal: {value}" if claim.get("goal") else f"claimed: {value}"
    told = {"its hardware": claim["hardware"], "note": claim.get("note")}
    runs = [run for run in (finding.run, *finding.others) if run] or [None]
    parts = [
        tag("p", joined(badge(finding.verdict), f" other {other}" if other else ""), class_="judged"),
        tag("p", joined(tag("q", claim["quote"]), " ", tag("span", value, class_="claimed"))),
        tag("ul", joined(*(_run_of(finding, run) for run in runs), *ledger_lines(finding))),
        defined({name: words for name, words in told.items() if words}),
    ]
    about = {"class_": "rebuilt-claim", "role": "group", "aria_label": f"{claim['id']}, {finding.verdict}"}
    return tag("div", joined(*parts), **about)


def _run_of(finding: Finding, run: Run | None) -> Markup:
    """What one run measured, where and when; its own verdict where another run decides."""
    about = facts(finding.chapter, run, finding.verdict)
    if run is None:
        return tag("li", "no run has measured it", **about)
    own = finding.verdict if run is finding.run else judged(finding.claim, run)
    kind = f" ({_origin(run)})" if run.origin == "recorded" else ""
    told = [tag("strong", tables.measured(finding.metric(run))), f" {run.machine}, tier {run.tier}, ", day(run), kind]
    told += [beside(run), tables.stale(run, "stale: the code has changed since")]
    return tag("li", joined("measured: ", *told, f": {own}" if own != finding.verdict else ""), **about)


def _origin(run: Run) -> str:
    return ORIGINS.get(run.origin, run.origin) + (f": {run.name}" if run.name else "")


def status(entries: list[Entry]) -> str:
    """Every run of every notebook, each with its machine and date; how a recorded one was made, folded."""
    rows = []
    for entry in entries:
        chapter = entry.chapter
        for run in entry.runs:
            took = tables.seconds(run), tables.memory(run), joined(_origin(run), beside(run), _how(run))
            code = tables.stale(run, "changed since") or "the same"
            cells = (run.tier, run.machine, day(run), *took, code)
            rows.append(row(link(chapter), *cells, **facts(chapter, run)))
        if not entry.runs:
            rows.append(row(link(chapter), "–", "–", "not run", *["–"] * 4, **facts(chapter, None)))
    head = ["notebook", "tier", "machine", "date", "time", "peak memory", "run", "code"]
    whole = tables.html_table("Runs of the notebooks", head, [rows], "rebuilt-table rebuilt-runs")
    return tag("div", whole, data_rebuilt_filter="part hardware tier since code sort", data_noun="run")


def _how(run: Run) -> Markup:
    """How a race or a study was run and what the machine was like, folded; nothing where a receipt says nothing."""
    found = {name: run.content.get(name) for name in DETAILS}
    found["seeds added after a look"] = (run.content.get("study") or {}).get("added")
    if run.origin in BEHIND or not any(found.values()):
        return Markup()
    known = {name.replace("_", " "): tables.plain(one or None) for name, one in found.items() if one or name in LOOKED}
    return tag("details", joined(tag("summary", "how"), defined(known)))
