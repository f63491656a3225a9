"""The whole book as one PDF: the articles of its built pages in one document, printed by Chromium.

One document keeps what a merge of many would lose: tags and alt texts, links between chapters, one outline.
"""

import html
import logging
import re
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

from .. import chromium
from ..errors import PressError
from ..files import write_text
from ..ledger.tables import pdf_name
from ..repository import Repository

SHEET = "_print.html"
NOT_PRINTED = ".headerlink, .rebuilt-launch, .rebuilt-figure-data, script, button, form, .toc-item, .noprint"
FOOTER = (
    '<div style="width:100%;padding:0 16mm;font:8px sans-serif;color:#44505f;display:flex;'
    'justify-content:space-between"><span>{title}</span><span class="pageNumber"></span></div>'
)
SECONDS = 240


def print_book(repository: Repository, site: Path) -> Path:
    """The PDF in the folder of the built book; PressError when it lacks its tags or a page."""
    made = combined(repository, site)
    headings = _headings(made)
    sheet = write_text(site / SHEET, made)
    target = site / pdf_name(repository)
    try:
        with chromium.site(site) as address, chromium.browser() as browser:
            page = chromium.page(browser.new_context(viewport={"width": 900, "height": 1200}), address)
            page.set_default_timeout(SECONDS * 1e3)
            page.emulate_media(media="print", color_scheme="light")
            page.goto(address + SHEET, wait_until="load")
            page.evaluate("window.MathJax?.startup?.promise?.then(() => true)")
            title = html.escape(str(repository.config["title"]))
            page.pdf(
                path=target,
                format="A4",
                margin={"top": "18mm", "bottom": "20mm", "left": "16mm", "right": "16mm"},
                display_header_footer=True,
                header_template="<span></span>",
                footer_template=FOOTER.format(title=title),
                print_background=True,
                tagged=True,
                outline=True,
            )
    finally:
        sheet.unlink()
    _finish(repository, target, headings)
    return target


def combined(repository: Repository, site: Path) -> str:
    """One page of HTML: a title, the contents, and every page's article with its ids made unique."""
    from bs4 import BeautifulSoup

    names = repository.toc_files
    articles, contents, head = [], [], ""
    for name in names:
        soup = BeautifulSoup((site / f"{name}.html").read_text(encoding="utf-8"), "html.parser")
        head = head or _head(soup, name)
        article = soup.select_one("article.bd-article")
        _prepare(article, name, set(names))
        title = article.find("h1").get_text().strip()
        contents.append(f'<li><a href="#{_id(name)}">{html.escape(title)}</a></li>')
        articles.append(f'<article class="bd-article" id="{_id(name)}">{article.decode_contents()}</article>')
    title = html.escape(str(repository.config["title"]))
    author = html.escape(str(repository.config.get("author", "")))
    return (
        f'<!DOCTYPE html><html lang="en" data-theme="light" data-mode="light"><head><meta charset="utf-8">'
        f'<title>{title}</title>{head}</head><body class="rebuilt-print"><main class="bd-content">'
        f'<header class="cover"><p class="title">{title}</p><p>{author}</p>'
        f'</header><nav aria-label="Contents"><h2>Contents</h2><ol>{"".join(contents)}</ol></nav>'
        f"{''.join(articles)}</main></body></html>"
    )


def _head(soup, name: str) -> str:
    """The page's styles, and MathJax, at addresses that hold at the root."""
    kept = []
    for tag in soup.head.select('link[rel="stylesheet"], style, script'):
        key = "href" if tag.name == "link" else "src"
        source = tag.get(key, "")
        if tag.name == "script" and "athjax" not in (source + tag.get_text()):
            continue
        if source:
            tag[key] = urljoin(f"/{name}.html", source)
        kept.append(str(tag))
    for tag in soup.body.select("script"):
        if "MathJax" in tag.get_text() or "athjax" in tag.get("src", ""):
            kept.append(str(tag))
    return "".join(kept)


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
    for tag in article.select("[tabindex]"):
        del tag["tabindex"]
    for key in ("href", "src"):
        for tag in article.select(f"[{key}]"):
            address, anchor = urldefrag(urljoin(f"/{name}.html", tag[key]))
            page = unquote(address).removeprefix("/").removesuffix(".html")
            if key == "href" and page in names:
                tag[key] = f"#{_id(page, anchor)}"
            elif address.startswith("/"):
                tag[key] = address


def _headings(sheet: str) -> dict[str, str]:
    """Every heading of the sheet by its letters alone: Chromium drops the space where a line of a heading ends."""
    from bs4 import BeautifulSoup

    found = BeautifulSoup(sheet, "html.parser").find_all(re.compile("^h[1-6]$"))
    return {re.sub(r"\s", "", one.get_text()): " ".join(one.get_text().split()) for one in found}


def _finish(repository: Repository, path: Path, headings: dict[str, str]) -> None:
    """Give the file its title and author, mend its outline; refuse it without its tags or a chapter in its outline."""
    from pypdf import PdfReader, PdfWriter
    from pypdf.generic import DictionaryObject, NameObject, TextStringObject

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it remarks on how Chromium counts its objects
    writer = PdfWriter(clone_from=path)
    said = {"/Title": str(repository.config["title"]), "/Author": str(repository.config.get("author", ""))}
    writer.add_metadata(said | {"/Subject": repository.url, "/Creator": "press build"})
    for number in range(1, len(writer._objects) + 1):
        item = writer.get_object(number)
        if isinstance(item, DictionaryObject) and "/Title" in item and "/Parent" in item:
            said = re.sub(r"\s", "", str(item["/Title"]))
            item[NameObject("/Title")] = TextStringObject(headings.get(said, str(item["/Title"])))
    writer.write(path)
    reader = PdfReader(path)
    titles = outline(reader)
    missing = [str(chapter) for chapter in repository.chapters if plain(chapter.card["title"]) not in titles]
    if missing or not (reader.root_object.get("/MarkInfo") or {}).get("/Marked"):
        raise PressError(f"{path.name} has no tags, or its outline lacks {missing}; is Chromium 112 or newer?")


def plain(title: str) -> str:
    """A title with straight quotes and single spaces, as the outline and a card can be compared."""
    return " ".join(title.translate(str.maketrans("“”‘’", "\"\"''")).split())


def outline(reader) -> list[str]:
    """The plain titles of a PDF's outline, of every level, in order."""

    def walk(items) -> list[str]:
        return [t for one in items for t in (walk(one) if isinstance(one, list) else [plain(str(one.title))])]

    return walk(reader.outline)
