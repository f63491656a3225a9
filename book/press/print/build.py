"""`press build`: run what changed, assemble the source, print the book. Warnings are errors."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from .. import chromium
from ..errors import PressError
from ..files import lock, remove, swap_folder, write_text
from ..repository import Repository
from . import launch, live, pdf, weights
from .source import assemble

THEBE = re.compile(r"<script>\s*const THEBE_JS_URL[^<]*</script>|<script[^>]*sphinx-thebe\.js[^>]*></script>")
NOISE = re.compile(r"\x1b\[[0-9;]*m")
TELLING = re.compile(r"(WARNING|ERROR|CRITICAL|Exception|Traceback)")


def build(repository: Repository) -> Path:
    """The folder `_build/html`, made from the executed notebooks; the old one stays when anything is wrong."""
    _never_execute(repository)
    side, html = repository.build / "side", repository.build / "html"
    with lock(repository.build / ".press.lock", "press build"):
        remove(side)
        source = assemble(repository)
        pages = len(repository.toc_files)
        print(f"printing {pages} pages with Jupyter Book", flush=True)
        _jupyter_book(repository, source, side)
        made = side / "_build" / "html"
        _links_to_originals(repository, made)
        write_text(made / ".nojekyll", "")
        _without_thebe(made)
        shutil.copytree(source / "_data", made / "_data")
        live.copy(source, made)
        _with_browser(repository, made)
        swap_folder(made, html)
        remove(side)
    print(f"the book is in {repository.relative(html / 'index.html')}; `python book/press serve` shows it")
    return html


def _with_browser(repository: Repository, made: Path) -> None:
    """Measure the pages and print the PDF, where there is a Chromium; say plainly where there is none."""
    if not chromium.find():
        print(f"{chromium.WANTED}: no PDF is made or linked, and pages are not measured", flush=True)
        return
    print("measuring the pages, then printing the PDF, with Chromium", flush=True)
    weights.record(repository, made)
    path = pdf.print_book(repository, made)
    print(f"printed {path.name}, {path.stat().st_size / 1e6:.1f} MB", flush=True)


def _without_thebe(html: Path) -> None:
    """Take out the theme's live-code scripts: nothing uses them, and written twice they stop with an error."""
    for page in html.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(THEBE.sub("", text), encoding="utf-8")


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
