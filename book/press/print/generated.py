"""What the machine writes into the book: at the markers of its pages, and under a chapter's title.

Every function gives HTML without empty lines, so that it is one block of Markdown; each number in it comes
from a card, a receipt or the registry.
"""

from collections.abc import Callable
from functools import partial
from urllib.parse import quote

from helpers.show import Markup, number, tag

from .. import chromium
from ..errors import PressError
from ..face import gallery
from ..face.hero import hero
from ..face.opening import first_screen
from ..ledger import TESTED, Entry, Ledger
from ..ledger.pages import claims, status
from ..ledger.tables import UP, beside, day, joined, link, memory, pdf_name, seconds, stale
from ..markup import html_table, row
from ..predict import pages as predicted
from ..repository import Chapter, Repository
from ..teach import kit, length, syllabi
from ..teach.variants import KINDS
from .edition import Edition

TIERS = {"cpu": "cpu: processor cores", "gpu": "gpu: one 16 GB GPU", "big": "big: one data-centre GPU"}
NEEDS = {"none": "no GPU", "optional": "a GPU is optional", "required": "a GPU is required"}
OPENED = ("slides", "run-sheet")  # in the browser; every other download is saved
WEIGHTS = '<div id="rebuilt-page-weight"></div>'  # where they stand once the pages are there to be measured


def markers(repository: Repository, ledger: Ledger, live: dict | None = None) -> dict[str, Callable[..., str]]:
    """What stands at each marker, by its name; it is written when it is asked for.

    `live`: the elements of the chapters' live models, by the chapters' names.
    """
    entries, chapters = ledger.entries, [entry.chapter for entry in ledger.entries]
    ordered = gallery.in_order(repository, entries)
    parts = [path.name for path in (repository.root / "notebooks").glob("*/")]  # those without a chapter, too
    why = "this is a book of some chapters" if isinstance(repository, Edition) else ""
    why = why or ("" if chromium.find() else chromium.WANTED)
    return {
        "claims": partial(claims, entries),
        "status": partial(status, entries),
        "start-by-interest": partial(start_by_interest, chapters),
        "start-by-hardware": partial(start_by_hardware, entries),
        "datasets": partial(datasets, repository.registry, chapters),
        "chapter": partial(named, chapters),
        "count": partial(standing, chapters),
        "syllabi": partial(syllabi.syllabi, chapters),
        "by-audience": partial(syllabi.by_audience, chapters),
        "hero": partial(hero, ordered, live or {}),
        "numbers": lambda: gallery.three(gallery.numbers(Ledger(ordered))),
        "gallery": partial(cards, repository, ordered),
        **{f"gallery-{part}": partial(cards, repository, ordered, part) for part in parts},
        "pdf": lambda: "" if why else pdf(pdf_name(repository)),
        "length": partial(lengths, chapters),
        "page-weight": lambda: tag("p", f"Not measured: {why}.") if why else WEIGHTS,
    }


def named(chapters: list[Chapter], words: str = "") -> str:
    """Where to read on, from `part/stem its name`: a link once the chapter stands, else its name and "planned"."""
    path, _, name = words.partition(" ")
    part, _, stem = path.partition("/")
    found = next((one for one in chapters if (one.part, one.stem) == (part, stem)), None)
    return link(found) if found else f"*{name or stem.replace('_', ' ')}* ({part}, planned)"


def standing(chapters: list[Chapter]) -> str:
    """How many chapters the book has, with links."""
    many = f"{len(chapters)} chapter{'s stand' if len(chapters) != 1 else ' stands'} today"
    return joined(f"{many}: ", joined(*map(link, chapters), between=", "), ".")


def cards(repository: Repository, entries: list[Entry], part: str = "") -> str:
    """The gallery of the book, or of one part."""
    captions, tiles = gallery.captions(repository), []
    for chapter, entry in [(entry.chapter, entry) for entry in entries if part in ("", entry.chapter.part)]:
        colab = addresses(repository, chapter).get("Colab", "")
        tiles.append(gallery.tile(entry, captions.get(chapter.part, chapter.part.capitalize()), colab))
    return gallery.gallery(tiles)


