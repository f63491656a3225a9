"""Checkpoints: a learner who comes late, or restarts, begins at any section.

Under each section's heading the notebooks for a class carry a folded cell with the earlier cells that the
section needs, and no others. It does nothing where their names are there already, so a run from the top
loses nothing. The page does not have it: its reader has run everything, or nothing.

Going backwards, a cell is needed when it binds or changes a name that what follows reads before it binds it. Not seen:
a change made by calling a method (`rows.append(…)` in a later cell than `rows = []`). So bind and change in one cell;
`press prove --sections` shows that each section starts from the cells found here.
"""

import ast
import builtins
import dis
import re
import textwrap
from functools import cache
from itertools import pairwise
from types import CodeType
from typing import NamedTuple

import nbformat

from ..errors import PressError
from ..repository import Chapter, tags

TAG = "checkpoint"
LEFT_OUT = {"setup", "parameters", "injected-parameters"}
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
BRANCHES = (ast.If, ast.While, ast.Try, ast.TryStar, ast.Match)
NOTE = "*Starting here? Run the cells down to `TIER`, then the folded cell below: it makes what this section needs.*"
CELL = """\
# Starting here: the earlier cells that this section needs. It does nothing where they have run.
if not {{{names}}} <= set(globals()):
{body}"""


class Section(NamedTuple):
    """A section: its title, the id of its heading's cell, the cells and names that it needs, its own code."""

    title: str
    heading: str
    cells: list[str]
    names: set[str]
    own: list[str]


def sections(chapter: Chapter) -> list[Section]:
    """The sections that need earlier cells, in order, by their `## ` headings; a cell with two counts as its first."""
    starts = [index for index, cell in enumerate(chapter.cells) if heading(cell)]
    found = []
    for start, end in pairwise([*starts[1:], None]):  # the first begins after the first cells anyway
        before = [c.source for c in chapter.cells[:start] if _runs(c) and not c.metadata.get("exercise")]
        own = [c.source for c in chapter.cells[start:end] if _runs(c) and not {"wrong", "stub"} & set(tags(c))]
        if names := wanted(before, own):
            cell = chapter.cells[start]
            found.append(Section(heading(cell), cell["id"], needed(before, own), names, own))
    return found


def heading(cell: nbformat.NotebookNode) -> str:
    """The title of the section that begins in a cell; "" where none does."""
    lines = cell.source.splitlines() if cell.cell_type == "markdown" else []
    return next((line[3:].strip() for line in lines if line.startswith("## ")), "")


def _runs(cell: nbformat.NotebookNode) -> bool:
    return cell.cell_type == "code" and not LEFT_OUT & set(tags(cell))


def cells(chapter: Chapter) -> dict[str, list[nbformat.NotebookNode]]:
    """The cells to put under each heading, by the id of the heading's cell: a line that says so, and the code."""
    made = {}
    for section in sections(chapter):
        folded = {"tags": [TAG], "jupyter": {"source_hidden": True}, "cellView": "form"}
        note = nbformat.v4.new_markdown_cell(NOTE, id=f"{section.heading}-late", metadata={"tags": [TAG]})
        code = nbformat.v4.new_code_cell(source(section), id=f"{section.heading}-start", metadata=folded)
        made[section.heading] = [note, code]
    return made


def source(section: Section) -> str:
    """The code of a checkpoint; PressError when a cell cannot be indented without changing it."""
    body = "\n".join(section.cells)
    indented = textwrap.indent(body, "    ")
    inside = ast.Module(ast.parse(f"if True:\n{indented}").body[0].body, [])
    if ast.dump(inside) != ast.dump(ast.parse(body)):
        raise PressError(
            f"section {section.title!r}: a cell that it needs holds a string over several lines, "
            "which a checkpoint would indent; join the lines or move the string into the slice"
        )
    return CELL.format(names=", ".join(f'"{name}"' for name in sorted(section.names)), body=indented)


def needed(cells: list[str], uses: list[str]) -> list[str]:
    """The cells, in order, that `uses` needs, directly or through one another.

    >>> needed(["import math", "a = 1", "b = math.pi + a", "c = 2"], ["c = 3", "print(b, c)"])
    ['import math', 'a = 1', 'b = math.pi + a']
    """
    kept: dict[int, str] = {}
    before, missing = None, lacking(uses)
    while missing != before:  # again: what a kept function reads may be made in a later cell
        before = missing
        for index in reversed(range(len(cells))):
            if index not in kept and made(cells[index]) & missing:
                kept[index] = cells[index]
                missing = lacking([*(kept[i] for i in sorted(kept)), *uses])
    return [kept[index] for index in sorted(kept)]


def wanted(cells: list[str], uses: list[str]) -> set[str]:
    """The names that `uses` lacks and the cells make, whatever an `if` or a `try` in them decides.

    >>> sorted(wanted(["a = 1", "b = 2"], ["b = 3", "print(a + b)"]))
    ['a']
    """
    return lacking(uses) & {name for cell in cells for name in made(cell, surely=True)}


def lacking(cells: list[str]) -> set[str]:
    """The names that the cells read before they bind them; what a function reads counts where it is defined."""
    found: set[str] = set()
    bound: set[str] = set()
    for cell in cells:
        found |= _reads(cell) - bound
        bound |= made(cell, surely=True)
    return found


@cache
def made(cell: str, *, surely: bool = False) -> set[str]:
    """The names that a cell binds or changes (`name.a[i] = …`); `surely`: whatever an `if` or a `try` decides."""
    body = [node for node in ast.parse(cell).body if not (surely and isinstance(node, BRANCHES))]
    bound = {step.argval for step in dis.get_instructions(_compiled(body)) if step.opname == "STORE_NAME"}
    inner = [one for node in body if not isinstance(node, DEFINITIONS) for one in ast.walk(node)]
    parts = [one for one in inner if isinstance(one, ast.Attribute | ast.Subscript) and isinstance(one.ctx, ast.Store)]
    return bound | {re.match(r"\w*", ast.unparse(part)).group() for part in parts}


@cache
def _reads(cell: str) -> set[str]:
    """The names that a cell reads before it binds them, in the compiler's order."""
    unsure = made(cell) - made(cell, surely=True)

    def read(code: CodeType, bound: set[str]) -> set[str]:
        found: set[str] = set()
        for step in dis.get_instructions(code):
            if isinstance(step.argval, CodeType):  # of a function, a class or a comprehension
                found |= read(step.argval, set(bound))
            elif step.opname in ("LOAD_NAME", "LOAD_GLOBAL") and step.argval not in bound:
                found.add(step.argval)
            elif step.opname == "STORE_NAME" and step.argval not in unsure:
                bound.add(step.argval)
        return found

    return read(_compiled(ast.parse(cell).body), set(dir(builtins)))


def _compiled(body: list[ast.stmt]) -> CodeType:
    return compile(ast.Module(body, []), "a cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
