"""What the machine writes into pages: the ledger, the status, where to start, the data sets, 'verified' lines.

Every function gives HTML without empty lines, so that it is one block of Markdown; each number in it comes
from a card, a receipt or the registry.
"""

import html
from collections.abc import Callable, Iterable

from helpers import receipts
from helpers.show import number

from .errors import PressError
from .ledger import TESTED, VERDICTS, Finding, Ledger, Run
from .model import Chapter, Repository

UP = "../"  # the pages with markers lie in book/


def text(value: object) -> str:
    """The value, safe inside HTML; a line break would end the block."""
    return html.escape(" ".join(str(value).split()))


def table(caption: str, head: list[str], bodies: list[str], css: str = "rebuilt-table") -> str:
    """A table that scrolls inside itself, with a caption and column headers; `bodies` are its `<tbody>`s."""
    columns = "".join(f'<th scope="col">{text(name)}</th>' for name in head)
    return "\n".join(
        [
            f'<div class="{css}" role="region" tabindex="0" aria-label="{text(caption)}">',
            f'<table class="table"><caption>{text(caption)}</caption>',
            f"<thead><tr>{columns}</tr></thead>",
            *bodies,
            "</table>",
            "</div>",
        ]
    )


def row(first: str, *cells: str) -> str:
    """A table row of ready HTML; the first cell is its header."""
    rest = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr><th scope="row">{first}</th>{rest}</tr>'


def link(chapter: Chapter) -> str:
    """A link from a page in `book/` to the chapter."""
    return f'<a href="{UP}{chapter.document}.html">{text(chapter.card.get("title", chapter))}</a>'


def badge(verdict: str) -> str:
    """A verdict as a word with a colour of its own."""
    return f'<span class="verdict {verdict.replace(" ", "-")}">{verdict}</span>'


def measured(metric: dict | None) -> str:
    """A metric with its unit, and its spread where it has one."""
    if not metric:
        return "–"
    value, unit = metric["value"], metric["unit"]
    spread = [number(float(metric[key]), unit) for key in ("low", "high") if key in metric]
    told = f" ({spread[0].removesuffix(f' {unit}')} to {spread[-1]})" if spread else ""
    return number(float(value), unit) + told


def seconds(run: Run) -> str:
    """The wall time of a run."""
    return number(float(run.content["seconds"]), "s").replace(" ", "&nbsp;") if run.content.get("seconds") else "–"


def day(run: Run) -> str:
    """The day of a run, in one piece."""
    return f'<time datetime="{run.date}" style="white-space:nowrap">{run.date}</time>'


def memory(run: Run) -> str:
    """The peak memory of a run, the GPU's beside it where there is one."""
    peak, gpu = run.content.get("peak_memory_bytes"), run.content.get("gpu_peak_memory_bytes")
    told = number(float(peak), "B") if peak else "–"
    return f"{told}, GPU {number(float(gpu), 'B')}" if gpu else told


def where(run: Run) -> str:
    """Machine, tier and day of a run, with a mark when the code has changed since."""
    mark = ' <span class="rebuilt-stale">stale: the code has changed since</span>' if run.stale else ""
    kind = " (recorded)" if run.origin == "recorded" else ""
    return f"{text(run.machine)}, tier {run.tier}, {day(run)}{kind}{mark}"


def claims(repository: Repository, ledger: Ledger) -> str:
    """The totals by verdict, then every claim with its measurements."""
    totals, findings = ledger.totals(), ledger.findings
    count = len({finding.chapter for finding in findings})
    rows = [row(badge(verdict), str(totals[verdict])) for verdict in VERDICTS]
    caption = f"{len(findings)} claims in {count} chapter{'s' * (count != 1)}, by verdict"
    sums = table(caption, ["verdict", "claims"], [f"<tbody>{''.join(rows)}</tbody>"], "rebuilt-claims totals")
    if not findings:
        return sums
    head = ["the article says", "verdict", "measured", "where and when", "its hardware"]
    bodies = [body for chapter in repository.chapters for body in _claims_of(chapter, findings)]
    return f"{sums}\n{table('Every claim, measured', head, bodies, 'rebuilt-claims')}"


