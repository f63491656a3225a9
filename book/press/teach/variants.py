"""One source notebook, four notebooks: the book's page, and for a class the student's, the solution's and the
instructor's. The page is made by `run`; the other three are made here, from tags and the card alone.

- student: stubs, hints and checkers, and after each stub the call that says what is still missing
- solution: the solutions instead of the stubs
- instructor: the solutions, minutes for every section and exercise, and the common wrong answers with what
  the checker says to them; cells tagged `instructor` hold notes that nobody else sees

Each section of all three begins with a checkpoint (see `checkpoints`). Cells tagged `talk` are for slides alone.
"""

import copy
from pathlib import Path

import nbformat

from ..files import write_bytes
from ..repository import Chapter, tags
from . import checkpoints

KINDS = ("student", "solution", "instructor")
HIDDEN = {
    "student": {"solution", "wrong", "instructor", "talk"},
    "solution": {"stub", "wrong", "instructor", "talk"},
    "instructor": {"stub", "talk"},
}


def write(chapter: Chapter, folder: Path) -> list[Path]:
    """The paths of the three notebooks, written whole into the folder; the same bytes for the same source."""
    written, late = [], checkpoints.cells(chapter)
    for kind in KINDS:
        path = folder / f"{chapter.stem}.{kind}.ipynb"
        text = nbformat.writes(variant(chapter, kind, late)) + "\n"
        write_bytes(path, text.encode("utf-8"))
        written.append(path)
    return written


def variant(chapter: Chapter, kind: str, late: dict[str, list] | None = None) -> nbformat.NotebookNode:
    """The notebook of one kind, without outputs; ValueError for a kind that is none of `KINDS`.

    `late` are the chapter's checkpoints, where somebody has them already.
    """
    if kind not in KINDS:
        raise ValueError(f"no variant {kind!r}; there are {', '.join(KINDS)}")
    source = copy.deepcopy(chapter.content)
    late = checkpoints.cells(chapter) if late is None else late
    cells = []
    for cell in source.cells:
        if not HIDDEN[kind] & set(tags(cell)):
            cells += [*_shown(chapter, kind, cell), *late.get(cell["id"], [])]
    source.cells = cells
    source.metadata["rebuilt"] = {"chapter": str(chapter), "variant": kind}
    return source


def _shown(chapter: Chapter, kind: str, cell: nbformat.NotebookNode) -> list:
    if cell.cell_type == "code":
        cell.outputs, cell.execution_count = [], None
    if kind == "student" and "stub" in tags(cell):
        return [cell, _call(chapter, cell)]
    if kind == "instructor":
        if "wrong" in tags(cell):
            return [_wrong(cell)]
        if cell.cell_type == "markdown":
            return [cell, *_minutes(chapter, cell)]
    return [cell]


def _call(chapter: Chapter, stub: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The cell that checks the student's answer; it stops with a hint until the answer is right."""
    from .proofs import defined

    about = stub.metadata["exercise"]
    checker = next(c for c in chapter.cells if "checker" in tags(c) and c.metadata["exercise"]["id"] == about["id"])
    source = f"# Run this when you have an answer; it says what is still missing.\n{defined(checker.source)}"
    made = nbformat.v4.new_code_cell(f"{source}({defined(stub.source)})", metadata={"tags": ["raises-exception"]})
    made["id"] = f"{stub['id']}-check"
    return made


def _wrong(cell: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """A wrong answer as text, with the words of the checker."""
    said = cell.metadata["exercise"]["message"]
    text = f"**A common wrong answer.** The checker says: “… {said} …”\n\n```python\n{cell.source}\n```"
    made = nbformat.v4.new_markdown_cell(text)
    made["id"] = cell["id"]
    return made


def _minutes(chapter: Chapter, cell: nbformat.NotebookNode) -> list:
    """The planned minutes below a section's heading or an exercise's task."""
    planned = {section["title"]: section["minutes"] for section in chapter.card["sections"]}
    lines = cell.source.splitlines()
    found = [f"{title}, {minutes} min" for title, minutes in planned.items() if f"## {title}" in lines]
    if "exercise" in tags(cell):
        found = [f"{cell.metadata['exercise']['minutes']} min, {cell.metadata['exercise']['kind']}"]
    if not found:
        return []
    made = nbformat.v4.new_markdown_cell(f"*Instructor: {'; '.join(found)}*")
    made["id"] = f"{cell['id']}-plan"
    return [made]
