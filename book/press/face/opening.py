"""A chapter's first screen, and the labels of folded cells: what a reader sees before the first line of code."""

import ast

from helpers.show import Markup, tag

from ..ledger import Entry
from ..ledger.tables import badge, joined
from ..repository import tags
from ..teach import length
from .gallery import HARDWARE, dots
from .pictures import picture

FOLDED = {"setup": "Setup", "checker": "Checker", "solution": "Solution"}
SHOWN = {"parameters", "stub", "wrong"}  # a reader writes here
DRAWS = ("plot", "plt", "fig", "ax")
MOSTLY = 0.6  # of its lines: a cell that draws more than it computes is a figure's


def first_screen(entry: Entry, *inside: str) -> str:
    """What will be built as a picture, the question, and what it asks of a reader; `inside` follows the question."""
    chapter = entry.chapter
    drawn = picture(chapter)
    asked = tag("p", str(chapter.card.get("question") or chapter.card.get("summary", "")), class_="question")
    shown = tag("figure", drawn.image("page", fetchpriority="high")) if drawn else Markup()
    own = tag("div", joined(asked, _facts(entry), *map(Markup, inside)), class_="told")
    return tag("div", joined(shown, own), class_="rebuilt-first")


def _facts(entry: Entry) -> Markup:
    """Minutes, hardware and verdicts in a line each."""
    card = entry.chapter.card
    time = length.of(entry.chapter)
    hardware = HARDWARE.get((card.get("needs") or {}).get("gpu"), "GPU optional")
    read = f"{time.core} min{' on the core path' * bool(time.further)}, "
    read += f"{time.further} min further, " * bool(time.further) + f"and {time.exercises} min of exercises"
    told = {"Your time": read, "Hardware": f"{hardware}{', a live model in the page' * bool(card.get('live'))}"}
    rows = [tag("div", joined(tag("dt", name), tag("dd", words))) for name, words in told.items()]
    judged = [joined(str(many), " ", badge(verdict)) for verdict, many in entry.totals.items() if many]
    if judged:
        found = joined(dots(entry.totals), tag("p", joined(*judged, between=" "), class_="judged"))
        rows.append(tag("div", joined(tag("dt", "Claims"), tag("dd", found))))
    return tag("dl", joined(*rows))


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
    """Imports, Figure or Recording, where a cell is that and nothing else; else ""."""
    try:
        body = ast.parse(source).body
    except SyntaxError:  # a magic
        return ""
    kinds = [(_kind(node), node.end_lineno - node.lineno + 1) for node in body]
    whole = sum(lines for _, lines in kinds)
    share = {kind: sum(lines for one, lines in kinds if one == kind) for kind, _ in kinds}
    if whole < 3:
        return ""
    if share.get("Imports", 0) >= MOSTLY * whole:
        return "Imports"
    if share.get("Recording", 0) == whole:
        return "Recording"
    if share.get("Figure", 0) >= MOSTLY * whole and "plot.show(" in source:
        return "Figure"
    return ""


def _kind(node: ast.stmt) -> str:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return "Imports"
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    if any(name == start or (start == "ax" and name.startswith("ax")) for name in names for start in DRAWS):
        return "Figure"
    call = node.value if isinstance(node, ast.Expr) else None
    root = getattr(call, "func", None)
    while isinstance(root, ast.Attribute | ast.Call):
        root = root.value if isinstance(root, ast.Attribute) else root.func
    return "Recording" if isinstance(root, ast.Name) and root.id in ("receipt", "receipts") else ""
