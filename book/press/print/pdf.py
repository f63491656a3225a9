"""The whole book as one PDF: the articles of its built pages in one document, printed by Chromium.

One document keeps what a merge of many would lose: tags and alt texts, links between chapters, one outline.
"""

import gc
import html
import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

from .. import chromium
from ..errors import PressError
from ..files import write_text
from ..lean import maths
from ..ledger.tables import pdf_name
from ..repository import Repository, documents
from . import answers, page_numbers

SHEET = "_print.html"
CLASSES = (
    "rebuilt-print",
    "cover",
    "part",
    "title",
    "bd-content",
    "bd-article",
)  # of the sheet, for whoever trims the styles
NOT_PRINTED = ".headerlink, .rebuilt-launch, .rebuilt-figure-data, script, button, form, .toc-item, .noprint"
FOOTER = (
    '<div style="width:100%;padding:0 16mm;font:8px sans-serif;color:#44505f;display:flex;'
    'justify-content:space-between"><span>{title}</span><span class="pageNumber"></span></div>'
)
LAYOUT = {
    "format": "A4",
    "margin": {"top": "18mm", "bottom": "20mm", "left": "16mm", "right": "16mm"},
    "display_header_footer": True,
    "header_template": "<span></span>",
    "print_background": True,
    "tagged": True,
    "outline": True,
}
SECONDS, SECONDS_A_MEGABYTE = 120, 60  # how long Chromium may take, by the size of what it prints


def print_book(repository: Repository, site: Path, address: str, browser: object) -> Path:
    """The PDF in the folder of the built book, which the browser reads at `address`.

    Raises PressError when it lacks its tags or a chapter.
    """
    made, headings = combined(repository, site)
    sheet = write_text(site / SHEET, made)
    target = site / pdf_name(repository)
    window = browser.new_context(viewport={"width": 900, "height": 1200})
    try:
        page = chromium.page(window, address)
        page.set_default_timeout(1e3 * (SECONDS + SECONDS_A_MEGABYTE * len(made) / 1e6))
        page.emulate_media(media="print", color_scheme="light")
        page.goto(address + SHEET, wait_until="load")
        page.evaluate("document.fonts.ready.then(() => true)")
        footer = FOOTER.format(title=html.escape(str(repository.config["title"])))
        page.pdf(path=target, footer_template=footer, **LAYOUT)
    finally:
        window.close()
        sheet.unlink()
    _finish(repository, target, headings)
    return target


def combined(repository: Repository, site: Path) -> tuple[str, list[str]]:
    """One page of HTML (a title, the contents, and every page's article with its ids made unique), and its headings."""
    from bs4 import BeautifulSoup

    names = repository.toc_files
    articles, held, head, headings, last = [], {}, "", ["Contents"], []
    for name in names:
        soup = BeautifulSoup((site / f"{name}.html").read_text(encoding="utf-8"), "html.parser")
        head = head or _head(soup, name, site)
        article = soup.select_one("article.bd-article")
        _prepare(article, name, set(names))
        title = article.find("h1").get_text().strip()
        last.append(answers.moved(article, title, _id(name)))
        headings += [one.get_text() for one in article.find_all(re.compile("^h[1-6]$"))]
        held[name] = title
        articles.append(f'<article class="bd-article" id="{_id(name)}">{article.decode_contents()}</article>')
    end = answers.chapter(last)
    headings += [one.get_text() for one in BeautifulSoup(end, "html.parser").find_all(re.compile("^h[1-6]$"))]
    title = html.escape(str(repository.config["title"]))
    author = html.escape(str(repository.config.get("author", "")))
    whole = (
        f'<!DOCTYPE html><html lang="en" data-theme="light" data-mode="light"><head><meta charset="utf-8">'
        f'<title>{title}</title>{head}</head><body class="rebuilt-print"><main class="bd-content">'
        f'<header class="cover"><p class="title">{title}</p><p>{author}</p>'
        f"<p>Release {repository.version}, {time.strftime('%Y-%m-%d', time.gmtime())}</p></header>"
        f'<nav aria-label="Contents"><h2>Contents</h2>{_contents(repository, held, bool(end))}</nav>'
        f"{''.join(articles)}{end}</main></body></html>"
    )
    return whole, headings


