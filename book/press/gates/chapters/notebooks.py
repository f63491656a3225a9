"""Gates on the notebook file: outputs, the standard cells, length, no second definition, what makes it teachable."""

import ast
import re
import statistics
from collections.abc import Iterator

import nbformat

from ...colab import setup_cell
from ...files import write_text
from ...repository import Chapter, Repository, read_notebook
from ...repository import tags as tags_of
from ...teach.length import of as length_of
from .. import Problem, cells, gate
from ..python import definitions, parse, parse_file

LONGEST, MEDIAN = 30, 8  # lines of a code cell
MOST_WORDS, MOST_MINUTES = 4000, 90
FORMAT = (4, 5)
TAGS = dict.fromkeys(("opening", "exercise", "hint", "talk", "instructor"), "markdown")
TAGS |= dict.fromkeys(("setup", "parameters", "stub", "checker", "solution", "wrong", "slide"), "code")
TAGS |= dict.fromkeys(("hide-input", "hide-output", "remove-input", "remove-output", "remove-cell"), "code")
NO_NOTE = {"", "Exercises", "Further reading"}  # sections without an instructor's note


@gate
def outputs(repository: Repository) -> Iterator[Problem]:
    """Notebooks carry no outputs and no execution counts.

    Why: an output in git is a measurement that nobody can trace, and it makes every diff unreadable.
    Mend: `.venv/bin/python book/press check --fix` empties them.
    """
    for chapter, index, cell in cells(repository):
        held = [name for name in ("outputs", "execution_count") if cell.get(name)]
        held += [name for name in ("execution", "papermill") if name in cell.metadata]
        if held:
            yield Problem(chapter.notebook, f"holds {' and '.join(held)}; none is allowed", index)


@gate
def opening(repository: Repository) -> Iterator[Problem]:
    """Notebooks start with the standard opening, setup and parameters cells.

    Why: the setup cell must be the tested one, and papermill needs the parameters cell to choose a tier.
    Mend: `.venv/bin/python book/press check --fix` rewrites the setup cell and the kernel; the rest is yours.
    """
    for chapter in repository.chapters:
        for index, what in _opening(repository, chapter):
            yield Problem(chapter.notebook, what, index)


def _opening(repository: Repository, chapter: Chapter) -> Iterator[tuple[int | None, str]]:
    notebook = chapter.content
    if (notebook.nbformat, notebook.nbformat_minor) != FORMAT:
        yield None, f"format {notebook.nbformat}.{notebook.nbformat_minor}; 4.5 is allowed: its cells have ids"
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        yield None, "the kernel is not `python3`, the only one that every host has"
    first, setup, parameters, *_ = *notebook.cells, *[nbformat.v4.new_raw_cell()] * 3
    wanted = [("markdown", "opening", first), ("code", "setup", setup), ("code", "parameters", parameters)]
    for index, (kind, tag, cell) in enumerate(wanted):
        found = [number for number, cell in enumerate(notebook.cells) if tag in tags_of(cell)]
        if found != [index] or cell.cell_type != kind:
            yield index, f"this must be the one {kind} cell with the tag `{tag}`; the tag is at {found or 'no cell'}"
    if not re.match(r"# \S", first.source):
        yield 0, "the first line must be the title, `# Verb phrase`"
    if "setup" in tags_of(setup) and setup.source != setup_cell.text(repository, chapter):
        yield 1, "differs from the press's setup cell, and it must be byte-identical"
    statements = [ast.unparse(node) for node in parse(parameters.source).body]
    if "parameters" in tags_of(parameters) and "TIER = 'auto'" not in statements:
        yield 2, 'must assign TIER = "auto"; other values are for the run to choose'


@gate
def length(repository: Repository) -> Iterator[Problem]:
    """Code cells have at most {LONGEST} lines, {MEDIAN} in the median.

    Why: one idea a cell: a long cell belongs into the slice, where it is tested.
    Mend: split the cell at its ideas, or move its code into the slice and show it with `show.source`.
    """
    for chapter in repository.chapters:
        own = {index: cell for index, cell in enumerate(chapter.cells) if cell.cell_type == "code"}
        counts = {index: len(cell.source.splitlines()) for index, cell in own.items() if "setup" not in tags_of(cell)}
        for index, lines in counts.items():
            if lines > LONGEST:
                yield Problem(chapter.notebook, f"{lines} lines; at most {LONGEST} are allowed", index)
        middle = statistics.median(counts.values() or [0])
        if middle > MEDIAN:
            what = f"the median code cell has {middle:g} lines; at most {MEDIAN} are allowed"
            yield Problem(chapter.notebook, what)


