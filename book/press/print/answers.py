"""Hints and solutions at the end of the printed book, so that nobody reads one above the own attempt."""

import html

HINT = "Hint"
TITLE = "Hints and solutions"
ANCHOR = "hints-and-solutions"


def moved(article: object, title: str, prefix: str) -> str:
    """The hints and solutions of an article as HTML, under its title; the article is changed in place.

    At each exercise a link leads to them. `prefix` keeps the anchors of two articles apart. "" where there are none.
    """
    found = []
    for section in article.select("section"):
        own = [one for one in section.find_all("details", recursive=False) if _is_hint(one)]
        own += section.find_all("div", class_="tag_solution", recursive=False)
        if not own:
            continue
        anchor = f"{prefix}--answers-{len(found) + 1}"
        words = f'<p>Two hints and a solution stand <a href="#{anchor}">at the end of the book</a>.</p>'
        own[0].insert_before(_parsed(words))
        heading = section.find(["h2", "h3", "h4"])
        name = html.escape(heading.get_text().strip()) if heading else ""
        found.append(f'<h3 id="{anchor}">{name}</h3>{"".join(str(one.extract()) for one in own)}')
    return f"<section><h2>{html.escape(title)}</h2>{''.join(found)}</section>" if found else ""


def _is_hint(details: object) -> bool:
    return details.summary is not None and details.summary.get_text().strip().startswith(HINT)


def _parsed(text: str) -> object:
    from bs4 import BeautifulSoup

    return BeautifulSoup(text, "html.parser").p


def chapter(parts: list[str]) -> str:
    """The last chapter of the book, of what `moved` took out of each article; "" where there is nothing."""
    inside = "".join(parts)
    if not inside:
        return ""
    return f'<article class="bd-article" id="{ANCHOR}"><h1>{TITLE}</h1>{inside}</article>'
