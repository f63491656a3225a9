"""A chapter's first screen, and the labels of folded cells: what a reader sees before the first line of code."""

import ast
import re
from collections import Counter

from helpers.show import Markup

from ..ledger import Entry
from ..repository import tags
from ..teach import length
from .gallery import picture, written

FOLDED = {"setup": "Setup", "checker": "Checker", "solution": "Solution"}
SHOWN = {"parameters", "stub", "wrong"}  # a reader writes here
DRAWS = re.compile(r"plot|plt|fig|ax.*")  # names in the code of figures
MOSTLY = 0.6  # of its lines: a cell that draws more than it computes is a figure's


def first_screen(entry: Entry, inside: str = "") -> Markup:
    """What will be built as a picture, the question, and what it asks of a reader; `inside` follows."""
    image, time = picture(entry.chapter, "page"), length.of(entry.chapter)
    return written("first_screen", entry, image, time, Markup(inside))


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
