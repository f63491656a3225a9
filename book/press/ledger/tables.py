"""The templates of the pages that the machine writes, and what they take; `runs.html` draws findings and runs."""

import re
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup as Safe

from helpers import verdicts
from helpers.receipts import text as measured
from helpers.show import Markup, number, tag

from ..repository import Chapter, Repository, documents

UP = "../"  # the pages with markers lie in book/


def block(template: str, name: str, *values: object, **names: object) -> Markup:
    """What a macro of a template makes of the values, without empty lines: one block of Markdown. Texts are escaped,
    Markup is not; `names`: what it uses beside the pieces of this module."""
    made = getattr(_templates().get_template(template).make_module(names), name)(*values)
    return Markup("\n".join(line for line in made.splitlines() if line.strip()))


@cache
def _templates() -> Environment:
    folder, lines = FileSystemLoader(Path(__file__).resolve().parents[1]), {"trim_blocks": True, "lstrip_blocks": True}
    made = Environment(loader=folder, autoescape=True, finalize=_safe, **lines)
    made.globals |= {"measured": lambda *one: powers(measured(*one)), "number": lambda *one: powers(number(*one))}
    made.globals |= {"link": link, "told": told, "SAME": verdicts.SAME}
    made.globals |= vars(made.get_template("ledger/runs.html").module)
    made.filters["badge"] = made.globals["badge"]
    return made


def powers(text: str) -> str:
    """A text's numbers as one writes them: `2.1e-13` as 2.1 × 10⁻¹³."""
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return re.sub(r"(?<=\d)e(-?)\+?0*(\d+)", lambda found: f" × 10{(found[1] + found[2]).translate(raised)}", text)


def _safe(value: object) -> object:
    if isinstance(value, str) and "`" in value and not isinstance(value, Markup):  # words of a card or a docstring
        return Safe(re.sub("`([^`]+)`", r"<code>\1</code>", Safe.escape(value)))
    return Safe(value) if isinstance(value, Markup) else value


def html_table(caption: str, head: list, rows: list) -> Markup:
    """A table of rows of cells, the first of each its header."""
    return block("ledger/table.html", "rows", caption, head, rows)


def told(totals: dict[str, int]) -> str:
    """How many claims came out how, in words."""
    return ", ".join(f"{many} {word}" for word, many in totals.items() if many)


def link(chapter: Chapter) -> Markup:
    """A link from a page in `book/` to the chapter."""
    return tag("a", str(chapter.card.get("title", chapter)), href=f"{UP}{chapter.document}.html")


def plain(value: object) -> str:
    """A value of a receipt in words: names with their values, lists with commas, numbers with separators."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {plain(one)}" for name, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,}"
    return "not known" if value is None else str(value)


def pdf_name(repository: Repository, part: str = "") -> str:
    """The file name of the printed book or a part of it, from its title: `accelerated-systems-rebuilt-speech.pdf`."""
    return "-".join(re.findall(r"[a-z0-9]+", f"{repository.config.get('title', 'book')} {part}".lower())) + ".pdf"


def volumes(repository: Repository) -> dict[str, list]:
    """The parts of each PDF, pairs of a caption and pages: parts with chapters by their names, the others under ""."""
    parts = [(str(part.get("caption", "")), documents(part)) for part in repository.toc.get("parts") or []]
    chapters, parted = {one.document for one in repository.chapters}, {name for _, names in parts for name in names}
    own = {caption: [("", names)] for caption, names in parts if caption and chapters & {*names}}
    rest = [("", [one for one in repository.toc_files if one not in parted])]
    return {"": rest + [part for part in parts if part[0] not in own], **own}
