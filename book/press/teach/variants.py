"""One source notebook, four notebooks: the book's page, and for a class the student's, the solution's and the
instructor's. The page is made by `run`; the other three are made here, from tags and the card alone.

- student: stubs, hints and checkers, and after each stub the call that says what is still missing
- solution: the solutions instead of the stubs
- instructor: solutions, minutes, the common wrong answers with what the checker says to them, cells tagged `instructor`

Each section of all three begins with a checkpoint (see `checkpoints`). Cells tagged `talk` are for slides alone.
"""

import ast
import copy
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell

from ..files import write_text
from ..repository import Chapter, tags
from . import checkpoints

HIDDEN = {
    "student": {"solution", "wrong", "instructor", "talk"},
    "solution": {"stub", "wrong", "instructor", "talk"},
    "instructor": {"stub", "talk"},
}
KINDS = tuple(HIDDEN)
LATE = "checkpoint"
NOTE = "*Starting here? Run the cells down to `TIER`, then the folded cell below: it makes what this section needs.*"


def write(chapter: Chapter, folder: Path) -> list[Path]:
    """The paths of the three notebooks, written whole into the folder; the same bytes for the same source."""
    made = {folder / f"{chapter.stem}.{kind}.ipynb": variant(chapter, kind) for kind in KINDS}
    return [write_text(path, nbformat.writes(notebook) + "\n") for path, notebook in made.items()]


def variant(chapter: Chapter, kind: str) -> nbformat.NotebookNode:
    """The notebook of one of the `KINDS`, without outputs."""
    made = copy.deepcopy(chapter.content)
    late = {section.heading: section.start for section in checkpoints.sections(chapter)}
    cells = []
    for cell in made.cells:
        if not HIDDEN[kind] & set(tags(cell)):
            cells += _shown(chapter, kind, cell)
        if start := late.get(cell["id"]):
            folded = {"tags": [LATE], "jupyter": {"source_hidden": True}, "cellView": "form"}
            cells += [
                new_markdown_cell(NOTE, id=f"{cell['id']}-late", metadata={"tags": [LATE]}),
                new_code_cell(start, id=f"{cell['id']}-start", metadata=folded),
            ]
    made.cells = cells
    made.metadata["rebuilt"] = {"chapter": str(chapter), "variant": kind}
    return made


def _shown(chapter: Chapter, kind: str, cell: nbformat.NotebookNode) -> list:
    """What one of these notebooks shows in the place of a cell."""
    about, name = cell.metadata.get("exercise", {}), cell["id"]
    if cell.cell_type == "code":
        cell.outputs, cell.execution_count = [], None
    if kind == "student" and "stub" in tags(cell):
        checkers = [one for one in chapter.cells if "checker" in tags(one)]
        checker = next(one.source for one in checkers if one.metadata["exercise"]["id"] == about["id"])
        call = f"# Run this when you have an answer; it says what is still missing.\n{defined(checker)}"
        again = {"tags": ["raises-exception"]}
        return [cell, new_code_cell(f"{call}({defined(cell.source)})", id=f"{name}-check", metadata=again)]
    if kind == "instructor" and "wrong" in tags(cell):
        said = f"**A common wrong answer.** The checker says: “… {about['message']} …”"
        return [new_markdown_cell(f"{said}\n\n```python\n{cell.source}\n```", id=name)]
    if kind == "instructor" and cell.cell_type == "markdown" and (planned := _minutes(chapter, cell)):
        return [cell, new_markdown_cell(f"*Instructor: {planned}*", id=f"{name}-plan")]
    return [cell]


def _minutes(chapter: Chapter, cell: nbformat.NotebookNode) -> str:
    """The planned minutes of an exercise's task, or of the sections whose headings stand in the cell."""
    if "exercise" in tags(cell):
        return "{minutes} min, {kind}".format(**cell.metadata["exercise"])
    begun = [one for one in chapter.card["sections"] if f"## {one['title']}" in cell.source.splitlines()]
    return "; ".join(f"{one['title']}, {one['minutes']} min" for one in begun)


def defined(source: str) -> str:
    """The name of the last function that a cell defines."""
    return [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)][-1]
