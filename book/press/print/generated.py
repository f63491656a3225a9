"""What the machine writes at the markers of the book's pages: the ledger, the runs, where to start, the data sets.

Every function gives HTML without empty lines, so that it is one block of Markdown; each number in it comes
from a card, a receipt or the registry.
"""

from collections.abc import Callable
from functools import partial

from helpers.show import number, tag

from .. import chromium
from ..face import gallery
from ..ledger import Entry, Ledger
from ..ledger.pages import claims, status
from ..ledger.tables import UP, joined, link, pdf_name, seconds
from ..markup import html_table, row
from ..repository import Chapter, Repository
from ..teach import length, syllabi
from . import launch, weights
from .edition import Edition

NEEDS = {"none": "no GPU", "optional": "a GPU is optional", "required": "a GPU is required"}


def markers(
    repository: Repository, ledger: Ledger, live: dict[str, str] | None = None
) -> dict[str, Callable[..., str]]:
    """What stands at each marker, by its name; it is written when it is asked for.

    `live`: the elements of the chapters' live models, by the chapters' names.
    """
    entries, chapters = ledger.entries, [entry.chapter for entry in ledger.entries]
    captions = gallery.captions(repository)
    parts = {f"gallery-{part}": partial(cards, repository, entries, captions, part) for part in _parts(repository)}
    whole = bool(chromium.find()) and not isinstance(repository, Edition)
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
        "hero": partial(gallery.hero, entries, live or {}),
        "numbers": lambda: gallery.three(gallery.numbers(ledger)),
        "gallery": partial(cards, repository, entries, captions),
        **parts,
        "pdf": partial(pdf, pdf_name(repository) if whole else ""),
        "length": partial(lengths, chapters),
        "page-weight": partial(weight, repository, whole),
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


def _parts(repository: Repository) -> list[str]:
    """The folders of `notebooks/`: the parts, those without a chapter too."""
    return sorted(path.name for path in (repository.root / "notebooks").glob("*") if path.is_dir())


def cards(repository: Repository, entries: list[Entry], captions: dict[str, str], part: str = "") -> str:
    """The gallery of the book, or of one part."""
    tiles = []
    for entry in entries:
        chapter = entry.chapter
        if part in ("", chapter.part):
            colab = launch.addresses(repository, chapter).get("Colab", "")
            tiles.append(gallery.tile(entry, captions.get(chapter.part, chapter.part.capitalize()), colab))
    return gallery.gallery(tiles)


def start_by_interest(chapters: list[Chapter]) -> str:
    """The chapters under each interest that their cards name."""
    interests: dict[str, list[Chapter]] = {}
    for chapter in chapters:
        for name in chapter.card.get("interests") or []:
            interests.setdefault(name, []).append(chapter)
    links = {name: joined(*map(link, interests[name]), between=", ") for name in sorted(interests)}
    return tag("ul", joined(*(tag("li", joined(name, ": ", found)) for name, found in links.items()), between="\n"))


def start_by_hardware(entries: list[Entry]) -> str:
    """What each chapter needs, and how long it took at each tier."""
    rows = []
    for entry in entries:
        needs = entry.chapter.card.get("needs") or {}
        asked = f"{needs.get('memory_gb', '?')} GB memory, {needs.get('disk_mb', '?')} MB disk"
        fastest = [next((run for run in entry.runs if run.tier == tier), None) for tier in ("cpu", "gpu", "big")]
        times = [joined(seconds(run), f" on {run.machine}") if run else "not measured" for run in fastest]
        rows.append(row(link(entry.chapter), asked, NEEDS.get(needs.get("gpu"), "?"), *times))
    head = ["chapter", "needs", "GPU", "two processor cores", "one 16 GB GPU", "one data-centre GPU"]
    return html_table("Chapters by the hardware you have", head, [rows])


def datasets(registry: list[dict], chapters: list[Chapter]) -> str:
    """The data sets of the registry with their licences and the chapters that use them."""
    sets: dict[str, list[dict]] = {}
    for line in registry:
        sets.setdefault(line["dataset"], []).append(line)
    rows = []
    for name, lines in sorted(sets.items()):
        size = number(float(sum(int(line["bytes"]) for line in lines)), "B")
        told = ["; ".join(dict.fromkeys(line[key] for line in lines)) for key in ("licence", "citation")]
        users = [link(chapter) for chapter in chapters if name in (chapter.card.get("data") or [])]
        rows.append(row(tag("code", name), len(lines), size, *told, joined(*users, between=", ") or "no chapter"))
    head = ["data set", "files", "size", "licence", "citation", "used by"]
    return html_table("Data sets in the registry", head, [rows])


def lengths(chapters: list[Chapter]) -> str:
    """What each page asks of a reader: words, cells, minutes of the core path and of all; why a long one is long."""
    rows = []
    for chapter in chapters:
        own = length.of(chapter)
        why = chapter.card.get("length", "")
        rows.append(row(link(chapter), f"{own.words:,}", own.cells, f"{own.core} min", f"{own.whole} min", why))
    head = ["chapter", "words", "cells", "core path", "with all exercises", "why it is long"]
    return html_table("What the pages ask of a reader", head, [rows], "rebuilt-table rebuilt-weights")


def weight(repository: Repository, whole: bool) -> str:
    """The place on the status page that is filled once the pages are there to be measured, or why they are not."""
    why = "this is a book of some chapters" if isinstance(repository, Edition) else chromium.WANTED
    return weights.PLACE if whole else tag("p", f"Not measured: {why}.")


def pdf(name: str) -> str:
    """The link to the printed book of that name; nothing where no browser can print it."""
    if not name:
        return ""
    link = tag("a", "one PDF", href=f"{UP}{name}", download="")
    return tag("p", joined("The whole book is also ", link, ", to read or print away from a screen."))
