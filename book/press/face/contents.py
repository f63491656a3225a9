"""The menus of a built page: parts that fold, chapters by their short titles, a chapter's sections with their minutes.

The theme writes both from the titles of pages; they are written again here, once the pages are built.
"""

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
HEADING = re.compile(r'<h2>(?:(?!</h2>).)*?(?=<a class="headerlink")', re.DOTALL)
ENTRY = re.compile(r'(<li class="toc-h2 [^"]*"><a class="[^"]*" href="#[^"]*">)(.*?)(?=</a>)', re.DOTALL)


def menu(repository: Repository) -> Callable[[str, str], str]:
    """A function from a page's name and its HTML to the HTML with the book's own menu."""
    names = {chapter.document: short(chapter) for chapter in repository.chapters}
    for page in repository.pages:
        heading, *_ = re.findall(r"^# (.+?)\s*$", page.read_text(encoding="utf-8"), re.MULTILINE) or [page.stem]
        names[f"book/{page.stem}"] = "Overview" if page.stem.startswith("part_") else heading
    home, *_ = repository.toc_files
    names[home], parts = "Welcome", repository.toc.get("parts") or []

    def written(page: str, text: str) -> str:
        made = [_list([home], names, page, " bd-sidenav__home-link")]
        for part in parts:
            files = documents(part)
            inside = joined(tag("summary", part.get("caption", "")), _list(files, names, page))
            made.append(tag("details", inside, class_="rebuilt-part", open="" if page in files else None))
        whole = tag("div", joined(*made), class_="bd-toc-item navbar-nav active")
        return MENU.sub(lambda found: f"{found[1]}{whole}{found[2]}", text, count=1)

    return written


def _list(files: list[str], names: dict[str, str], page: str, css: str = "") -> Markup:
    made = []
    for name in files:
        here = name == page
        target = "#" if here else relpath(f"{name}.html", dirname(page) or ".")
        about = {"class_": f"{'current ' * here}reference internal", "aria_current": "page" if here else None}
        link = tag("a", names.get(name, name), href=target, **about)
        made.append(tag("li", link, class_=f"toctree-l1{' current active' * here}"))
    return tag("ul", joined(*made), class_=f"nav bd-sidenav{css}")


def sections(chapter: Chapter, text: str) -> str:
    """The chapter's page with its contents numbered, each section with its minutes; a mark beyond the core path."""
    listed, marks = chapter.card.get("sections") or [], [f" {FURTHER}" * beyond for beyond in length.further(chapter)]
    lists, rest = divmod(len(ENTRY.findall(text)), max(1, len(listed)))  # the theme writes one more for print
    if rest or not lists or not listed:
        return text
    numbered = cycle(enumerate(zip(listed, marks, strict=True), 1))

    def entry(found: re.Match) -> str:
        number, (section, mark) = next(numbered)
        minutes = f'<span class="minutes">{section["minutes"]} min</span>'
        return f'{found[1]}<span class="number">{number}</span> {found[2]} {minutes}{mark}'

    time = length.of(chapter)
    core = f"core {time.core} of {time.whole} min" if time.further else f"{time.whole} min"
    text, head = ENTRY.sub(entry, text), "</i> Contents"
    text = text.replace(f"{head}\n", f'{head} <span class="minutes">{core}</span>\n', 1)
    beside = iter(marks if len(HEADING.findall(text)) == len(marks) else ())
    return HEADING.sub(lambda found: found[0] + next(beside, ""), text)
