"""The book's source tree, `_build/source`: executed notebooks and filled pages under the repository's own paths, so
that every source link of a built page points at the original file."""

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import nbformat
import yaml

from ..errors import PressError
from ..face import gallery
from ..face.opening import first_screen, label, plumbing
from ..files import remove, write_text
from ..ledger import Entry, Ledger
from ..ledger.pages import written as of_claims
from ..repository import Chapter, Repository, read_notebook, tags
from ..run.figure_data import MIME
from ..teach import acts, courses, variants
from . import exercise, live
from .edition import elsewhere
from .generated import about, block, markers

MARKER = re.compile(r"<!--\s*press:([\w-]+)(?:\s+([^<>]+?))?\s*-->")
TOUCH = '<span id="touch-it"></span>'  # where the first screen's link leads
FOR_CLASS = {"instructor", "talk"}  # notes of an instructor and the words on slides: no page shows them


def assemble(repository: Repository, ledger: Ledger) -> Path:
    """The folder of the book's source, made anew; PressError when a notebook has not been executed."""
    for entry in ledger.entries:
        if not entry.chapter.executed.exists():
            command = f"`.venv/bin/python book/press run {entry.chapter}`"
            raise PressError(f"{entry.chapter} has not been executed; {command} does it")
    source = repository.build / "source"
    remove(source)
    shutil.copytree(repository.root / "book", source / "book", ignore=shutil.ignore_patterns("press", "__pycache__"))
    _settings(repository, source)
    for entry in ledger.entries:
        _chapter(repository, entry, source)
    courses.publish(repository, source)
    written = markers(repository, ledger)
    for path in sorted((source / "book").rglob("*.md")):
        filled = fill(path.read_text(encoding="utf-8"), written)
        path.write_text(elsewhere(repository, filled, path.relative_to(source).as_posix()), encoding="utf-8")
    return source


def _settings(repository: Repository, source: Path) -> None:
    """Write `_config.yml` and `_toc.yml` as Jupyter Book gets them: nothing is run, links are the release's."""
    branch = {**repository.config["repository"], "branch": repository.release}
    config = {**repository.config, "repository": branch, "execute": {"execute_notebooks": "off"}}
    toc = dict(repository.toc)
    if "parts" in toc:
        toc["parts"] = [part for part in toc["parts"] if part.get("chapters")]
    for name, content in (("_config.yml", config), ("_toc.yml", toc)):
        write_text(source / name, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def fill(page: str, written: Mapping[str, Callable[..., str]]) -> str:
    """The page with each marker `<!-- press:NAME words -->` replaced by what the machine writes there, of the words."""

    def text(match: re.Match) -> str:
        name = match[1]
        if name not in written:
            raise PressError(f"no marker is called press:{name}; there are: {', '.join(written)}")
        return written[name](*filter(None, [match[2]]))

    return MARKER.sub(text, page)


def _chapter(repository: Repository, entry: Entry, source: Path) -> None:
    """Write one chapter; PressError where its card and its outputs disagree about what can be touched."""
    chapter = entry.chapter
    folder = source / chapter.home.relative_to(chapter.root)
    for path in [chapter.card_path, *chapter.modules(proofs=True)]:  # what a page may link to
        write_text(folder / path.relative_to(chapter.home), path.read_text(encoding="utf-8"))
    top, end = first_screen(repository, chapter), about(repository, entry)
    executed = read_notebook(chapter.executed)
    executed.cells = acts.printed(executed.cells, entry.metric)
    notebook = page(executed, top, of_claims("cards", entry), end)
    touched = gallery.touchable(notebook)
    if bool(touched) != bool(chapter.card.get("touch")):
        told = "outputs that bring a script and the card's `touch`, which says what to do there, go together"
        raise PressError(f"{chapter}: {told}; there are {len(touched)} such outputs")
    notebook.cells[0].source += variants.aims(chapter)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = elsewhere(repository, cell.source, chapter.document)
    figure_data(notebook, chapter, source)
    variants.write(chapter, (source / "_data" / chapter.name).parent)
    live.publish(notebook, chapter, repository, source)
    exercise.publish(notebook, repository, source)
    for output in touched[:1]:
        output.data["text/html"] = TOUCH + "".join(output.data["text/html"])
    nbformat.write(notebook, folder / f"{chapter.stem}.ipynb")


def page(notebook: nbformat.NotebookNode, top: str, claims: str = "", end: str = "") -> nbformat.NotebookNode:
    """The executed notebook as the book prints it, changed in place: `top` under the title, `end` after the last cell,
    the ledger's cards in the place of a table of `claims`; setup, checkers, solutions and plumbing folded under a
    label; without what papermill adds, and the cells for a class."""
    first = notebook.cells[0]
    first.source = re.sub(r"\A(# .*)$", lambda match: f"{match[0]}\n\n{top}", first.source, flags=re.MULTILINE)
    notebook.cells = [cell for cell in notebook.cells if not FOR_CLASS & set(tags(cell))]
    for cell in notebook.cells:
        told = label(cell)
        if told:
            cell.metadata.tags = [*tags(cell), "hide-input", *["plumbing"] * plumbing(cell)]
            cell.metadata.mystnb = {"code_prompt_show": told, "code_prompt_hide": told}
        if "injected-parameters" in tags(cell):
            cell.metadata.tags = [*tags(cell), "remove-cell"]
        for output in cell.get("outputs", []):
            if 'class="rebuilt-claims"' in "".join(output.get("data", {}).get("text/html", "")):
                output.data["text/html"] = f'<div class="rebuilt-ledger">{claims}</div>'
    notebook.cells += [nbformat.v4.new_markdown_cell(end)] * bool(end)
    return notebook


def figure_data(notebook: nbformat.NotebookNode, chapter: Chapter, source: Path) -> None:
    """Write each figure's CSV below `source/_data` and a link into its output; the notebook is changed in place."""
    count = 0
    for output in [output for cell in notebook.cells for output in cell.get("outputs", [])]:
        found = output.get("data", {}).pop(MIME, None)
        if found and found["rows"]:
            count += 1
            name = f"_data/{chapter.name}-figure-{count}.csv"
            write_text(source / name, found["csv"])
            output.data["text/html"] += "\n" + block("figure_data", f"../../../{name}", found)
