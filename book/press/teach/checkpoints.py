"""Checkpoints: a learner who comes late, or restarts, begins at any section of a notebook for a class.

Under each heading stands a folded cell with the earlier cells that the section needs. It does nothing where their names
are there already. Going backwards, a cell is needed when it binds or changes a name that what follows reads before it
binds it. Not seen: a change made by calling a method (`rows.append(…)` in a later cell than `rows = []`). So bind and
change in one cell; `press prove --sections` shows that each section starts from the cells found here.
"""

import ast
import builtins
import dis
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from types import CodeType
from typing import NamedTuple

import nbformat

from ..errors import PressError
from ..repository import Chapter, tags

LEFT_OUT = {"setup", "parameters", "injected-parameters"}
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
BRANCHES = (ast.If, ast.While, ast.Try, ast.TryStar, ast.Match)
CELL = """\
# Starting here: the earlier cells that this section needs. It does nothing where they have run.
if not {{{names}}} <= set(globals()):
{body}"""


class Section(NamedTuple):
    """A section: title, id of its heading's cell, names that it lacks, the code that makes them, its own code."""

    title: str
    heading: str
    names: set[str]
    start: str
    own: str


def sections(chapter: Chapter) -> list[Section]:
    """The sections that need earlier cells, in order, by their `## ` headings; a cell with two counts as its first."""
    starts = [index for index, cell in enumerate(chapter.cells) if heading(cell)]
    found = []
    for start, end in pairwise([*starts[1:], None]):  # the first begins after the first cells anyway
        before = [c.source for c in chapter.cells[:start] if _runs(c) and not c.metadata.get("exercise")]
        own = [c.source for c in chapter.cells[start:end] if _runs(c) and not {"wrong", "stub"} & set(tags(c))]
        title, made_before = heading(chapter.cells[start]), [made(cell, surely=True) for cell in before]
        if names := lacking(own).intersection(set().union(*made_before)):
            code = _guarded(title, names, "\n".join(needed(before, own)))
            found.append(Section(title, chapter.cells[start]["id"], names, code, "\n".join(own)))
    return found


def heading(cell: nbformat.NotebookNode) -> str:
    """The title of the section that begins in a cell; "" where none does."""
    lines = cell.source.splitlines() if cell.cell_type == "markdown" else []
    return next((line[3:].strip() for line in lines if line.startswith("## ")), "")


def _runs(cell: nbformat.NotebookNode) -> bool:
    return cell.cell_type == "code" and not LEFT_OUT & set(tags(cell))


def _guarded(title: str, names: set[str], body: str) -> str:
    """The code of a checkpoint; PressError when a cell cannot be indented without changing it."""
    indented = textwrap.indent(body, "    ")
    inside = ast.Module(ast.parse(f"if True:\n{indented}").body[0].body, [])
    if ast.dump(inside) != ast.dump(ast.parse(body)):
        raise PressError(
            f"section {title!r}: a cell that it needs holds a string over several lines, "
            "which a checkpoint would indent; join the lines or move the string into the slice"
        )
    ordered = ", ".join(f'"{name}"' for name in sorted(names))
    return CELL.format(names=ordered, body=indented)


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


def lacking(cells: list[str]) -> set[str]:
    """The names that the cells read before they bind them; what a function reads may be bound after it."""
    found, later, bound = set(), set(), set(dir(builtins))
    for cell in cells:
        now, in_functions = _reads(cell)
        found |= now - bound
        later |= in_functions - bound
        bound |= made(cell, surely=True)
    return found | later - bound


@cache
def made(cell: str, *, surely: bool = False) -> set[str]:
    """The names that a cell binds or changes (`name.a[i] = …`); `surely`: whatever an `if` or a `try` decides."""
    body = [node for node in ast.parse(cell).body if not (surely and isinstance(node, BRANCHES))]
    bound = {step.argval for step in _steps(ast.Module(body, [])) if step.opname == "STORE_NAME"}
    inner = [one for node in body if not isinstance(node, DEFINITIONS) for one in ast.walk(node)]
    parts = [one for one in inner if isinstance(one, ast.Attribute | ast.Subscript) and isinstance(one.ctx, ast.Store)]
    return bound | {re.match(r"\w*", ast.unparse(part)).group() for part in parts}


@cache
def _reads(cell: str) -> tuple[set[str], set[str]]:
    """The names that a cell reads before it binds them, and those that its functions read."""
    found, later, bound = set(), set(), set()
    for node in ast.parse(cell).body:
        inside = set(bound)
        read = _read(_steps(ast.Module([node], [])), inside)
        (later if isinstance(node, DEFINITIONS) else found).update(read)
        bound = bound if isinstance(node, BRANCHES) else inside
    return found, later - bound


def _read(steps: Iterator[dis.Instruction], bound: set[str]) -> set[str]:
    """The names that code reads before it binds them, in the compiler's order; `bound` grows."""
    found = set()
    for step in steps:
        if isinstance(step.argval, CodeType):  # of a function, a class or a comprehension
            found |= _read(dis.get_instructions(step.argval), set(bound))
        elif step.opname in ("LOAD_NAME", "LOAD_GLOBAL") and step.argval not in bound:
            found.add(step.argval)
        elif step.opname == "STORE_NAME":
            bound.add(step.argval)
    return found


def _steps(tree: ast.Module) -> Iterator[dis.Instruction]:
    return dis.get_instructions(compile(tree, "a cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
