"""Gates on the notebook file: outputs, the standard cells, length, no second definition, what makes it teachable."""

import ast
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator

import nbformat

from ...colab import setup_cell
from ...files import write_text
from ...repository import Chapter, Repository, read_notebook
from ...repository import tags as tags_of
from ...teach.acts import sections
from ...teach.length import of as length_of
from .. import cells, gate
from ..python import definitions, parse, parse_file

LONGEST, MEDIAN = 30, 8  # lines of a code cell
MOST_WORDS, MOST_MINUTES = 4000, 90
FORMAT = (4, 5)
TAGS = dict.fromkeys(("opening", "act", "exercise", "hint", "talk", "instructor"), "markdown")
TAGS |= dict.fromkeys(("setup", "parameters", "stub", "checker", "solution", "wrong", "slide"), "code")
TAGS |= dict.fromkeys(("hide-input", "hide-output", "remove-input", "remove-output", "remove-cell"), "code")
NO_NOTE = {"", "Exercises", "Further reading"}  # sections without an instructor's note


@gate
def outputs(repository: Repository) -> Iterator[tuple]:
    """Notebooks carry no outputs and no execution counts."""
    for chapter, index, cell in cells(repository):
        held = [name for name in ("outputs", "execution_count") if cell.get(name)]
        held += [name for name in ("execution", "papermill") if name in cell.metadata]
        if held:
            yield chapter.notebook, f"holds {' and '.join(held)}; none is allowed", index


@gate
def opening(repository: Repository) -> Iterator[tuple]:
    """Notebooks start with the standard opening, setup and parameters cells."""
    for chapter in repository.chapters:
        yield from ((chapter.notebook, what, index) for index, what in _opening(repository, chapter))


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
def length(repository: Repository) -> Iterator[tuple]:
    """Code cells have at most {LONGEST} lines, {MEDIAN} in the median."""
    counts = defaultdict(list)
    for chapter, index, cell in cells(repository, "code"):
        if "setup" not in tags_of(cell):
            counts[chapter.notebook].append(lines := len(cell.source.splitlines()))
            if lines > LONGEST:
                yield chapter.notebook, f"{lines} lines; at most {LONGEST} are allowed", index
    for path, lengths in counts.items():
        if (middle := statistics.median(lengths)) > MEDIAN:
            yield path, f"the median code cell has {middle:g} lines; at most {MEDIAN} are allowed"


@gate
def redefinition(repository: Repository) -> Iterator[tuple]:
    """No cell defines again what the chapter defines."""
    for chapter, index, cell in cells(repository, "code"):
        own = definitions(parse(cell.source))
        for path in chapter.modules() if own else []:
            for name in sorted(own & definitions(parse_file(path))):
                yield chapter.notebook, f"defines `{name}`, which {path.name} defines and tests", index


@gate
def tags(repository: Repository) -> Iterator[tuple]:
    """Cells carry tags that mean something, and every section can be taught."""
    for chapter, index, cell in cells(repository):
        for tag in tags_of(cell):
            if tag not in TAGS:
                yield chapter.notebook, f"tag `{tag}` means nothing; allowed are {', '.join(sorted(TAGS))}", index
            elif cell.cell_type != TAGS[tag]:
                yield chapter.notebook, f"tag `{tag}` is for {TAGS[tag]} cells, not {cell.cell_type}", index
    for chapter in repository.chapters:
        yield from _teachable(chapter)


def _teachable(chapter: Chapter) -> Iterator[tuple]:
    for tag in ("talk", "slide"):
        if not any(tag in tags_of(cell) for cell in chapter.cells):
            yield chapter.notebook, f"no cell is tagged `{tag}`: the slides of a workshop would be empty"
    first = 0
    for title, own in sections(chapter.cells):
        if title not in NO_NOTE and not any("instructor" in tags_of(cell) for cell in own):
            what = f"section {title!r} has no `instructor` cell: what to ask, what goes wrong, what to skip"
            yield chapter.notebook, what, first
        first += len(own)


@gate
def teaching(repository: Repository) -> Iterator[tuple]:
    """A page has {MOST_WORDS:,} words and a core path of {MOST_MINUTES} minutes at most."""
    for chapter in [chapter for chapter in repository.chapters if not chapter.card.get("length")]:
        own = length_of(chapter)
        if own.words > MOST_WORDS:
            yield chapter.notebook, f"{own.words:,} words; allowed are {MOST_WORDS:,}"
        if own.core > MOST_MINUTES:
            yield chapter.notebook, f"a core path of {own.core} minutes; allowed are {MOST_MINUTES}"


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