def _contents(repository: Repository, titles: dict[str, str], answered: bool) -> str:
    """The contents by the book's parts; what belongs to no part stands first, hints and solutions last."""

    def rows(anchors: dict[str, str]) -> str:
        made = (f'<li><a href="#{anchor}">{html.escape(title)}</a></li>' for anchor, title in anchors.items())
        return f"<ol>{''.join(made)}</ol>"

    parts = [(str(part.get("caption", "")), documents(part)) for part in repository.toc.get("parts") or []]
    parted = {name for _, names in parts for name in names}
    shown = [rows({_id(name): title for name, title in titles.items() if name not in parted})]
    for caption, names in parts:
        own = {_id(name): titles[name] for name in names if name in titles}
        shown += [f'<p class="part">{html.escape(caption)}</p>', rows(own)] if own else []
    return "".join([*shown, rows({answers.ANCHOR: answers.TITLE}) if answered else ""])


def _head(soup, name: str, site: Path) -> str:
    """The book's styles and those of its formulas, at addresses that hold at the root."""
    kept = soup.head.select('link[rel="stylesheet"], style')
    for tag in kept:
        if tag.name == "link":
            tag["href"] = urljoin(f"/{name}.html", tag["href"])
    own = f'<link rel="stylesheet" href="/{maths.SHEET}">' if (site / maths.SHEET).is_file() else ""
    return "".join(map(str, kept)) + own


def _id(name: str, anchor: str = "") -> str:
    return re.sub(r"[^\w-]", "-", name) + (f"--{anchor}" if anchor else "")


def _prepare(article, name: str, names: set[str]) -> None:
    """Open what is folded, take out what a print has no use for, and point links into the one document."""
    for tag in article.select(NOT_PRINTED):
        tag.decompose()
    for tag in article.select("details"):
        tag["open"] = ""
        if {"above-input", "above-output"} & set(tag.get("class", [])):  # it only says how to unfold the cell
            tag.name = "div"
            tag.summary.decompose()
    for tag in article.select("[id]"):
        tag["id"] = _id(name, tag["id"])
    for tag in article.select("[data-rebuilt-filter]"):
        del tag["data-rebuilt-filter"]
    for key in ("tabindex", "loading"):
        for tag in article.select(f"[{key}]"):
            del tag[key]
    for key in ("href", "src"):
        for tag in article.select(f"[{key}]"):
            address, anchor = urldefrag(urljoin(f"/{name}.html", tag[key]))
            page = unquote(address).removeprefix("/").removesuffix(".html")
            if key == "href" and page in names:
                tag[key] = f"#{_id(page, anchor)}"
            elif address.startswith("/"):
                tag[key] = address


def _finish(repository: Repository, path: Path, headings: list[str]) -> None:
    """Give the file its title and author, its outline the headings' words, its contents page numbers.

    What changes is added at the file's end. Refuses a file without its tags or a chapter in its outline.
    """
    from pypdf import PdfWriter
    from pypdf.generic import NameObject, TextStringObject

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it remarks on how Chromium counts its objects
    gc.disable()  # a book has some 300,000 objects, and without a look at them again and again it takes half the time
    try:
        writer = PdfWriter(path, incremental=True, incremental_clone_object_count_limit=None)
    finally:
        gc.enable()
    titles = {re.sub(r"\s", "", one): " ".join(one.split()) for one in headings}
    for item in _items(writer.outline):  # Chromium drops the space where a line of a heading ends
        title = titles.get(re.sub(r"\s", "", item.title), item.title)
        item.node[NameObject("/Title")] = TextStringObject(title)
    config = repository.config
    said = {"/Title": config["title"], "/Author": config.get("author", ""), "/Subject": repository.url}
    writer.add_metadata({**said, "/Creator": "press build"})
    page_numbers.write(writer, {*map(_id, repository.toc_files), answers.ANCHOR})
    _judge(repository, writer, path.name)
    writer.write(path)


def _judge(repository: Repository, reader, name: str) -> None:
    titles = outline(reader)
    missing = [str(chapter) for chapter in repository.chapters if plain(chapter.card["title"]) not in titles]
    if missing or not (reader.root_object.get("/MarkInfo") or {}).get("/Marked"):
        raise PressError(f"{name} has no tags, or its outline lacks {missing}; is Chromium 112 or newer?")


def plain(title: str) -> str:
    """A title with straight quotes and single spaces, as the outline and a card can be compared."""
    return " ".join(title.translate(str.maketrans("“”‘’", "\"\"''")).split())


def outline(reader) -> list[str]:
    """The plain titles of a PDF's outline, of every level, in order."""
    return [plain(str(item.title)) for item in _items(reader.outline)]


def _items(items: list) -> Iterator:
    for one in items:
        yield from _items(one) if isinstance(one, list) else [one]
