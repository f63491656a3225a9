"""The book as PDFs, a file for each part with chapters and one for all other pages, made and printed by Chromium: one
document of many articles keeps its tags, alt texts and links, and has one outline."""

import base64
import json
import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path

from .. import chromium
from ..errors import PressError
from ..files import sha256, write_bytes
from ..lean.slim import MATHS, SHEET
from ..ledger.tables import pdf_name, volumes
from ..repository import Repository
from ..reuse import store
from .generated import block

SCRIPT = Path(__file__).with_name("print.js")
ARTICLE = re.compile(r"<article.*</article>", re.DOTALL)  # all that is printed of a page
ANSWERS = {"title": "Hints and solutions", "anchor": "hints-and-solutions"}
CLASSES = ("rebuilt-print", "cover", "part", "title", "bd-content")  # of the document, for whoever trims the styles
LAYOUT = {
    "format": "A4",
    "margin": {"top": "18mm", "bottom": "20mm", "left": "16mm", "right": "16mm"},
    "display_header_footer": True,
    "header_template": "<span></span>",
    "print_background": True,
    "tagged": True,
    "outline": True,
}
SECONDS = 1800  # how long Chromium may take
RIGHT, SIZE = 541.0, 9.0  # of page numbers: points from the left edge of A4 to their end; the letters' size
DIGIT = 0.556  # of the letters' size: the width of Helvetica's digits


def print_book(repository: Repository, site: Path, address: str, browser: object) -> list[Path]:
    """The PDFs in the folder of the built book, read at `address`; PressError without tags or a chapter."""
    made, sheet = [], (site / SHEET).read_text(encoding="utf-8").replace("optional", "block")  # paper waits for letters
    for name, parts in volumes(repository).items():
        made.append(site / pdf_name(repository, name))
        key = _key(repository, site, [_book(repository, name, parts), sheet, browser.version])
        if kept := store.get("pdf", key):
            write_bytes(made[-1], base64.b64decode(kept))
            continue
        with browser.new_context(viewport={"width": 900, "height": 1200}) as window:
            page = chromium.page(window, address)
            page.route(f"**/{SHEET}*", lambda route: route.fulfill(body=sheet, content_type="text/css"))
            page.set_default_timeout(1e3 * SECONDS)
            page.emulate_media(media="print", color_scheme="light")
            page.goto(f"{address}{repository.toc_files[0]}.html", wait_until="load")
            headings = page.evaluate(SCRIPT.read_text(encoding="utf-8"), _book(repository, name, parts))
            page.pdf(path=made[-1], footer_template=block("footer", _title(repository, name)), **LAYOUT)
        finish(repository, made[-1], headings, name)
        store.put("pdf", key, base64.b64encode(made[-1].read_bytes()).decode())
    return made


def _key(repository: Repository, site: Path, facts: list) -> str:
    """Of all that a PDF is made from."""
    printed, files = [], [SCRIPT, Path(__file__), site / MATHS, *sorted(site.glob("_static/fonts/*"))]
    for name in facts[0]["pages"]:
        article = ARTICLE.search((site / f"{name}.html").read_text(encoding="utf-8"))
        printed.append(article[0] if article else "")
        files += [(site / name).parent / one for one in re.findall(r'src="([^":?]+)', printed[-1])]
    titles = [repository.url, *(chapter.card["title"] for chapter in repository.chapters)]
    return sha256(
        json.dumps([facts, printed, titles, LAYOUT, [sha256(one.read_bytes()) for one in files if one.is_file()]])
    )


def pages(repository: Repository, name: str) -> list[str]:
    """The documents in the PDF of this name."""
    return [one for _, names in volumes(repository)[name] for one in names]


def _title(repository: Repository, name: str) -> str:
    return f"{repository.config['title']}{name and f': {name}'}"


def _book(repository: Repository, name: str, parts: list) -> dict:
    """What `print.js` is told: hints and solutions stand last in the contents."""
    return {
        "title": _title(repository, name),
        "author": str(repository.config.get("author", "")),
        "release": f"Release {repository.version}, {time.strftime('%Y-%m-%d', time.gmtime())}",
        "pages": pages(repository, name),
        "parts": [*parts, ["", [ANSWERS["anchor"]]]],
        "answers": ANSWERS,
        "site": repository.site,
    }