def start_by_interest(chapters: list[Chapter]) -> str:
    """The chapters under each interest that their cards name."""
    found = {}
    for chapter in chapters:
        for name in chapter.card.get("interests") or []:
            found.setdefault(name, []).append(link(chapter))
    rows = [tag("li", joined(name, ": ", joined(*found[name], between=", "))) for name in sorted(found)]
    return tag("ul", joined(*rows, between="\n"))


def start_by_hardware(entries: list[Entry]) -> str:
    """What each chapter needs, and how long it took at each tier."""
    rows = []
    for entry in entries:
        needs = entry.chapter.card.get("needs") or {}
        asked = f"{needs.get('memory_gb', '?')} GB memory, {needs.get('disk_mb', '?')} MB disk"
        latest = [next((run for run in entry.runs if run.tier == tier), None) for tier in ("cpu", "gpu", "big")]
        times = [joined(seconds(run), f" on {run.machine}") if run else "not measured" for run in latest]
        rows.append(row(link(entry.chapter), asked, NEEDS.get(needs.get("gpu"), "?"), *times))
    head = ["chapter", "needs", "GPU", "two processor cores", "one 16 GB GPU", "one data-centre GPU"]
    return html_table("Chapters by the hardware you have", head, [rows])


def datasets(registry: list[dict], chapters: list[Chapter]) -> str:
    """The data sets of the registry with their licences and the chapters that use them."""
    rows = []
    for name in sorted({line["dataset"] for line in registry}):
        lines = [line for line in registry if line["dataset"] == name]
        size = number(float(sum(int(line["bytes"]) for line in lines)), "B")
        told = ["; ".join(dict.fromkeys(line[key] for line in lines)) for key in ("licence", "citation")]
        users = [link(chapter) for chapter in chapters if name in (chapter.card.get("data") or [])]
        rows.append(row(tag("code", name), len(lines), size, *told, joined(*users, between=", ") or "no chapter"))
    head = ["data set", "files", "size", "licence", "citation", "used by"]
    return html_table("Data sets in the registry", head, [rows])


def lengths(chapters: list[Chapter]) -> str:
    """What each page asks of a reader: words, cells, minutes of the core path and of all; why a long one is long."""
    rows = []
    for chapter, own in zip(chapters, map(length.of, chapters), strict=True):
        minutes, why = (f"{own.core} min", f"{own.whole} min"), chapter.card.get("length", "")
        rows.append(row(link(chapter), f"{own.words:,}", own.cells, *minutes, why))
    head = ["chapter", "words", "cells", "core path", "with all exercises", "why it is long"]
    return html_table("What the pages ask of a reader", head, [rows], "rebuilt-table rebuilt-weights")


def pdf(name: str) -> str:
    """The link to the printed book of that name."""
    link = tag("a", "one PDF", href=f"{UP}{name}", download="")
    return tag("p", joined("The whole book is also ", link, ", to read or print away from a screen."))


def masthead(repository: Repository, entry: Entry) -> str:
    """All lines under the title of one chapter."""
    chapter = entry.chapter
    sets = chapter.card.get("data") or []
    files = [line for line in repository.registry if line["dataset"] in sets]
    links = [f'<a href="{url}">{service}</a>' for service, url in addresses(repository, chapter).items()]
    lines = (
        first_screen(entry, _launch("Run it in", links)),
        verified(entry),
        *_for_class(chapter, not isinstance(repository, Edition)),
        fit(entry, files),
        *predicted.block(entry),
        kit.cite(repository, chapter),
    )
    return "\n".join(filter(None, lines))


def addresses(repository: Repository, chapter: Chapter) -> dict[str, str]:
    """The address at which each service that `_config.yml` names opens the chapter's notebook of the release."""
    services = {**(repository.config.get("launch_buttons") or {}), **(repository.config.get("rebuilt") or {})}
    release, name = repository.release, "/".join(repository.url.split("/")[-2:])
    path = f"{chapter.document}.ipynb"
    raw = quote(f"https://raw.githubusercontent.com/{name}/{release}/{path}", safe=":/")
    found = {
        "Colab": ("colab_url", f"github/{name}/blob/{release}/{path}"),
        "Kaggle": ("kaggle_url", f"kernels/welcome?src={raw}"),
        "Binder": ("binderhub_url", f"v2/gh/{name}/{release}?urlpath=tree/{path}"),
    }
    return {name: f"{services[key].rstrip('/')}/{at}" for name, (key, at) in found.items() if services.get(key)}


