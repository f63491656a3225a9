"""What the machine writes into pages: the ledger, the status, where to start, the data sets, 'verified' lines.

Every function gives HTML without empty lines, so that it is one block of Markdown; each number in it comes
from a card, a receipt or the registry.
"""

from collections.abc import Callable, Iterable

from helpers.show import number

from .. import chromium
from ..errors import PressError
from ..ledger import TESTED, Ledger, Run
from ..ledger.pages import claims, status
from ..ledger.tables import UP, day, link, measured, memory, pdf_name, row, seconds, table, text
from ..repository import Chapter, Repository
from ..teach import syllabi
from . import weights

__all__ = ["MARKERS", "claims", "datasets", "fit", "measured", "start_by_hardware", "start_by_interest", "status"]


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


def pdf(repository: Repository, ledger: Ledger) -> str:
    """The link to the printed book; nothing where no browser can print it."""
    if not chromium.find():
        return ""
    link = f'<a href="{UP}{pdf_name(repository)}" download>one PDF</a>'
    return f"<p>The whole book is also {link}, to read or print away from a screen.</p>"


def weight(repository: Repository, ledger: Ledger) -> str:
    """The place on the status page that is filled once the pages are there to be measured."""
    return weights.PLACE if chromium.find() else f"<p>Not measured: {chromium.WANTED}.</p>"


MARKERS: dict[str, Callable[[Repository, Ledger], str]] = {
    "claims": claims,
    "status": status,
    "start-by-interest": start_by_interest,
    "start-by-hardware": start_by_hardware,
    "datasets": datasets,
    "syllabi": syllabi.syllabi,
    "by-audience": syllabi.by_audience,
    "pdf": pdf,
    "page-weight": weight,
}