def _claims_of(chapter: Chapter, findings: list[Finding]) -> list[str]:
    own = [finding for finding in findings if finding.chapter == chapter]
    if not own:
        return []
    title = f'<tbody><tr><th scope="rowgroup" colspan="5">{link(chapter)}</th></tr></tbody>'
    return [title, *map(_claim, own)]


def _claim(finding: Finding) -> str:
    claim = finding.claim
    claimed = number(float(claim["value"]), claim["unit"])
    note = f'<br><span class="note">{text(claim["note"])}</span>' if claim.get("note") else ""
    runs = [finding.run, *finding.others]
    said = f"<q>{text(claim['quote'])}</q><br>{text(claimed)}{note}"
    lines = []
    for index, run in enumerate(runs):
        found = text(measured(finding.metric(run)))
        place = where(run) if run else "no run has it"
        verdict = finding.verdict
        if index:
            verdict = receipts.verdict(claim, finding.metric(run), run.tier)
        span = f' rowspan="{len(runs)}"' if len(runs) > 1 else ""
        lead = f'<th scope="row"{span} style="white-space:normal">{said}</th>' if not index else ""
        tail = f"<td{span}>{text(claim['hardware'])}</td>" if not index else ""
        lines.append(f"<tr>{lead}<td>{badge(verdict)}</td><td>{found}</td><td>{place}</td>{tail}</tr>")
    facts = f'data-part="{finding.chapter.part}" data-verdict="{finding.verdict}"'
    return f"<tbody {facts}>{''.join(lines)}</tbody>"


def status(repository: Repository, ledger: Ledger) -> str:
    """Every run of every notebook."""
    rows = []
    for chapter in repository.chapters:
        for run in ledger.runs(chapter):
            code = '<span class="rebuilt-stale">changed since</span>' if run.stale else "the same"
            facts = (run.tier, text(run.machine), day(run), seconds(run), memory(run), run.origin, code)
            rows.append(row(link(chapter), *facts))
        if not ledger.runs(chapter):
            rows.append(row(link(chapter), "–", "–", "not run", "–", "–", "–", "–"))
    head = ["notebook", "tier", "machine", "date", "time", "peak memory", "run", "code"]
    return table("Runs of the notebooks", head, [f"<tbody>{''.join(rows)}</tbody>"])


def start_by_interest(repository: Repository, ledger: Ledger) -> str:
    """The chapters under each interest that their cards name."""
    interests: dict[str, list[Chapter]] = {}
    for chapter in repository.chapters:
        for name in chapter.card.get("interests") or []:
            interests.setdefault(name, []).append(chapter)
    lines = [f"<li>{text(name)}: {', '.join(map(link, interests[name]))}</li>" for name in sorted(interests)]
    return "\n".join(["<ul>", *lines, "</ul>"])


def start_by_hardware(repository: Repository, ledger: Ledger) -> str:
    """What each chapter needs, and how long it took at each tier."""
    rows = []
    words = {"none": "no GPU", "optional": "a GPU is optional", "required": "a GPU is required"}
    for chapter in repository.chapters:
        needs = chapter.card.get("needs") or {}
        asked = f"{needs.get('memory_gb', '?')} GB memory, {needs.get('disk_mb', '?')} MB disk"
        fastest = [
            next((run for run in ledger.runs(chapter) if run.tier == tier), None) for tier in ("cpu", "gpu", "big")
        ]
        times = [f"{seconds(run)} on {text(run.machine)}" if run else "not measured" for run in fastest]
        rows.append(row(link(chapter), asked, words.get(needs.get("gpu"), "?"), *times))
    head = ["chapter", "needs", "GPU", "two processor cores", "one 16 GB GPU", "one data-centre GPU"]
    return table("Chapters by the hardware you have", head, [f"<tbody>{''.join(rows)}</tbody>"])


