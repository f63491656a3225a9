"""A teacher's kit for each chapter with a recap, beside the three notebooks for a class (`variants`), as downloads of
the built book: slides, handout, run-sheet and a light zip. It needs a Chromium."""

import shutil
from pathlib import Path

from .. import chromium
from ..files import remove, write_text
from ..repository import Chapter, Repository, read_notebook
from .variants import KINDS
from .workshop import bundle
from .workshop.paper import put_reveal, recap, render, slides

NAMES = {"slides": "slides.html", "handout": "handout.pdf", "run-sheet": "run-sheet.html", "zip": "zip"}
START = "the module that they start from"
REVEAL = "_data/reveal"
UP = "../../../"  # from a chapter's folder in `_data` to the book's root


def cite(repository: Repository, chapter: Chapter) -> str:
    """BibTeX of the chapter in this release of the book, folded under its name; one block of HTML."""
    own = {"config": repository.config, "release": repository.release, "address": repository.site}
    return render("cite.html", chapter=chapter, key=f"{chapter.stem}_{repository.version.replace('.', '_')}", **own)


def downloads(chapter: Chapter, whole: bool = True) -> dict[str, str]:
    """What a page offers by its name: the address below the book's root. `whole`: the kit, not the notebooks alone."""
    found = {kind: f"{kind}.ipynb" for kind in KINDS} | (NAMES if whole and chromium.find() and recap(chapter) else {})
    start = {START: f"_data/{chapter.part}/{chapter.folder}/start_here_{chapter.stem}.py"}
    return {name: f"_data/{chapter.name}.{ending}" for name, ending in found.items()} | start


def publish(repository: Repository, made: Path) -> None:
    """Write the kits of all chapters below `made/_data`, where `made` is the built book."""
    chapters = [chapter for chapter in repository.chapters if recap(chapter)]
    if chapters:
        put_reveal(repository, made / REVEAL)
    for chapter in chapters:
        found = {name: made / "_data" / f"{chapter.name}.{ending}" for name, ending in NAMES.items()}
        shown = slides(chapter, read_notebook(chapter.executed), f"{UP}_static", f"{UP}{REVEAL}")
        write_text(found["slides"], shown)
        folder = bundle.fill(repository, [chapter], made, found["zip"])
        shutil.copyfile(folder / "handout" / f"{chapter.stem}.pdf", found["handout"])
        shutil.copyfile(folder / "instructor" / "run-sheet.html", found["run-sheet"])
        remove(folder)
