"""`press build`: run what changed, assemble the source, print the book. Warnings are errors."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from .. import chromium, lean
from ..errors import PressError
from ..face import pages
from ..files import lock, remove, swap_folder, write_text
from ..ledger import gather
from ..repository import Chapter, Repository
from ..server import site
from ..teach import kit
from . import launch, live, pdf, weights
from .edition import Edition, is_current, note
from .source import assemble

THEBE = re.compile(r"<script>\s*const THEBE_JS_URL[^<]*</script>|<script[^>]*sphinx-thebe\.js[^>]*></script>")
TEMPLATES = "_static/*webpack-macros.html"  # of the theme, which copies them into the book
NOISE = re.compile(r"\x1b\[[0-9;]*m")
TELLING = re.compile(r"(WARNING|ERROR|CRITICAL|Exception|Traceback)")


def build(repository: Repository) -> Path:
    """The folder `_build/html`, made from the executed notebooks; the old one stays when anything is wrong.

    A book of some chapters (an `edition`) has a build folder of its own, and no PDF.
    """
    _never_execute(repository)
    side, html = repository.build / "side", repository.build / "html"
    with lock(repository.build / ".press.lock", "press build"):
        remove(side)
        source = assemble(repository, gather(repository))
        print(f"printing {len(repository.toc_files)} pages with Jupyter Book", flush=True)
        _jupyter_book(repository, source, side)
        made = side / "_build" / "html"
        _links_to_originals(repository, made)
        write_text(made / ".nojekyll", "")
        _finish(repository, made)
        shutil.copytree(source / "_data", made / "_data")
        live.copy(source, made)
        _with_browser(repository, made)
        swap_folder(made, html)
        note(repository)
        remove(side)
    shown = "; `.venv/bin/python book/press serve` shows it" if not isinstance(repository, Edition) else ""
    print(f"the book is in {repository.relative(html / 'index.html')}{shown}")
    return html


def book_of(repository: Repository, chapters: list[Chapter], *, as_built: bool = False) -> Path:
    """The folder of a built book that holds the chapters: what is built already where it is current, else made now.

    The whole book is taken if it is current, or with `as_built` whatever it is.
    """
    if as_built or is_current(repository):
        return repository.build / "html"
    edition = Edition(repository, chapters)
    return edition.build / "html" if is_current(edition) else build(edition)


def _with_browser(repository: Repository, made: Path) -> None:
    """Set the formulas, cut what pages ask for, measure them and print the PDF, where there is a Chromium.

    Say plainly where there is none. An edition is neither measured nor printed.
    """
    if not chromium.find():
        print(f"{chromium.WANTED}: no PDF is made or linked, pages are not measured and set their formulas themselves")
        lean.slim(made)
        return
    with site(made) as address, chromium.browser() as browser:
        lean.slim(made, address, browser, pdf.CLASSES)
        if isinstance(repository, Edition):
            return
        print("measuring the pages, then printing the PDF, with Chromium", flush=True)
        weights.record(repository, made, address, browser)
        path = pdf.print_book(repository, made, address, browser)
        kit.publish(repository, made)
    print(f"printed {path.name}, {path.stat().st_size / 1e6:.1f} MB", flush=True)


def _finish(repository: Repository, html: Path) -> None:
    """Write the menus and labels again, take out the theme's live-code scripts (nothing uses them, and written twice
    they stop with an error), and make the search's index of what is then there."""
    for template in html.glob(TEMPLATES):
        template.unlink()
    menu, chapters = pages.menu(repository), {chapter.document: chapter for chapter in repository.chapters}
    for page in html.rglob("*.html"):
        name = page.relative_to(html).with_suffix("").as_posix()
        text = THEBE.sub("", page.read_text(encoding="utf-8"))
        text = text.replace('<summary aria-label="Toggle hidden content">', "<summary>")  # the label is its name
        text = menu(name, text)
        page.write_text(pages.sections(chapters[name], text) if name in chapters else text, encoding="utf-8")
    pages.search(repository, html)


def _never_execute(repository: Repository) -> None:
    execute = (repository.config.get("execute") or {}).get("execute_notebooks")
    if execute not in ("off", False):
        raise PressError(
            f'_config.yml has execute_notebooks: {execute!r}; it must be "off": the press runs them, under its limits'
        )


def _links_to_originals(repository: Repository, html: Path) -> None:
    """Raise PressError unless every chapter's page links to its notebook in the repository and in each service."""
    for chapter in repository.chapters:
        page = (html / f"{chapter.document}.html").read_text(encoding="utf-8")
        original = f"{repository.url}/blob/{repository.release}/{chapter.document}.ipynb"
        for address in (original, *launch.addresses(repository, chapter).values()):
            if not re.search(rf'href="{re.escape(address)}["?]', page):
                raise PressError(
                    f"the page of {chapter} has no link to {address}: _config.yml needs launch_buttons.colab_url, "
                    "sphinx.recursive_update: true and sphinx.config.html_theme_options.use_source_button: true"
                )


def _jupyter_book(repository: Repository, source: Path, side: Path) -> None:
    """Run Jupyter Book over everything: a build that goes on from an older one would not repeat its warnings."""
    start = "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
    options = ["-W", "--keep-going", "-n", "--all", "--path-output", str(side)]
    done = subprocess.run(
        [sys.executable, "-c", start, "build", str(source), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
    )
    said = NOISE.sub("", done.stdout).replace(f"{source}/", "")
    log = write_text(repository.build / "build.log", said)
    if done.returncode:
        telling = [line for line in said.splitlines() if TELLING.search(line)] or said.splitlines()[-20:]
        shown = "\n".join(f"  {line}" for line in telling[:40])
        raise PressError(f"Jupyter Book is not content (all it said: {repository.relative(log)}):\n{shown}")