def _launch(words: str, links: list[str]) -> str:
    """A row of links in one line of HTML; "" for none."""
    return f'<p class="rebuilt-launch">{words} {" ".join(links)}</p>' if links else ""


def _for_class(chapter: Chapter, whole: bool) -> list[str]:
    """Rows of links to what a class needs; `whole`: also to the kit, which a book of some chapters leaves out."""
    found = {
        name: f'<a href="../../../{address}"{" download" * (name not in OPENED)}>{name}</a>'
        for name, address in kit.downloads(chapter, whole).items()
    }
    own = [link for name, link in found.items() if name in KINDS]
    return [_launch("Notebooks for a class", own), _launch("For the teacher", [*found.values()][len(own) :])]


def verified(entry: Entry) -> str:
    """The run behind this page, its machine and date, also where it was kept from then; how the claims came out."""
    run = entry.behind
    if run is None:
        raise PressError(f"{entry.chapter} has no receipt; `.venv/bin/python book/press run {entry.chapter}` makes one")
    told = [f"{many} {verdict}" for verdict, many in entry.totals.items() if many]
    tested = sum(entry.totals[verdict] for verdict in TESTED)
    counted = f"Claims tested: {tested} of {len(entry.findings)} ({', '.join(told)})." if told else ""
    kept = " The run was kept: nothing that it depends on has changed since." if run.origin == "cached" else ""
    ran = joined(f" on {run.machine}, tier {run.tier}: ran from top to bottom in ", seconds(run))
    mark = stale(run, "The code has changed since.") or kept
    pages = {"claims": "All claims", "status": "all runs"}
    links = joined(*(tag("a", word, href=f"../../../book/{page}.html") for page, word in pages.items()), between=", ")
    words = ("Verified ", day(run), ran, f", peak memory {memory(run)}", beside(run), ".", mark, f" {counted} ", links)
    return tag("p", joined(*words, "."), class_="rebuilt-verified")


def fit(entry: Entry, files: list[dict]) -> str:
    """What the chapter took at each tier, from receipts, and what it asks for; `files` are its rows of the registry."""
    needs = entry.chapter.card.get("needs") or {}
    time = length.of(entry.chapter)
    parts = [f"{time.exercises} of them exercises"]
    if time.further:
        parts = [f"{time.core} on the core path", f"{time.further} further", f"{time.exercises} exercises"]
    size = number(float(sum(int(line["bytes"]) for line in files)), "B")
    told = f"{time.whole} minutes of your time, {', '.join(parts)}; "
    told += f"data to download: {size}; " if files else "no data to download; "
    told += f"needs {needs.get('memory_gb', '?')} GB memory, {needs.get('disk_mb', '?')} MB disk, "
    told += NEEDS.get(needs.get("gpu"), "")
    rows = [_took(entry, tier) for tier in TIERS] + predicted.fit_rows(entry)
    head = ["tier", "time to run", "peak memory", "machine", "measured"]
    taken = html_table("What it took, by tier", head, [rows], "rebuilt-table rebuilt-fit")
    folded = tag("details", joined(tag("summary", "What it took, by tier"), taken))
    return joined(tag("p", f"Does it fit? {told}.", class_="rebuilt-needs"), folded, between="\n")


def _took(entry: Entry, tier: str) -> str:
    """The row of a tier: the run of today's code if there is one; this machine's before others, the newest first."""
    runs = [run for run in entry.runs if run.tier == tier]
    run = min(runs, key=lambda run: run.stale, default=None)
    if run is None:
        return row(TIERS[tier], "not measured", "–", "–", "–")
    took = run.content.get("seconds")
    time = Markup(f"{float(took) / 60:.1f}&nbsp;min" if took else "not measured")
    when = joined(day(run), stale(run, "the code has changed since"))
    return row(TIERS[tier], time, memory(run), run.machine, when)
