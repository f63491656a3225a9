"""What the machine writes into the book, at its pages' markers and a chapter's end, as `pages.html` says it."""

from collections.abc import Callable
from functools import partial
from urllib.parse import quote

from helpers.show import Markup, tag

from .. import chromium
from ..errors import PressError
from ..face import chart, gallery
from ..ledger import DECIDED, Entry, Ledger, tables
from ..ledger.pages import claims, written
from ..ledger.tables import link, pdf_name, volumes
from ..predict import pages as predicted
from ..repository import Chapter, Repository
from ..taught import markers as lessons
from ..teach import courses, kit, length, syllabi
from ..teach.variants import KINDS
from .edition import Edition

TIERS = {"cpu": "cpu: processor cores", "gpu": "gpu: one 16 GB GPU", "big": "big: one data-centre GPU"}
NEEDS = {"none": "no GPU", "optional": "a GPU is optional", "required": "a GPU is required"}
WEIGHTS = '<div id="rebuilt-page-weight"></div>'  # where they stand once the pages are there to be measured


def markers(repository: Repository, ledger: Ledger) -> dict[str, Callable[..., str]]:
    """What stands at each marker, by its name; it is written when it is asked for."""
    entries, chapters = ledger.entries, [entry.chapter for entry in ledger.entries]
    parts = [page.stem[5:] for page in repository.pages if page.stem.startswith("part_")]
    interests = {}
    for chapter in chapters:
        for name in chapter.card.get("interests") or []:
            interests.setdefault(name, []).append(chapter)
    why = "this is a book of some chapters" if isinstance(repository, Edition) else ""
    why = why or ("" if chromium.find() else chromium.WANTED)
    return {
        "claims": partial(claims, entries),
        "status": partial(written, "status", entries),
        "start-by-interest": partial(block, "start_by_interest", interests),
        "start-by-hardware": partial(block, "start_by_hardware", entries),
        "datasets": partial(block, "datasets", repository.registry, chapters),
        "chapter": partial(named, chapters),
        "count": partial(block, "standing", chapters),
        "syllabi": partial(syllabi.syllabi, chapters),
        "map": partial(syllabi.chapter_map, chapters),
        "by-audience": partial(syllabi.by_audience, chapters),
        "hero": partial(gallery.hero, entries),
        "numbers": lambda: gallery.written("numbers", gallery.numbers(ledger)),
        "chart": partial(chart.chart, ledger),
        "gallery": partial(cards, repository, entries),
        **{f"gallery-{part}": partial(cards, repository, entries, part) for part in parts},
        "pdf": lambda: "" if why else block("pdf", {one: pdf_name(repository, one) for one in volumes(repository)}),
        "length": partial(block, "lengths", chapters),
        "page-weight": lambda: tag("p", f"Not measured: {why}.") if why else WEIGHTS,
        "course": partial(courses.shown, repository),
        "of-courses": partial(courses.parts, repository, entries),
        **lessons(repository, ledger),
    }


def named(chapters: list[Chapter], words: str = "") -> str:
    """Where to read on, from `part/stem its name`: a link once the chapter stands, else its name and "planned"."""
    path, _, name = words.partition(" ")
    part, _, stem = path.partition("/")
    found = next((one for one in chapters if (one.part, one.stem) == (part, stem)), None)
    return link(found) if found else f"*{name or stem.replace('_', ' ')}* ({part}, planned)"


def cards(repository: Repository, entries: list[Entry], part: str = "") -> str:
    """The gallery of the book, or of one part."""
    tiles = []
    for chapter, entry in [(entry.chapter, entry) for entry in entries if part in ("", entry.chapter.part)]:
        colab = addresses(repository, chapter).get("Colab", "")
        tiles.append(gallery.tile(entry, chapter.caption, gallery.article(repository, chapter), colab))
    return gallery.written("gallery", tiles)


def about(repository: Repository, entry: Entry) -> str:
    """'About this page', folded at the end of one chapter: where to run it, its run, its kit, its needs, its counts."""
    chapter = entry.chapter
    files = [line for line in repository.registry if line["dataset"] in (chapter.card.get("data") or [])]
    downloads = kit.downloads(chapter, not isinstance(repository, Edition))
    more = {name: f"../../../{at}" for name, at in downloads.items()}
    own = {name: more.pop(name) for name in (*KINDS, kit.START)}
    lines = (
        block("launch", "Run it in", addresses(repository, chapter)),
        verified(entry),
        block("launch", "Notebooks for a class", own, True),
        block("launch", "For the teacher", more, True),
        fit(entry, files),
        *predicted.block(entry),
        kit.cite(repository, chapter),
    )
    return block("about", Markup("\n".join(filter(None, lines))))


def addresses(repository: Repository, chapter: Chapter) -> dict[str, str]:
    """The address at which each service that `_config.yml` names opens the student's notebook of the release."""
    services = {**(repository.config.get("launch_buttons") or {}), **(repository.config.get("rebuilt") or {})}
    branch, name = repository.branch, "/".join(repository.url.split("/")[-2:])
    path = f"{chapter.document}.ipynb"
    raw = quote(f"https://raw.githubusercontent.com/{name}/{branch}/{path}", safe=":/")
    found = {
        "Colab": ("colab_url", f"github/{name}/blob/{branch}/{path}"),
        "Kaggle": ("kaggle_url", f"kernels/welcome?src={raw}"),
        "Binder": ("binderhub_url", f"v2/gh/{name}/{branch}?urlpath=tree/{path}"),
    }
    return {name: f"{services[key].rstrip('/')}/{at}" for name, (key, at) in found.items() if services.get(key)}


def verified(entry: Entry) -> str:
    """The run behind this page and how the claims came out; PressError where there is no run."""
    if entry.behind is None:
        raise PressError(f"{entry.chapter} has no receipt; `.venv/bin/python book/press run {entry.chapter}` makes one")
    told = [f"{many} {word}" for word, many in entry.totals.items() if many]
    return block("verified", entry, entry.behind, told, sum(entry.totals[word] for word in DECIDED))


def fit(entry: Entry, files: list[dict]) -> str:
    """What the chapter took at each tier and what it asks for; `files` are its rows of the registry."""
    needs, time = entry.chapter.card.get("needs") or {}, length.of(entry.chapter)
    return block("fit", entry, files, needs, time, predicted.fit_rows(entry))


def block(name: str, *values: object) -> Markup:
    """What the macro `name` of `pages.html` makes of the values."""
    names = {"TIERS": TIERS, "NEEDS": NEEDS, "length_of": length.of}
    return tables.block("print/pages.html", name, *values, **names)
