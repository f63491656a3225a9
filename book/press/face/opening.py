"""A chapter's first screen, and the labels of folded cells: what a reader sees before the first line of code."""

import ast
import re
from collections import Counter

from helpers.show import Markup, tag

from ..ledger import Entry
from ..ledger.tables import badge, defined, joined
from ..repository import tags
from ..teach import length
from .gallery import dots, hardware, picture

FOLDED = {"setup": "Setup", "checker": "Checker", "solution": "Solution"}
SHOWN = {"parameters", "stub", "wrong"}  # a reader writes here
DRAWS = re.compile(r"plot|plt|fig|ax.*")  # names in the code of figures
MOSTLY = 0.6  # of its lines: a cell that draws more than it computes is a figure's


def first_screen(entry: Entry, inside: str = "") -> str:
    """What will be built as a picture, the question, and what it asks of a reader; `inside` follows."""
    card, image = entry.chapter.card, picture(entry.chapter, "page")
    asked = tag("p", str(card.get("question") or card.get("summary", "")), class_="question")
    told = tag("div", joined(asked, _facts(entry), Markup(inside)), class_="told")
    return tag("div", joined(tag("figure", image) if image else "", told), class_="rebuilt-first")


def _facts(entry: Entry) -> Markup:
    time = length.of(entry.chapter)
    read = f"{time.core} min on the core path, {time.further} min further, " if time.further else f"{time.core} min, "
    live = ", a live model in the page" if entry.chapter.card.get("live") else ""
    told = {"Your time": f"{read}and {time.exercises} min of exercises", "Hardware": hardware(entry.chapter) + live}
    judged = [joined(str(many), " ", badge(verdict)) for verdict, many in entry.totals.items() if many]
    if judged:
        told["Claims"] = joined(dots(entry.totals), tag("p", joined(*judged, between=" "), class_="judged"))
    return defined(told)


def label(cell: dict) -> str:
    """What a cell to be folded holds, such as "Setup, 13 lines"; "" for one that stands open.

    Folded are setup, checkers and solutions by their tags; by the name that their metadata gives as `fold`; and by
    their code: imports, figures, and what is only recorded.
    """
    if cell.get("cell_type") != "code" or SHOWN & set(tags(cell)):
        return ""
    kind = next((words for name, words in FOLDED.items() if name in tags(cell)), None)
    kind = kind or cell["metadata"].get("fold") or _plumbing(cell["source"])
    count = sum(bool(line.strip()) for line in cell["source"].splitlines())
    return f"{kind}, {count} line{'s' * (count != 1)}" if kind else ""


def _plumbing(source: str) -> str:
    """Imports, Figure or Recording, where a cell is that and little else; else ""."""
    try:
        body = ast.parse(source).body
    except SyntaxError:  # a magic
        return ""
    lines = Counter()
    for node in body:
        lines[_kind(node)] += node.end_lineno - node.lineno + 1
    least = {"Imports": MOSTLY, "Recording": 1.0, "Figure": MOSTLY if "plot.show(" in source else 2.0}
    whole = lines.total()
    return next((kind for kind, share in least.items() if whole >= 3 and lines[kind] >= share * whole), "")


def _kind(node: ast.stmt) -> str:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return "Imports"
    if any(isinstance(one, ast.Name) and DRAWS.fullmatch(one.id) for one in ast.walk(node)):
        return "Figure"
    return "Recording" if isinstance(node, ast.Expr) and re.match(r"receipts?\.", ast.unparse(node)) else ""
