"""Checkpoints: a learner who comes late, or restarts, begins at any section.

Under each section's heading the notebooks for a class carry a folded cell with the earlier cells that the
section needs, and no others. It does nothing where their names are there already, so a run from the top
loses nothing. The page does not have it: its reader has run everything, or nothing.
"""

import ast
import textwrap
from typing import NamedTuple

import nbformat

from ..errors import PressError
from ..repository import Chapter, tags
from .dependencies import needed, wanted

TAG = "checkpoint"
LEFT_OUT = {"setup", "parameters", "injected-parameters"}
NOTE = "*Starting here? Run the cells down to `TIER`, then the folded cell below: it makes what this section needs.*"
CELL = """\
# Starting here: the earlier cells that this section needs. It does nothing where they have run.
if not {names} <= set(globals()):
{body}"""


class Section(NamedTuple):
    """A section: its title, the index of its heading's cell, what it needs, the names it wants, its own code."""

    title: str
    index: int
    cells: list[str]
    names: set[str]
    own: list[str]


def sections(chapter: Chapter) -> list[Section]:
    """The chapter's sections in order, by their `## ` headings; a cell with two headings counts as its first."""
    cells = chapter.cells
    starts = [(i, cell) for i, cell in enumerate(cells) if cell.cell_type == "markdown" and _heading(cell.source)]
    ends = [index for index, _ in starts[1:]] + [len(cells)]
    found = []
    for (index, cell), end in zip(starts, ends, strict=True):
        plain = [c.source for c in cells[:index] if _code(c) and not c.metadata.get("exercise")]
        own = [c.source for c in cells[index:end] if _code(c) and not {"wrong", "stub"} & set(tags(c))]
        found.append(Section(_heading(cell.source), index, needed(plain, own), wanted(plain, own), own))
    return found


def _heading(source: str) -> str:
    return next((line[3:].strip() for line in source.splitlines() if line.startswith("## ")), "")


def _code(cell: nbformat.NotebookNode) -> bool:
    return cell.cell_type == "code" and not LEFT_OUT & set(tags(cell))


def cells(chapter: Chapter) -> dict[str, list[nbformat.NotebookNode]]:
    """The cells to put under each heading, by the id of the heading's cell: a line that says so, and the code."""
    made = {}
    for section in sections(chapter)[1:]:  # the first begins after the first cells anyway
        if not section.names:
            continue
        heading = chapter.cells[section.index]["id"]
        note = nbformat.v4.new_markdown_cell(NOTE, metadata={"tags": [TAG]})
        code = nbformat.v4.new_code_cell(
            source(section), metadata={"tags": [TAG], "jupyter": {"source_hidden": True}, "cellView": "form"}
        )
        note["id"], code["id"] = f"{heading}-late", f"{heading}-start"
        made[heading] = [note, code]
    return made


def source(section: Section) -> str:
    """The code of a checkpoint; PressError when a cell cannot be indented without changing it."""
    body = "\n".join(section.cells)
    indented = textwrap.indent(body, "    ")
    inside = ast.parse(f"if True:\n{indented}").body[0].body
    if ast.dump(ast.Module(inside, [])) != ast.dump(ast.Module(ast.parse(body).body, [])):
        raise PressError(
            f"section {section.title!r}: a cell that it needs holds a string over several lines, "
            "which a checkpoint would indent; join the lines or move the string into the slice"
        )
    names = ", ".join(f'"{name}"' for name in sorted(section.names))
    return CELL.format(names=f"{{{names}}}", body=indented)
