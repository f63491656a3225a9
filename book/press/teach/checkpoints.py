"""Checkpoints: a learner who comes late, or restarts, begins at any section of a notebook for a class. Beside it stands
a module with the earlier cells that its sections need, each once; under each heading a cell calls its `start`. Going
backwards, a cell is needed when it binds or changes a name that what follows reads before it binds it. Not seen is a
change by a method (`rows.append(…)` in a later cell than `rows = []`): `press prove --sections` shows it."""

import ast
import builtins
import dis
import inspect
import re
from collections import namedtuple
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import CodeType

import nbformat

from ..repository import Chapter, tags

RECAP = "Recap"
LEFT_OUT = {"setup", "parameters", "injected-parameters"}
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
BRANCHES = (ast.If, ast.While, ast.Try, ast.TryStar, ast.Match)
CALL = """\
# Starting here? Run the cells down to TIER, then this one: it makes what the section needs, or does nothing.
from start_here_{stem} import start
{wait}start({title!r})"""
MODULE = Path(__file__).with_name("start_here.py.txt").read_text(encoding="utf-8")


Section = namedtuple("Section", "title names start own")  # the names that it lacks, cells that make them, its own code


def sections(chapter: Chapter) -> list[Section]:
    """The sections that need earlier cells, in order, by their `## ` headings; a cell with two counts as its first."""
    starts = [index for index, cell in enumerate(chapter.cells) if heading(cell)]
    found = []
    for start, end in pairwise([*starts[1:], None]):  # the first begins after the first cells anyway
        before = [c.source for c in chapter.cells[:start] if _runs(c) and not c.metadata.get("exercise")]
        own = [c.source for c in chapter.cells[start:end] if _runs(c) and not {"wrong", "stub"} & set(tags(c))]
        due = chapter.cells if heading(chapter.cells[start]) == RECAP else chapter.cells[start:end]
        own += ["receipt"] * any(cell.metadata.get("act", {}).get("metric") for cell in due)  # guesses stand beside it
        title, made_before = heading(chapter.cells[start]), [made(cell, surely=True) for cell in before]
        if names := lacking(own).intersection(set().union(*made_before)):
            found.append(Section(title, names, needed(before, own), "\n".join(own)))
    return found


def module(chapter: Chapter) -> tuple[str, dict[str, str]]:
    """The text of `start_here_<stem>.py`, and the cells that call it by the titles of their sections."""
    found, source = sections(chapter), [cell.source for cell in chapter.cells]
    cells = sorted({cell for one in found for cell in one.start}, key=source.index)
    wait = "await " * any(_code(ast.parse(cell)).co_flags & inspect.CO_COROUTINE for cell in cells)  # one that awaits
    quoted = [repr(cell) if '"""' in cell else f'r"""\n{cell}\n"""' for cell in cells]
    needs = {one.title: (sorted(one.names), [cells.index(cell) for cell in one.start]) for one in found}
    text = MODULE.format(
        stem=chapter.stem,
        sections="\n".join(f"    {title!r}: {both}," for title, both in needs.items()),
        cells="\n".join(f"    {cell},  # {place}" for place, cell in enumerate(quoted)),
        kind="async def" if wait else "def",
        then="        if ran:\n            await ran\n" if wait else "",
    )
    return text, {title: CALL.format(stem=chapter.stem, wait=wait, title=title) for title in needs}


def heading(cell: nbformat.NotebookNode) -> str:
    """The title of the section that begins in a cell; "" where none does."""
    lines = cell.source.splitlines() if cell.cell_type == "markdown" else []
    return next((line[3:].strip() for line in lines if line.startswith("## ")), "")


def _runs(cell: nbformat.NotebookNode) -> bool:
    return cell.cell_type == "code" and not LEFT_OUT & set(tags(cell))


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
    steps = dis.get_instructions(_code(ast.Module(body, [])))
    bound = {step.argval for step in steps if step.opname == "STORE_NAME"}
    inner = [one for node in body if not isinstance(node, DEFINITIONS) for one in ast.walk(node)]
    parts = [one for one in inner if isinstance(one, ast.Attribute | ast.Subscript) and isinstance(one.ctx, ast.Store)]
    return bound | {re.match(r"\w*", ast.unparse(part)).group() for part in parts}


@cache
def _reads(cell: str) -> tuple[set[str], set[str]]:
    """The names that a cell reads before it binds them, and those that its functions read."""
    found, later, bound = set(), set(), set()
    for node in ast.parse(cell).body:
        inside = set(bound)
        read = _read(dis.get_instructions(_code(ast.Module([node], []))), inside)
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


def _code(tree: ast.Module) -> CodeType:
    return compile(tree, "a cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
