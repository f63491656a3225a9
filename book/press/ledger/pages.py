"""The pages of the ledger and of the runs: tables that stand alone, with the facts by which a script filters them.

Each row carries `data-part`, `data-verdict`, `data-hardware`, `data-tier`, `data-date` and `data-code` from its
receipt; `book/_static/filter.js` makes labelled controls of them. Without the script the whole tables stand.
"""

from helpers import receipts
from helpers.show import number

from ..repository import Chapter, Repository
from .ledger import VERDICTS, Finding, Ledger, Run
from .tables import badge, day, link, measured, memory, row, seconds, table, text


def facts(chapter: Chapter, run: Run | None, verdict: str = "") -> str:
    """The attributes of a row: what it is about, from the receipt alone."""
    found = {"part": chapter.part, "verdict": verdict, "hardware": "none"}
    if run:
        found |= {"hardware": run.machine, "tier": run.tier, "date": run.date}
        found["code"] = "changed" if run.stale else "the same"
        found |= {
            "seconds": f"{float(run.content.get('seconds') or 0):.3f}",
            "memory": f"{float(run.content.get('peak_memory_bytes') or 0):.0f}",
        }
    return " ".join(f'data-{name}="{text(value)}"' for name, value in found.items() if value)


def claims(repository: Repository, ledger: Ledger) -> str:
    """The totals by part and verdict, then every claim with its measurements."""
    findings = ledger.findings
    sums = _totals(repository, findings)
    if not findings:
        return sums
    head = ["verdict", "measured", "machine", "when"]
    bodies = [body for chapter in repository.chapters for body in _claims_of(chapter, ledger)]
    whole = table("Every claim, measured", head, bodies, "rebuilt-claims every")
    return (
        f'{sums}\n<div data-rebuilt-filter="part verdict hardware tier since code" data-noun="claim">\n{whole}\n</div>'
    )


def _totals(repository: Repository, findings: list[Finding]) -> str:
    """How many claims have each verdict, in the book and in each part."""
    count = len({finding.chapter for finding in findings})
    parts = list(dict.fromkeys(finding.chapter.part for finding in findings))
    heads = "".join(f'<th scope="col">{badge(verdict)}</th>' for verdict in VERDICTS)
    lines = []
    for part in ["", *parts]:
        own = [finding for finding in findings if part in ("", finding.chapter.part)]
        cells = "".join(
            f'<td data-count="{text(f"{part}|{verdict}")}">{sum(f.verdict == verdict for f in own)}</td>'
            for verdict in VERDICTS
        )
        lines.append(f'<tr><th scope="row">{text(part or "whole book")}</th><td>{len(own)}</td>{cells}</tr>')
    caption = f"{len(findings)} claims in {count} chapter{'s' * (count != 1)}, by part and verdict"
    return "\n".join(
        [
            f'<div class="rebuilt-claims totals" role="region" tabindex="0" aria-label="{caption}">',
            f'<table class="table"><caption>{caption}</caption>',
            f'<thead><tr><th scope="col">part</th><th scope="col">claims</th>{heads}</tr></thead>',
            f"<tbody>{''.join(lines)}</tbody>",
            "</table>",
            "</div>",
        ]
    )


def _claims_of(chapter: Chapter, ledger: Ledger) -> list[str]:
    own = [finding for finding in ledger.findings if finding.chapter == chapter]
    if not own:
        return []
    told = ", ".join(f"{count} {verdict}" for verdict, count in ledger.totals(chapter).items() if count)
    title = f'<tr><th scope="rowgroup" colspan="4">{link(chapter)} <span class="note">{told}</span></th></tr>'
    return [f'<tbody class="chapter">{title}</tbody>', *map(_claim, own)]


def _claim(finding: Finding) -> str:
    """What the article says in one row, then a row for each run that measured it; the first decides."""
    claim = finding.claim
    claimed = number(float(claim["value"]), claim["unit"])
    note = f'<br><span class="note">{text(claim["note"])}</span>' if claim.get("note") else ""
    said = f'<q>{text(claim["quote"])}</q> <span class="claimed">{text(claimed)}</span>'
    said += f'<br><span class="note">its hardware: {text(claim["hardware"])}</span>{note}'
    lines = [f'<tr class="claim"><th scope="rowgroup" colspan="4">{said}</th></tr>']
    for index, run in enumerate([finding.run, *finding.others]):
        verdict = finding.verdict
        if index:
            verdict = receipts.verdict(claim, finding.metric(run), run.tier)
        machine = f"{text(run.machine)}, tier {run.tier}" if run else "no run has measured it"
        cells = (badge(verdict), text(measured(finding.metric(run))), machine, _when(run))
        told = "".join(f"<td>{cell}</td>" for cell in cells)
        lines.append(f"<tr {facts(finding.chapter, run, finding.verdict)}>{told}</tr>")
    return f"<tbody>{''.join(lines)}</tbody>"


def _when(run: Run | None) -> str:
    """The day of a run; whether it was recorded elsewhere; a mark when the code has changed since."""
    if run is None:
        return "–"
    kind = " (recorded)" if run.origin == "recorded" else ""
    mark = ' <span class="rebuilt-stale">stale: the code has changed since</span>' if run.stale else ""
    return f"{day(run)}{kind}{mark}"


def status(repository: Repository, ledger: Ledger) -> str:
    """Every run of every notebook."""
    rows = []
    for chapter in repository.chapters:
        for run in ledger.runs(chapter):
            code = '<span class="rebuilt-stale">changed since</span>' if run.stale else "the same"
            cells = (run.tier, text(run.machine), day(run), seconds(run), memory(run), run.origin, code)
            rows.append(row(link(chapter), *cells).replace("<tr", f"<tr {facts(chapter, run)}", 1))
        if not ledger.runs(chapter):
            empty = row(link(chapter), "–", "–", "not run", "–", "–", "–", "–")
            rows.append(empty.replace("<tr", f"<tr {facts(chapter, None)}", 1))
    head = ["notebook", "tier", "machine", "date", "time", "peak memory", "run", "code"]
    whole = table("Runs of the notebooks", head, [f"<tbody>{''.join(rows)}</tbody>"], "rebuilt-table rebuilt-runs")
    return f'<div data-rebuilt-filter="part hardware tier since code sort" data-noun="run">\n{whole}\n</div>'
