"""Gates on the notebook file: outputs, the standard cells, cell length, no second definition."""

import ast
import re
import statistics
from collections.abc import Iterator

import nbformat

from ...colab import setup_cell
from ...files import write_text
from ...repository import Chapter, Repository, read_notebook, tags
from .. import Problem, gate
from ..python import definitions, parse, parse_file

LONGEST, MEDIAN = 30, 8
FORMAT = (4, 5)


@gate(
    "outputs",
    "notebooks carry no outputs and no execution counts",
    why="an output in git is a measurement that nobody can trace, and it makes every diff unreadable",
    mend="`.venv/bin/python book/press check --fix` empties them",
)
def outputs(repository: Repository) -> Iterator[Problem]:
    """Cells with outputs or an execution count."""
    for chapter in repository.chapters:
        where = repository.relative(chapter.notebook)
        for index, cell in enumerate(chapter.cells):
            held = [name for name in ("outputs", "execution_count") if cell.get(name)]
            held += [name for name in ("execution", "papermill") if name in cell.metadata]
            if held:
                yield Problem(where, f"holds {' and '.join(held)}; none is allowed", index)


@gate(
    "opening",
    "notebooks start with the standard opening, setup and parameters cells",
    why="the setup cell must be the tested one, and papermill needs the parameters cell to choose a tier",
    mend="`.venv/bin/python book/press check --fix` rewrites the setup cell and the kernel; the rest is yours",
)
def opening(repository: Repository) -> Iterator[Problem]:
    """Breaches of the order opening, setup, parameters, and of the file format."""
    for chapter in repository.chapters:
        where = repository.relative(chapter.notebook)
        for index, what in _opening(repository, chapter):
            yield Problem(where, what, index)


def _opening(repository: Repository, chapter: Chapter) -> Iterator[tuple[int | None, str]]:
    notebook = chapter.content
    if (notebook.nbformat, notebook.nbformat_minor) != FORMAT:
        yield None, f"format {notebook.nbformat}.{notebook.nbformat_minor}; 4.5 is allowed: its cells have ids"
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        yield None, "the kernel is not `python3`, the only one that every host has"
    cells = [*notebook.cells, *[nbformat.v4.new_raw_cell()] * 3]
    wanted = [("markdown", "opening"), ("code", "setup"), ("code", "parameters")]
    for index, (kind, tag) in enumerate(wanted):
        found = [number for number, cell in enumerate(notebook.cells) if tag in tags(cell)]
        if found != [index] or cells[index].cell_type != kind:
            yield index, f"this must be the one {kind} cell with the tag `{tag}`; the tag is at {found or 'no cell'}"
    if not re.match(r"# \S", cells[0].source):
        yield 0, "the first line must be the title, `# Verb phrase`"
    if "setup" in tags(cells[1]) and cells[1].source != setup_cell.text(repository, chapter):
        yield 1, "differs from the press's setup cell, and it must be byte-identical"
    if "parameters" in tags(cells[2]) and not _sets_tier(cells[2].source):
        yield 2, 'must assign TIER = "auto"; other values are for the run to choose'


def _sets_tier(source: str) -> bool:
    for node in parse(source).body:
        if isinstance(node, ast.Assign) and [getattr(name, "id", "") for name in node.targets] == ["TIER"]:
            return isinstance(node.value, ast.Constant) and node.value.value == "auto"
    return False


@gate(
    "length",
    f"code cells have at most {LONGEST} lines, {MEDIAN} in the median",
    why="one idea a cell: a long cell belongs into the slice, where it is tested",
    mend="split the cell at its ideas, or move its code into the slice and show it with `show.source`",
)
def length(repository: Repository) -> Iterator[Problem]:
    """Cells that are too long; the press's own setup cell is not counted."""
    for chapter in repository.chapters:
        where = repository.relative(chapter.notebook)
        counts = []
        for index, cell in enumerate(chapter.cells):
            if cell.cell_type != "code" or "setup" in tags(cell):
                continue
            counts.append(len(cell.source.splitlines()))
            if counts[-1] > LONGEST:
                yield Problem(where, f"{counts[-1]} lines; at most {LONGEST} are allowed", index)
        if counts and statistics.median(counts) > MEDIAN:
            middle = statistics.median(counts)
            yield Problem(where, f"the median code cell has {middle:g} lines; at most {MEDIAN} are allowed")


