"""A chapter's first screen, and the labels of folded cells: what a reader sees before the first line of code."""

import ast
import re
from collections import Counter

from helpers.show import Markup

from ..repository import Chapter, Repository, tags
from .gallery import article, picture, written

FOLDED = {"setup": "Setup", "checker": "Checker", "solution": "Solution"}
SHOWN = {"parameters", "stub", "wrong"}  # a reader writes here
DRAWS = re.compile(r"plot|plt|fig|ax.*")  # names in the code of figures
STARTS = {"receipt.": "Recording", "receipts.": "Recording", "show.source(": "Source", "show.md(": "Words"}
MOSTLY = 0.6  # of its lines: a cell that draws more than it computes is a figure's


def first_screen(repository: Repository, chapter: Chapter) -> Markup:
    """The article with its address, what will be built as a picture, the question, a link to what can be touched."""
    return written("first_screen", chapter.card, article(repository, chapter), picture(chapter, "page"))


def label(cell: dict) -> str:
    """What a cell to be folded holds, such as "Setup, 13 lines"; "" for one that stands open. Folded are setup,
    checkers and solutions by their tags, and plumbing: what its metadata call so as `fold`, and by its code."""
    if cell.get("cell_type") != "code" or SHOWN & set(tags(cell)):
        return ""
    kind = next((words for name, words in FOLDED.items() if name in tags(cell)), None)
    kind = kind or cell["metadata"].get("fold") or _plumbing(cell["source"])
    count = sum(bool(line.strip()) for line in cell["source"].splitlines())
    return f"{kind}, {count} line{'s' * (count != 1)}" if kind else ""


def plumbing(cell: dict) -> bool:
    """Whether a cell has a label and is neither a reader's nor a checker's, so that the page's switch hides it."""
    return bool(label(cell)) and not FOLDED.keys() & set(tags(cell))


def _plumbing(source: str) -> str:
    """Imports, Figure, Recording, Source or Words, where a cell is that and little else; else ""."""
    try:
        body = ast.parse(source).body
    except SyntaxError:  # a magic
        return ""
    lines = Counter()
    for node in body:
        lines[_kind(node)] += node.end_lineno - node.lineno + 1
    figure = MOSTLY if "plot.show(" in source else 2.0
    least = {"Imports": MOSTLY, "Recording": 1.0, "Figure": figure, "Source": 1.0, "Words": MOSTLY}
    long = [kind for kind in least if lines.total() >= 3 or kind == "Source"]
    return next((kind for kind in long if body and lines[kind] >= least[kind] * lines.total()), "")


def _kind(node: ast.stmt) -> str:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return "Imports"
    if any(isinstance(one, ast.Name) and DRAWS.fullmatch(one.id) for one in ast.walk(node)):
        return "Figure"
    return next((kind for start, kind in STARTS.items() if ast.unparse(node).startswith(start)), "")
