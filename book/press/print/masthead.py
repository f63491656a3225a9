"""What the machine writes under a chapter's title: the run behind the page, where to run it, whether it fits.

Each line is HTML without empty lines; each number comes from a card, a receipt or the registry.
"""

from helpers.show import Markup, number, tag

from ..errors import PressError
from ..face.opening import first_screen
from ..ledger import TESTED, Entry, Run
from ..ledger.tables import beside, day, joined, memory, seconds, stale
from ..markup import html_table, row
from ..predict import pages as predicted
from ..repository import Repository
from ..teach import kit, length
from . import launch
from .edition import Edition
from .generated import NEEDS

TIERS = {"cpu": "cpu: processor cores", "gpu": "gpu: one 16 GB GPU", "big": "big: one data-centre GPU"}


def masthead(repository: Repository, entry: Entry) -> str:
    """All lines under the title of one chapter."""
    sets = entry.chapter.card.get("data") or []
    files = [line for line in repository.registry if line["dataset"] in sets]
    buttons = launch.buttons(repository, entry.chapter)
    first = first_screen(entry, buttons)
    return "\n".join(
        [
            first,
            verified(entry),
            launch.for_class(entry.chapter, not isinstance(repository, Edition)),
            fit(entry, files),
            *predicted.block(entry),
            kit.cite(repository, entry.chapter),
        ]
    )


def verified(entry: Entry) -> str:
    """The run behind this page, its machine and date, also where it was kept from then; how the claims came out."""
    run = entry.behind
    if run is None:
        raise PressError(f"{entry.chapter} has no receipt; `.venv/bin/python book/press run {entry.chapter}` makes one")
    told = [f"{many} {verdict}" for verdict, many in entry.totals.items() if many]
    tested = sum(entry.totals[verdict] for verdict in TESTED)
    counted = f"Claims tested: {tested} of {len(entry.findings)} ({', '.join(told)})." if told else ""
    kept = " The run was kept: nothing that it depends on has changed since." if run.origin == "cached" else ""
    links = (_to("claims", "All claims"), ", ", _to("status", "all runs"), ".")
    took = (": ran from top to bottom in ", seconds(run), f", peak memory {memory(run)}")
    mark = stale(run, "The code has changed since.") or kept
    words = (
        "Verified ",
        day(run),
        f" on {run.machine}, tier {run.tier}",
        *took,
        beside(run),
        ".",
        mark,
        f" {counted} ",
        *links,
    )
    return tag("p", joined(*words), class_="rebuilt-verified")


def _to(page: str, words: str) -> Markup:
    """A link from a chapter to a page of the book."""
    return tag("a", words, href=f"../../../book/{page}.html")


def fit(entry: Entry, files: list[dict]) -> str:
    """What the chapter took at each tier, from receipts, and what it asks for; `files` are its rows of the registry."""
    needs = entry.chapter.card.get("needs") or {}
    rows = [_took(entry, tier, name) for tier, name in TIERS.items()] + predicted.fit_rows(entry)
    size = number(float(sum(int(line["bytes"]) for line in files)), "B")
    time = length.of(entry.chapter)
    parts = [f"{time.exercises} of them exercises"]
    if time.further:
        parts = [f"{time.core} on the core path", f"{time.further} further", f"{time.exercises} exercises"]
    told = f"{time.whole} minutes of your time, {', '.join(parts)}; "
    told += f"data to download: {size}; " if files else "no data to download; "
    told += f"needs {needs.get('memory_gb', '?')} GB memory, {needs.get('disk_mb', '?')} MB disk, "
    told += NEEDS.get(needs.get("gpu"), "")
    head = ["tier", "time to run", "peak memory", "machine", "measured"]
    taken = html_table("What it took, by tier", head, [rows], "rebuilt-table rebuilt-fit")
    folded = tag("details", joined(tag("summary", "What it took, by tier"), taken))
    return joined(tag("p", f"Does it fit? {told}.", class_="rebuilt-needs"), folded, between="\n")


def _took(entry: Entry, tier: str, name: str) -> str:
    """The row of a tier: the run of today's code if there is one; this machine's before others, the newest first."""
    runs = [run for run in entry.runs if run.tier == tier]
    run = min(runs, key=lambda run: run.stale, default=None)
    if run is None:
        return row(name, "not measured", "–", "–", "–")
    when = joined(day(run), stale(run, "the code has changed since"))
    return row(name, minutes(run), memory(run), run.machine, when)


def minutes(run: Run) -> Markup:
    """The wall time of a run in minutes, or 'not measured'."""
    took = run.content.get("seconds")
    return Markup(f"{float(took) / 60:.1f}&nbsp;min" if took else "not measured")
