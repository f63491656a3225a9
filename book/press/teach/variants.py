"""One source notebook, four notebooks: the book's page, and for a class the student's, the solution's and the
instructor's. The page is made by `run`; the other three are made here, from tags and the card alone.

- student (which the book's buttons open): stubs, hints, checkers, a call of each on the learner's own function
- solution: the solutions instead of the stubs
- instructor: solutions, minutes, plausible wrong answers with what the checker says to them, cells tagged `instructor`

Each section of all three begins with a call of the module beside them (see `checkpoints`)."""

import ast
import copy
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell

from ..files import write_text
from ..repository import Chapter, tags
from . import acts, checkpoints

HIDDEN = {
    "student": {"wrong", "instructor", "talk"},
    "solution": {"stub", "wrong", "instructor", "talk"},
    "instructor": {"stub", "talk"},
}
KINDS = tuple(HIDDEN)
LATE, TRIED = "checkpoint", "try"
TRY = Path(__file__).with_name("try.py.txt").read_text(encoding="utf-8").rstrip()


def write(chapter: Chapter, folder: Path) -> list[Path]:
    """The paths of the three notebooks and of their module, written whole; the same bytes for the same source."""
    made = {f"{chapter.stem}.{kind}.ipynb": nbformat.writes(variant(chapter, kind)) + "\n" for kind in KINDS}
    made[f"start_here_{chapter.stem}.py"] = module(chapter)
    return [write_text(folder / name, text) for name, text in made.items()]


def module(chapter: Chapter) -> str:
    """The text of the module beside the notebooks: how sections start, and the acts."""
    return checkpoints.module(chapter)[0] + acts.module(chapter)


def variant(chapter: Chapter, kind: str) -> nbformat.NotebookNode:
    """The notebook of one of the `KINDS`, without outputs."""
    made = copy.deepcopy(chapter.content)
    _, late = checkpoints.module(chapter)
    ends = acts.compared(made.cells, chapter.stem) if kind == "student" else {}
    cells = []
    for cell in made.cells:
        if not HIDDEN[kind] & set(tags(cell)):
            cells += _shown(chapter, kind, cell)
        if call := late.get(checkpoints.heading(cell)):
            cells.append(new_code_cell(call, id=f"{cell['id']}-start", metadata={"tags": [LATE]}))
        cells += ends.get(cell["id"], [])
    made.cells = cells
    made.metadata["rebuilt"] = {"chapter": str(chapter), "variant": kind}
    return made


def aims(chapter: Chapter) -> str:
    """What a reader can do afterwards and should know before, to end the opening cell; "" where that says it itself."""
    card, own = chapter.card, chapter.cells[0].source
    if "**Afterwards you can**" in own or "**You should know**" in own:
        return ""
    can = "".join(f"\n- {aim}" for aim in card["objectives"])
    *first, last = card["prerequisites"]
    known = f"{', '.join(first)}{',' * (' and ' in last)} and {last}" if first else last
    return f"\n\n**Afterwards you can**\n{can}\n\n**You should know** {known}."


def _shown(chapter: Chapter, kind: str, cell: nbformat.NotebookNode) -> list:
    about, name = cell.metadata.get("exercise", {}), cell["id"]
    if cell.cell_type == "code":
        cell.outputs, cell.execution_count = [], None
    if "opening" in tags(cell):
        needs = "\n\n**You need** {memory_gb} GB of memory and {disk_mb} MB of disk; a GPU: {gpu}."
        cell.source += aims(chapter) + needs.format(**chapter.card["needs"])
    if kind == "student" and "act" in tags(cell):
        return acts.tried(cell, chapter.stem)
    if kind == "student" and "solution" in tags(cell):
        own = exercises(chapter.cells)[about["id"]]
        call = TRY.format(check=defined(own["checker"][0].source), function=defined(own["stub"][0].source))
        return [new_code_cell(call, id=f"{name}-try", metadata={"tags": [TRIED]})]
    if kind == "instructor" and "wrong" in tags(cell):
        said = f"**A plausible wrong answer.** The checker says: “… {about['message']} …”"
        return [new_markdown_cell(f"{said}\n\n```python\n{cell.source}\n```", id=name)]
    if kind == "instructor" and cell.cell_type == "markdown" and (planned := _minutes(chapter, cell)):
        return [cell, new_markdown_cell(f"*Instructor: {planned}*", id=f"{name}-plan")]
    return [cell]


def exercises(cells: Iterable[nbformat.NotebookNode]) -> dict[str, dict[str, list[nbformat.NotebookNode]]]:
    """The cells of each exercise by their tags, by its id."""
    found = defaultdict(lambda: defaultdict(list))
    for cell in [cell for cell in cells if cell.metadata.get("exercise")]:
        for tag in tags(cell):
            found[cell.metadata["exercise"]["id"]][tag].append(cell)
    return found


def _minutes(chapter: Chapter, cell: nbformat.NotebookNode) -> str:
    """The planned minutes of an exercise's task or an act, or of the sections whose headings stand in the cell."""
    for tag in {"exercise", "act"} & {*tags(cell)}:
        return "{minutes} min, {kind}".format(**cell.metadata[tag])
    begun = [one for one in chapter.card["sections"] if f"## {one['title']}" in cell.source.splitlines()]
    return "; ".join(f"{one['title']}, {one['minutes']} min" for one in begun)


def defined(source: str) -> str:
    """The name of the last function that a cell defines."""
    return [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)][-1]
