"""The pages of the ledger and of the runs: tables that stand alone, with the facts by which a script filters them.

Each row carries `data-part`, `data-verdict`, `data-hardware`, `data-tier`, `data-date` and `data-code` from its
receipt; `book/_static/filter.js` makes labelled controls of them. Without the script the whole tables stand.
"""

from helpers import receipts
from helpers.show import number

from ..repository import Chapter
from .ledger import VERDICTS, Entry, Finding, Run, count
from .tables import Markup, badge, day, html_table, joined, link, measured, memory, note, row, seconds, stale, tag

DETAILS = ("sizes", "command", "peers", "threads", "load")  # of how a race or a study was run


def facts(chapter: Chapter, run: Run | None, verdict: str | None = None) -> dict[str, str | None]:
    """The attributes of a row: what it is about, from the receipt alone."""
    found = {"part": chapter.part, "verdict": verdict, "hardware": "none"}
    if run:
        found |= {"hardware": run.machine, "tier": run.tier, "date": run.date}
        found["code"] = "changed" if run.stale else "the same"
        found |= {
            "seconds": f"{float(run.content.get('seconds') or 0):.3f}",
            "memory": f"{float(run.content.get('peak_memory_bytes') or 0):.0f}",
        }
    return {f"data_{name}": value for name, value in found.items()}


def claims(entries: list[Entry]) -> str:
    """The totals by part and verdict, then every claim with its measurements."""
    claimed = [entry for entry in entries if entry.findings]
    sums = _totals(claimed)
    if not claimed:
        return sums
    head = ["verdict", "measured", "machine", "when"]
    bodies = [part for entry in claimed for part in _claims_of(entry)]
    whole = html_table("Every claim, measured", head, bodies, "rebuilt-claims every")
    kept = tag("div", whole, data_rebuilt_filter="part verdict hardware tier since code", data_noun="claim")
    return f"{sums}\n{kept}"


def _totals(entries: list[Entry]) -> Markup:
    """How many claims have each verdict, in the book and in each part."""
    rows = []
    for part in ["", *dict.fromkeys(entry.chapter.part for entry in entries)]:
        own = [finding for entry in entries if part in ("", entry.chapter.part) for finding in entry.findings]
        sums = [tag("td", many, data_count=f"{part}|{verdict}") for verdict, many in count(own).items()]
        rows.append(row(part or "whole book", len(own), *sums))
    many = sum(len(entry.findings) for entry in entries)
    caption = f"{many} claims in {len(entries)} chapter{'s' * (len(entries) != 1)}, by part and verdict"
    return html_table(caption, ["part", "claims", *map(badge, VERDICTS)], [rows], "rebuilt-claims totals")


def _heading(words: Markup, css: str | None = None) -> Markup:
    """A row that heads those below it."""
    return tag("tr", tag("th", words, scope="rowgroup", colspan=4), class_=css)


def _claims_of(entry: Entry) -> list[Markup]:
    told = ", ".join(f"{many} {verdict}" for verdict, many in entry.totals.items() if many)
    title = _heading(joined(link(entry.chapter), note(told), between=" "))
    return [tag("tbody", title, class_="chapter"), *map(_claim, entry.findings)]


def _claim(finding: Finding) -> Markup:
    """What the article says in one row, then a row for each run that measured it; the first decides."""
    claim = finding.claim
    said = [tag("q", claim["quote"]), " ", tag("span", number(float(claim["value"]), claim["unit"]), class_="claimed")]
    said += [Markup("<br>"), note(f"its hardware: {claim['hardware']}")]
    said += [Markup("<br>"), note(claim["note"])] if claim.get("note") else []
    lines = [_heading(joined(*said), "claim")]
    for index, run in enumerate([finding.run, *finding.others]):
        verdict = finding.verdict
        if index:
            verdict = receipts.verdict(claim, finding.metric(run), run.tier)
        machine = f"{run.machine}, tier {run.tier}" if run else "no run has measured it"
        cells = (tag("td", badge(verdict)), measured(finding.metric(run)), machine, _when(run))
        lines.append(row(*cells, **facts(finding.chapter, run, finding.verdict)))
    return tag("tbody", joined(*lines))


def _when(run: Run | None) -> Markup | str:
    """The day of a run; which recorded one it is; a mark when the code has changed since."""
    if run is None:
        return "–"
    kind = f" ({_origin(run)})" if run.origin == "recorded" else ""
    return joined(day(run), kind, stale(run, "stale: the code has changed since"))


def _origin(run: Run) -> str:
    """Where a run came from, in words; a race or a study by its name."""
    words = {"fresh": "behind the page", "cached": "behind the page, kept from that day"}
    return words.get(run.origin, run.origin) + (f": {run.name}" if run.name else "")


def status(entries: list[Entry]) -> str:
    """Every run of every notebook, each with its machine and date; how a recorded one was made, folded."""
    rows = []
    for entry in entries:
        chapter = entry.chapter
        for run in entry.runs:
            code = stale(run, "changed since") or "the same"
            cells = (run.tier, run.machine, day(run), seconds(run), memory(run), joined(_origin(run), _how(run)), code)
            rows.append(row(link(chapter), *cells, **facts(chapter, run)))
        if not entry.runs:
            rows.append(row(link(chapter), "–", "–", "not run", "–", "–", "–", "–", **facts(chapter, None)))
    head = ["notebook", "tier", "machine", "date", "time", "peak memory", "run", "code"]
    whole = html_table("Runs of the notebooks", head, [rows], "rebuilt-table rebuilt-runs")
    return tag("div", whole, data_rebuilt_filter="part hardware tier since code sort", data_noun="run")


def _how(run: Run) -> Markup:
    """The sizes, command, peers, threads and load of a race or a study, folded; nothing where a receipt has none."""
    if run.origin in ("fresh", "cached"):
        return Markup()
    found = {name: run.content.get(name) for name in DETAILS}
    told = [joined(tag("dt", name), tag("dd", _plain(value))) for name, value in found.items() if value]
    folded = joined(tag("summary", "how"), tag("dl", joined(*told)))
    return tag("details", folded) if told else Markup()


def _plain(value: object) -> str:
    """A value of a receipt in words: names with their values, lists with commas, numbers with separators."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)
