"""The book's source tree, `_build/source`: the repository's own paths, with executed notebooks and filled pages.

Because paths are the same as in the repository, every source link and launch button of the built page
points at the original file.
"""

import re
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

import nbformat
import yaml

from ..errors import PressError
from ..face.opening import label
from ..files import remove, swap_folder, write_text
from ..ledger import Entry, Ledger
from ..repository import Repository, read_notebook, tags
from ..teach import variants
from . import figure_pages, live
from .edition import elsewhere
from .generated import markers
from .masthead import masthead

MARKER = re.compile(r"<!--\s*press:([\w-]+)(?:\s+([^<>]+?))?\s*-->")
FOR_CLASS = {"instructor", "talk"}  # notes of an instructor and the words on slides: no page shows them


def assemble(repository: Repository, ledger: Ledger) -> Path:
    """The folder of the book's source, made anew; PressError when a notebook has not been executed."""
    for entry in ledger.entries:
        if not entry.chapter.executed.exists():
            command = f"`.venv/bin/python book/press run {entry.chapter}`"
            raise PressError(f"{entry.chapter} has not been executed; {command} does it")
    source = repository.build / "source"
    new = repository.build / f".source.{uuid.uuid4().hex[:8]}.part"
    try:
        shutil.copytree(repository.root / "book", new / "book", ignore=shutil.ignore_patterns("press", "__pycache__"))
        write_text(new / "_config.yml", configuration(repository))
        write_text(new / "_toc.yml", contents(repository))
        live = {entry.chapter.name: _chapter(repository, entry, new) for entry in ledger.entries}
        written = markers(repository, ledger, {name: element for name, element in live.items() if element})
        for page in sorted((new / "book").rglob("*.md")):
            filled = fill(page.read_text(encoding="utf-8"), written)
            page.write_text(elsewhere(repository, filled, page.relative_to(new).as_posix()), encoding="utf-8")
        swap_folder(new, source)
    finally:
        remove(new)
    return source


def configuration(repository: Repository) -> str:
    """`_config.yml` with the release for a branch, so that every link of a page leads to what its setup cell clones."""
    own = {**repository.config["repository"], "branch": repository.release}
    return yaml.safe_dump({**repository.config, "repository": own}, sort_keys=False, allow_unicode=True)


def contents(repository: Repository) -> str:
    """`_toc.yml` without the parts that hold no chapter yet: Jupyter Book does not take them."""
    toc = dict(repository.toc)
    if "parts" in toc:
        toc["parts"] = [part for part in toc["parts"] if part.get("chapters")]
    return yaml.safe_dump(toc, sort_keys=False, allow_unicode=True)


def fill(page: str, written: Mapping[str, Callable[..., str]]) -> str:
    """The page with every marker `<!-- press:NAME -->` replaced by what the machine writes there.

    `<!-- press:NAME words -->` hands it the words.
    """

    def text(match: re.Match) -> str:
        name = match.group(1)
        if name not in written:
            raise PressError(f"no marker is called press:{name}; there are: {', '.join(written)}")
        return written[name](*filter(None, [match.group(2)]))

    return MARKER.sub(text, page)


def _chapter(repository: Repository, entry: Entry, new: Path) -> str:
    """Write one chapter; its live model's element, for another page."""
    chapter = entry.chapter
    folder = new / chapter.home.relative_to(chapter.root)
    for path in [chapter.card_path, *chapter.modules(proofs=True)]:  # what a page may link to
        write_text(folder / path.relative_to(chapter.home), path.read_text(encoding="utf-8"))
    notebook = page(read_notebook(chapter.executed), masthead(repository, entry))
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = elsewhere(repository, cell.source, chapter.document)
    figure_pages.publish(notebook, chapter, new)
    variants.write(chapter, (new / "_data" / chapter.name).parent)
    element = live.publish(notebook, chapter, repository, new)
    nbformat.write(notebook, folder / f"{chapter.stem}.ipynb")
    return element


def page(notebook: nbformat.NotebookNode, top: str) -> nbformat.NotebookNode:
    """The executed notebook as the book prints it, changed in place.

    What the machine writes (`top`) stands under the title; setup, checkers, solutions and plumbing are folded under a
    label that says what they hold; the cell that papermill adds for a chosen tier is left out, and so are the cells for
    a class.
    """
    first = notebook.cells[0]
    first.source = re.sub(r"\A(# .*)$", lambda match: f"{match.group()}\n\n{top}", first.source, flags=re.MULTILINE)
    notebook.cells = [cell for cell in notebook.cells if not FOR_CLASS & set(tags(cell))]
    for cell in notebook.cells:
        found = tags(cell)
        told = label(cell)
        if told:
            cell.metadata.tags = [*found, "hide-input"]
            cell.metadata.mystnb = {"code_prompt_show": told, "code_prompt_hide": told}
        if "injected-parameters" in found:
            cell.metadata.tags = [*found, "remove-cell"]
    return notebook