@gate
def redefinition(repository: Repository) -> Iterator[Problem]:
    """No cell defines again what the slice defines.

    Why: the slice's function is the tested one; a copy in a cell drifts away from it.
    Mend: import it from the slice, or name the reader's naive version differently.
    """
    for chapter, index, cell in cells(repository, "code"):
        own = definitions(parse(cell.source))
        for path in chapter.modules() if own else []:
            for name in sorted(own & definitions(parse_file(path))):
                yield Problem(chapter.notebook, f"defines `{name}`, which {path.name} defines and tests", index)


@gate
def tags(repository: Repository) -> Iterator[Problem]:
    """Cells carry tags that mean something, and every section can be taught.

    Why: a tag with a slip in it does nothing, in silence; slides and run-sheets are made from tags.
    Mend: CONTRIBUTING.md lists the tags; each chapter has `talk` and `slide` cells, each section an `instructor` cell.
    """
    for chapter, index, cell in cells(repository):
        for tag in tags_of(cell):
            if tag not in TAGS:
                what = f"tag `{tag}` means nothing; allowed are {', '.join(sorted(TAGS))}"
                yield Problem(chapter.notebook, what, index)
            elif cell.cell_type != TAGS[tag]:
                yield Problem(chapter.notebook, f"tag `{tag}` is for {TAGS[tag]} cells, not {cell.cell_type}", index)
    for chapter in repository.chapters:
        yield from _teachable(chapter)


def _teachable(chapter: Chapter) -> Iterator[Problem]:
    for tag in ("talk", "slide"):
        if not any(tag in tags_of(cell) for cell in chapter.cells):
            yield Problem(chapter.notebook, f"no cell is tagged `{tag}`: the slides of a workshop would be empty")
    heading, places, noted = "", {}, set(NO_NOTE)
    for index, cell in enumerate(chapter.cells):
        if cell.cell_type == "markdown" and "talk" not in tags_of(cell):
            heading = next((line[3:].strip() for line in cell.source.splitlines() if line.startswith("## ")), heading)
            places.setdefault(heading, index)
        noted |= {heading} if "instructor" in tags_of(cell) else set()
    for title in [title for title in places if title not in noted]:
        what = f"section {title!r} has no `instructor` cell: what to ask, what goes wrong, what to skip"
        yield Problem(chapter.notebook, what, places[title])


@gate
def teaching(repository: Repository) -> Iterator[Problem]:
    """A page has {MOST_WORDS:,} words and a core path of {MOST_MINUTES} minutes at most.

    Why: a reader who cannot finish in an evening does not begin.
    Mend: shorten it, mark sections with `further: true` in the card, or say there under `length:` why it is long.
    """
    for chapter in [chapter for chapter in repository.chapters if not chapter.card.get("length")]:
        own = length_of(chapter)
        if own.words > MOST_WORDS:
            yield Problem(chapter.notebook, f"{own.words:,} words; allowed are {MOST_WORDS:,}")
        if own.core > MOST_MINUTES:
            yield Problem(chapter.notebook, f"a core path of {own.core} minutes; allowed are {MOST_MINUTES}")


def fix(repository: Repository) -> list[str]:
    """The paths of the notebooks that were mended: outputs emptied, setup cell and kernel written."""
    mended = []
    for chapter in repository.chapters:
        notebook = read_notebook(chapter.notebook)
        before = nbformat.writes(notebook)
        kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
        notebook.metadata = nbformat.from_dict({"kernelspec": kernel})
        notebook.nbformat_minor = max(notebook.nbformat_minor, FORMAT[1])
        for cell in notebook.cells:
            cell.setdefault("id", nbformat.v4.new_raw_cell().id)
            for name in ("execution", "papermill", "collapsed", "scrolled"):
                cell.metadata.pop(name, None)
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
                cell.source = setup_cell.text(repository, chapter) if "setup" in tags_of(cell) else cell.source
        after = nbformat.writes(notebook)
        if after != before:
            write_text(chapter.notebook, after.rstrip("\n") + "\n")
            mended.append(repository.relative(chapter.notebook))
    return mended