@gate(
    "redefinition",
    "no cell defines again what the slice defines",
    why="the slice's function is the tested one; a copy in a cell drifts away from it",
    mend="import it from the slice, or name the reader's naive version differently",
)
def redefinition(repository: Repository) -> Iterator[Problem]:
    """Functions and classes of a notebook with the name of one in its slice."""
    for chapter in repository.chapters:
        where = repository.relative(chapter.notebook)
        known = {name: path.name for path in chapter.modules() for name in definitions(parse_file(path))}
        for index, cell in enumerate(chapter.cells):
            if cell.cell_type != "code":
                continue
            for name in definitions(parse(cell.source)):
                if name in known:
                    yield Problem(where, f"defines `{name}`, which {known[name]} defines and tests", index)


@gate(
    "tags",
    "cells carry tags that mean something, and every section can be taught",
    why="a tag with a slip in it does nothing, in silence; slides and run-sheets are made from tags",
    mend="CONTRIBUTING.md lists the tags; each chapter has `talk` and `slide` cells, each section an `instructor` cell",
)
def known_tags(repository: Repository) -> Iterator[Problem]:
    """Unknown tags, tags on the wrong kind of cell, chapters without slides, sections without a note."""
    for chapter in repository.chapters:
        where = repository.relative(chapter.notebook)
        for index, cell in enumerate(chapter.cells):
            for tag in tags(cell):
                kind = TAGS.get(tag)
                if kind is None:
                    yield Problem(where, f"tag `{tag}` means nothing; allowed are {', '.join(sorted(TAGS))}", index)
                elif cell.cell_type not in kind:
                    yield Problem(where, f"tag `{tag}` is for {' and '.join(kind)} cells, not {cell.cell_type}", index)
        yield from (Problem(where, what, index) for index, what in _teachable(chapter))


TAGS = dict.fromkeys(("opening", "exercise", "hint", "talk", "instructor"), ("markdown",))
TAGS |= dict.fromkeys(("setup", "parameters", "stub", "checker", "solution", "wrong", "slide"), ("code",))
TAGS |= dict.fromkeys(("hide-input", "hide-output", "remove-input", "remove-output", "remove-cell"), ("code",))
NO_NOTE = ("Exercises", "Further reading")


def _teachable(chapter: Chapter) -> Iterator[tuple[int | None, str]]:
    found = {tag for cell in chapter.cells for tag in tags(cell)}
    for tag in ("talk", "slide"):
        if tag not in found:
            yield None, f"no cell is tagged `{tag}`: the slides of a workshop would be empty"
    noted: dict[str, bool] = {}
    places, heading = {}, ""
    for index, cell in enumerate(chapter.cells):
        if cell.cell_type == "markdown" and "talk" not in tags(cell):
            heading = next((line[3:].strip() for line in cell.source.splitlines() if line.startswith("## ")), heading)
            places.setdefault(heading, index)
        noted[heading] = noted.get(heading, False) or "instructor" in tags(cell)
    for title, index in places.items():
        if title and title not in NO_NOTE and not noted[title]:
            yield index, f"section {title!r} has no `instructor` cell: what to ask, what goes wrong, what to skip"


def fix(repository: Repository) -> list[str]:
    """The paths of the notebooks that were mended: outputs emptied, setup cell and kernel written."""
    mended = []
    for chapter in repository.chapters:
        notebook = read_notebook(chapter.notebook)
        before = nbformat.writes(notebook)
        notebook.metadata = nbformat.from_dict(
            {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
        )
        notebook.nbformat_minor = max(notebook.nbformat_minor, FORMAT[1])
        for cell in notebook.cells:
            cell.setdefault("id", nbformat.v4.new_raw_cell().id)
            for name in ("execution", "papermill", "collapsed", "scrolled"):
                cell.metadata.pop(name, None)
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
                if "setup" in tags(cell):
                    cell.source = setup_cell.text(repository, chapter)
        after = nbformat.writes(notebook)
        if after != before:
            write_text(chapter.notebook, after.rstrip("\n") + "\n")
            mended.append(repository.relative(chapter.notebook))
    return mended