def anchor(name: str) -> str:
    """The anchor of a page, by its document's name."""
    return re.sub(r"[^\w-]", "-", name)


def finish(repository: Repository, path: Path, headings: list[str], volume: str = "") -> None:
    """Give the file its title and author, its outline the headings, contents page numbers; PressError without tags."""
    from pypdf import PdfWriter
    from pypdf.generic import NameObject, TextStringObject

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it remarks on how Chromium counts its objects
    writer = PdfWriter(path, incremental=True, incremental_clone_object_count_limit=None)
    titles = {re.sub(r"\s", "", one): " ".join(one.split()) for one in headings}
    for item in _items(writer.outline):  # Chromium drops the space where a line of a heading ends
        title = titles.get(re.sub(r"\s", "", item.title), item.title)
        item.node[NameObject("/Title")] = TextStringObject(title)
    said = {"/Title": _title(repository, volume), "/Author": str(repository.config.get("author", ""))}
    writer.add_metadata({**said, "/Subject": repository.url, "/Creator": "press build"})
    own, found = pages(repository, volume), outline(writer)
    _number(writer, {*map(anchor, own), ANSWERS["anchor"]})
    lacking = [one.name for one in repository.chapters if one.document in own and plain(one.card["title"]) not in found]
    if lacking or not (writer.root_object.get("/MarkInfo") or {}).get("/Marked"):
        raise PressError(f"{path.name} has no tags, or its outline lacks {lacking}; is Chromium 112 or newer?")
    writer.write(path)


def plain(title: str) -> str:
    """A title with straight quotes and single spaces, as the outline and a card can be compared."""
    return " ".join(title.translate(str.maketrans("“”‘’", "\"\"''")).split())


def outline(reader) -> list[str]:
    """The plain titles of a PDF's outline, of every level, in order."""
    return [plain(str(item.title)) for item in _items(reader.outline)]


def _items(items: list) -> Iterator:
    for one in items:
        yield from _items(one) if isinstance(one, list) else [one]


def targets(reader) -> dict[str, int]:
    """The page, counted from 1, of each anchor that something in the file links to."""
    places = reader.named_destinations.items()
    found = {str(name).lstrip("/"): reader.get_destination_page_number(place) for name, place in places}
    return {name: page + 1 for name, page in found.items() if page is not None}


def _number(writer, anchors: set[str]) -> None:
    """Draw at each entry of the contents, a link, its page, which no style can ask Chromium for; not as text."""
    from pypdf.generic import DictionaryObject, NameObject

    letters = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    font = DictionaryObject({NameObject(key): NameObject(value) for key, value in letters.items()})
    where = {name: page for name, page in targets(writer).items() if name in anchors}
    for page in writer.pages[: min(where.values(), default=1) - 1]:
        lows = {}
        for link in (one.get_object() for one in page.get("/Annots") or []):
            name = str(link.get("/Dest", (link.get("/A") or {}).get("/D", ""))).lstrip("/")
            if name in where:
                low = float(link["/Rect"][1])
                lows[name] = min(low, lows.get(name, low))
        if not lows:
            continue
        left = {name: RIGHT - len(str(where[name])) * DIGIT * SIZE for name in lows}
        lines = [f"1 0 0 1 {left[name]:.2f} {low + 3:.2f} Tm ({where[name]}) Tj" for name, low in lows.items()]
        start = f"/Artifact BMC q 0.2 0.2 0.2 rg BT /RebuiltNumbers {SIZE:g} Tf"
        drawn = "\n".join([start, *lines, "ET Q EMC\n"])
        page["/Resources"]["/Font"][NameObject("/RebuiltNumbers")] = font
        content = page.get_contents()
        content.set_data(b"q\n" + content.get_data() + b"\nQ\n" + drawn.encode("ascii"))
        page.replace_contents(content.flate_encode())
