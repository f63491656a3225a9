"""`press build`: assemble the source from executed notebooks, print the book. Warnings are errors."""

import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from .. import chromium
from ..errors import PressError
from ..face import pages
from ..files import lock, remove, swap_folder, write_json, write_text
from ..lean.slim import slim
from ..ledger import gather
from ..repository import Chapter, Repository
from ..reuse.machine import hardware
from ..server import site
from ..teach import kit
from . import pdf
from .edition import Edition
from .generated import WEIGHTS, block
from .source import assemble

ROOT = re.compile(r'((?:href|action|<script[^>]* src)=")(?:/\w+/|(?![a-z]+:|[/#]))')  # of a 404 page
TELLING = re.compile(r"(WARNING|ERROR|CRITICAL|Exception|Traceback)")
PAINTED = "performance.getEntriesByName('first-contentful-paint').length"
WEIGHT = """() => {
  const lazy = new Set([...document.querySelectorAll("img[loading=lazy]")].map((one) => one.src)); // come near, or not
  const own = performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource"))
    .filter((one) => !lazy.has(one.name));
  return {bytes: own.reduce((sum, one) => sum + one.encodedBodySize, 0), requests: own.length,
          paint_ms: performance.getEntriesByName("first-contentful-paint")[0].startTime};
}"""


def build(repository: Repository) -> Path:
    """The folder `_build/html`, made from the executed notebooks; the old one stays when anything is wrong. An
    `Edition` has a build folder of its own, no PDF, no kit and no weights."""
    side, html = repository.build / "side", repository.build / "html"
    with lock(repository.build / ".press.lock", "press build"):
        remove(side)
        source = assemble(repository, gather(repository))
        print(f"printing {len(repository.toc_files)} pages with Jupyter Book", flush=True)
        _jupyter_book(repository, source, side)
        made = side / "_build" / "html"
        write_text(made / ".nojekyll", "")
        _menus(repository, made)
        pages.search(repository, made)
        for folder in ("_data", "_live"):
            if (source / folder).is_dir():
                shutil.copytree(source / folder, made / folder, dirs_exist_ok=True)
        _with_browser(repository, made)
        swap_folder(made, html)
        remove(side)
    shown = "; `.venv/bin/python book/press serve` shows it" if not isinstance(repository, Edition) else ""
    print(f"the book is in {repository.relative(html / 'index.html')}{shown}")
    return html


def book_of(repository: Repository, chapters: list[Chapter], *, as_built: bool = False) -> Path:
    """The folder of a book of these chapters, made now; with `as_built` the whole book as it is."""
    return repository.build / "html" if as_built else build(Edition(repository, chapters))


def _jupyter_book(repository: Repository, source: Path, side: Path) -> None:
    """Run Jupyter Book over everything: a build that goes on from an older one would not repeat its warnings."""
    program = str(Path(sys.executable).with_name("jupyter-book"))
    command = [program, "build", str(source), "-W", "--keep-going", "-n", "--all", "--path-output", str(side)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, **pipes, text=True, errors="replace")
    said = done.stdout.replace(f"{source}/", "")
    log = write_text(repository.build / "build.log", said)
    if done.returncode:
        telling = [line for line in said.splitlines() if TELLING.search(line)] or said.splitlines()[-20:]
        shown = "\n".join(f"  {line}" for line in telling[:40])
        raise PressError(f"Jupyter Book is not content (all it said: {repository.relative(log)}):\n{shown}")


def _menus(repository: Repository, made: Path) -> None:
    """Write the menus of all pages and the contents of chapters again, and what machines read of them."""
    menu, chapters = pages.menu(repository), {chapter.document: chapter for chapter in repository.chapters}
    services = "|".join(re.escape(str(url)) for url in repository.config.get("launch_buttons", {}).values())
    theirs = re.compile(rf'(href="(?:{services})/[^"]*/){re.escape(repository.release)}(?=[/?])')  # the theme's buttons
    for path in made.rglob("*.html"):
        name = path.relative_to(made).with_suffix("").as_posix()
        text = menu(name, path.read_text(encoding="utf-8"))
        text = text.replace('<summary aria-label="Toggle hidden content">', "<summary>")  # the label is its name
        text = ROOT.sub(rf"\1{repository.site}", text) if name == "404" else text
        text = theirs.sub(rf"\g<1>{repository.branch}", text)
        text = pages.heading(repository, chapters.get(name), text, made)
        path.write_text(pages.sections(chapters[name], text) if name in chapters else text, encoding="utf-8")


def _with_browser(repository: Repository, made: Path) -> None:
    """Set the formulas, cut what pages ask for, measure them and print the PDF, where there is a Chromium."""
    if not chromium.find():
        print(f"{chromium.WANTED}: no PDF is made or linked, pages are not measured and set their formulas themselves")
        slim(made)
        return
    with site(made) as address, chromium.browser() as browser:
        slim(made, address, browser, pdf.CLASSES)
        if isinstance(repository, Edition):
            return
        print("measuring the pages, then printing the PDF, with Chromium", flush=True)
        _weigh(repository, made, address, browser)
        printed = pdf.print_book(repository, made, address, browser)
        kit.publish(repository, made)
    for path in printed:
        print(f"printed {path.name}, {path.stat().st_size / 1e6:.1f} MB", flush=True)


def _weigh(repository: Repository, html: Path, address: str, browser: object) -> None:
    """Measure every page of the folder `html` at `address`, for `_build/page-weight.json` and the status page."""
    found = {
        "schema": 3,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"cpu": hardware()["cpu"], "system": platform.system(), "chromium": browser.version},
        "pages": {name: _visit(browser, address, name) for name in repository.toc_files},
    }
    write_json(repository.build / "page-weight.json", found)
    for page in (html / "book").glob("*.html"):
        page.write_text(page.read_text(encoding="utf-8").replace(WEIGHTS, block("weights", found)), encoding="utf-8")


def _visit(browser: object, address: str, name: str) -> dict:
    """Title, weight and first paint of one page, in a window that has cached nothing."""
    window = browser.new_context(viewport={"width": 1400, "height": 900})
    page = chromium.page(window, address)
    page.goto(f"{address}{name}.html", wait_until="load")
    page.wait_for_function(PAINTED, timeout=60_000)
    page.wait_for_load_state("networkidle")  # what comes late counts as weight; it takes half a second to be sure
    found = {"title": page.title().partition(" — ")[0], **page.evaluate(WEIGHT)}
    window.close()
    return found
