"""The menus of a built page: parts that fold, chapters by their short titles, a chapter's sections with their minutes.

The theme writes both from the titles of pages; they are written again here, once the pages are built.
"""

import html
import re
from collections.abc import Callable
from itertools import cycle
from posixpath import dirname, relpath

from helpers.show import Markup, tag

from ..ledger.tables import joined
from ..repository import Chapter, Repository, documents
from ..teach import length
from .gallery import short

MENU = re.compile(r'(<nav class="bd-links bd-docs-nav"[^>]*>).*?(</nav>)', re.DOTALL)
FURTHER = '<span class="rebuilt-further">Further</span>'
HEADING = re.compile(r'(<h2>)((?:(?!</h2>).)*?)(<a class="headerlink")', re.DOTALL)
SECTION = re.compile(r'(<li class="toc-h2 [^"]*"><a class="[^"]*" href="#[^"]*">)(.*?)(</a>)', re.DOTALL)


def menu(repository: Repository) -> Callable[[str, str], str]:
    """A function from a page's name and its HTML to the HTML with the book's own menu."""
    names = _names(repository)
    home, *_ = repository.toc_files
    parts = [(str(part.get("caption", "")), documents(part)) for part in repository.toc.get("parts") or []]

    def written(page: str, text: str) -> str:
        own = _list([(home, "Welcome")], page, "nav bd-sidenav bd-sidenav__home-link")
        folds = [_part(caption, files, names, page) for caption, files in parts]
        made = tag("div", joined(own, *folds), class_="bd-toc-item navbar-nav active")
        return MENU.sub(lambda found: f"{found[1]}{made}{found[2]}", text, count=1)

    return written


def _names(repository: Repository) -> dict[str, str]:
    """What a menu calls each page: a chapter's short title, or a page's first heading."""
    found = {chapter.document: short(chapter) for chapter in repository.chapters}
    for page in repository.pages:
        heading = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        found[f"book/{page.stem}"] = heading[1].strip() if heading else page.stem
    return found


def _part(caption: str, files: list[str], names: dict[str, str], page: str) -> Markup:
    """A part that folds; the one with the page in it stands open."""
    links = [(name, "Overview" if name.startswith("book/part_") else names.get(name, name)) for name in files]
    inside = joined(tag("summary", caption), _list(links, page, "nav bd-sidenav"))
    return tag("details", inside, class_="rebuilt-part", open="" if page in files else None)


def _list(links: list[tuple[str, str]], page: str, css: str) -> Markup:
    made = []
    for name, words in links:
        here = name == page
        target = "#" if here else relpath(f"{name}.html", dirname(page) or ".")
        about = {"href": target, "aria_current": "page" if here else None}
        link = tag("a", words, class_=f"{'current ' * here}reference internal", **about)
        made.append(tag("li", link, class_=f"toctree-l1{' current active' * here}"))
    return tag("ul", joined(*made), class_=css)


def sections(chapter: Chapter, text: str) -> str:
    """The chapter's page with its contents numbered, each section with its minutes."""
    listed = chapter.card.get("sections") or []
    planned = list(zip([section["minutes"] for section in listed], length.further(chapter), strict=True))
    lists, rest = divmod(len(SECTION.findall(text)), max(1, len(planned)))  # the theme writes one more for print
    if rest or not lists or not planned:
        return text
    numbered = cycle(enumerate(planned, 1))

    def entry(found: re.Match) -> str:
        number, (took, beyond) = next(numbered)
        words = f'<span class="number">{number}</span> {found[2]} <span class="minutes">{took} min</span>'
        words += f" {FURTHER}" * beyond
        return f"{found[1]}{words}{found[3]}"

    time = length.of(chapter)
    core = f"core {time.core} of {time.whole} min" if time.further else f"{time.whole} min"
    text = SECTION.sub(entry, text).replace(
        "</i> Contents\n", f'</i> Contents <span class="minutes">{core}</span>\n', 1
    )
    return _marked(text, [section["title"] for section in listed if section.get("further")])


def _marked(text: str, titles: list[str]) -> str:
    """The page with a mark at the headings of the sections beyond the core path."""
    wanted = {" ".join(title.split()) for title in titles}

    def heading(found: re.Match) -> str:
        plain = " ".join(html.unescape(re.sub(r"<[^>]*>", "", found[2])).split())
        return f"{found[1]}{found[2]} {FURTHER}{found[3]}" if straight(plain) in wanted else found.group()

    wanted = {straight(title) for title in wanted}
    return HEADING.sub(heading, text) if wanted else text


def straight(title: str) -> str:
    """A title with straight quotes, as a card has them and a page has not."""
    return title.translate(str.maketrans("“”‘’", "\"\"''"))