def datasets(repository: Repository, ledger: Ledger) -> str:
    """The data sets of the registry with their licences and the chapters that use them."""
    sets: dict[str, list[dict]] = {}
    for entry in repository.registry:
        sets.setdefault(entry["dataset"], []).append(entry)
    rows = []
    for name, entries in sorted(sets.items()):
        size = number(float(sum(int(entry["bytes"]) for entry in entries)), "B")
        told = ["; ".join(dict.fromkeys(text(entry[key]) for entry in entries)) for key in ("licence", "citation")]
        users = [link(chapter) for chapter in repository.chapters if name in (chapter.card.get("data") or [])]
        rows.append(row(f"<code>{text(name)}</code>", str(len(entries)), size, *told, ", ".join(users) or "no chapter"))
    head = ["data set", "files", "size", "licence", "citation", "used by"]
    return table("Data sets in the registry", head, [f"<tbody>{''.join(rows)}</tbody>"])


def verified(chapter: Chapter, ledger: Ledger) -> str:
    """The line under a chapter's title: the run behind this page, and how the claims came out."""
    run = next((run for run in ledger.runs(chapter) if run.origin in ("fresh", "cached")), None)
    if run is None:
        raise PressError(f"{chapter} has no receipt of this machine; `python book/press run {chapter}` makes one")
    totals = ledger.totals(chapter)
    told = [f"{count} {verdict}" for verdict, count in totals.items() if count]
    tested = sum(totals[verdict] for verdict in TESTED)
    claims_line = f"Claims tested: {tested} of {sum(totals.values())} ({', '.join(told)})." if told else ""
    mark = ' <span class="rebuilt-stale">The code has changed since.</span>' if run.stale else ""
    return (
        f'<p class="rebuilt-verified">Verified {day(run)} on {text(run.machine)}, tier {run.tier}: '
        f"ran from top to bottom in {seconds(run)}, peak memory {memory(run)}.{mark} {claims_line} "
        f'<a href="../../../book/claims.html">All claims</a>, <a href="../../../book/status.html">all runs</a>.</p>'
    )


TIERS = {"cpu": "cpu: processor cores", "gpu": "gpu: one 16 GB GPU", "big": "big: one data-centre GPU"}


def fit(chapter: Chapter, ledger: Ledger) -> str:
    """The card under the 'verified' line: what the chapter took at each tier, from receipts, and what it asks for."""
    card, needs = chapter.card, chapter.card.get("needs") or {}
    rows = []
    for tier, name in TIERS.items():
        run = _best(run for run in ledger.runs(chapter) if run.tier == tier)
        if run is None:
            rows.append(row(name, "not measured", "–", "–", "–"))
            continue
        mark = ' <span class="rebuilt-stale">the code has changed since</span>' if run.stale else ""
        rows.append(row(name, minutes(run), memory(run), text(run.machine), day(run) + mark))
    files = [entry for entry in ledger.repository.registry if entry["dataset"] in (card.get("data") or [])]
    size = number(float(sum(int(entry["bytes"]) for entry in files)), "B")
    reading = sum(section["minutes"] for section in card.get("sections") or [])
    exercises = sum(exercise["minutes"] for exercise in card.get("exercises") or [])
    gpu = {"none": "no GPU", "optional": "a GPU is optional", "required": "a GPU is required"}.get(needs.get("gpu"), "")
    told = f"{reading} minutes of your time, {exercises} of them exercises; "
    told += f"data to download: {size}; " if files else "no data to download; "
    told += f"needs {needs.get('memory_gb', '?')} GB memory, {needs.get('disk_mb', '?')} MB disk, {gpu}"
    head = ["tier", "time to run", "peak memory", "machine", "measured"]
    taken = table("What it took, by tier", head, [f"<tbody>{''.join(rows)}</tbody>"], "rebuilt-table rebuilt-fit")
    return f'<p class="rebuilt-needs">Does it fit? {text(told)}.</p>\n{taken}'


def _best(runs: Iterable[Run]) -> Run | None:
    """The run of today's code if there is one; this machine's before others, the newest of those first."""
    return min(runs, key=lambda run: run.stale, default=None)


def minutes(run: Run) -> str:
    """The wall time of a run in minutes, or 'not measured'."""
    took = run.content.get("seconds")
    return f"{float(took) / 60:.1f}&nbsp;min" if took else "not measured"


MARKERS: dict[str, Callable[[Repository, Ledger], str]] = {
    "claims": claims,
    "status": status,
    "start-by-interest": start_by_interest,
    "start-by-hardware": start_by_hardware,
    "datasets": datasets,
}
