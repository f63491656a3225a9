"""One zip for a workshop: notebooks, slides, run-sheet, handouts, the book, wheels, data, checks of the room."""

import json
import os
import shutil
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from helpers.data import DataError

from ... import chromium
from ...errors import PressError
from ...files import lock, remove, write_text
from ...ledger import gather
from ...repository import Chapter, Repository, read_notebook
from .. import variants
from . import datasets, handout, runsheet, wheels
from .paper import page
from .room.room_check import digest
from .schedule import LENGTHS, plan
from .slides import put_reveal, slides

HERE = Path(__file__).parent
EPOCH = (2026, 1, 1, 0, 0, 0)  # of every entry, so that the same content gives the same zip
LIGHT_BYTES = 30e6  # of a zip that is downloaded from the book
SPARE_BYTES = 0.5e9  # disk beside what the packages unpack to
UNPACKED = 3.2  # times the size of the wheels: what torch, SciPy and JupyterLab were seen to need


class Options(NamedTuple):
    """What a bundle is made for; `index` is where torch comes from."""

    minutes: int = 90
    start: str = "09:00"
    index: str = ""


def make(repository: Repository, chapters: list[Chapter], options: Options, html: Path) -> Path:
    """The path of the zip in `_build/workshop`, with the built book that lies in `html`.

    Raises PressError when the minutes do not suffice, a chapter lacks what the bundle shows, or Chromium is missing.
    """
    plans = [plan(chapters, minutes) for minutes in _lengths(chapters, options.minutes)]
    name = f"rebuilt-workshop-{'-'.join(chapter.stem for chapter in chapters)}-{options.minutes}min"
    home = repository.build / "workshop"
    with lock(repository.build / ".press.lock", "press workshop"):
        folder = home / name
        remove(folder)
        folder.mkdir(parents=True)
        _notebooks(repository, chapters, folder)
        _paper(repository, chapters, plans, options, folder)
        _book(html, folder)
        datasets.put(repository, chapters, folder)
        asked = wheels.requirements(repository, chapters)
        write_text(folder / "room" / "requirements.txt", "\n".join(asked) + "\n")
        found = wheels.download(repository, asked, options.index)
        shutil.copytree(found, folder / "wheels", ignore=shutil.ignore_patterns(".*"), copy_function=datasets.link)
        _room(repository, chapters, options, folder)
        target = home / f"{name}.zip"
        pack(folder, target)
        remove(folder)
    return target


def light(repository: Repository, chapter: Chapter, html: Path, target: Path) -> Path:
    """The folder of one chapter's bundle without wheels and book, packed as `target`; the caller removes it.

    `html` is the built book, whose letters the slides borrow. Data that cannot be had now, and what is too large, is
    left to the first run.
    Raises PressError as `make` does, and when the zip is larger than `LIGHT_BYTES`.
    """
    options = Options()
    folder = repository.build / "workshop" / target.stem
    remove(folder)
    folder.mkdir(parents=True)
    _notebooks(repository, [chapter], folder)
    plans = [plan([chapter], minutes) for minutes in _lengths([chapter], options.minutes)]
    _paper(repository, [chapter], plans, options, folder)
    for name in ("fonts", "mathjax"):
        if (html / "_static" / name).is_dir():
            shutil.copytree(html / "_static" / name, folder / "book" / "_static" / name)
    first_run = datasets.too_large(repository, chapter)
    try:
        datasets.put(repository, [chapter], folder, first_run)
    except DataError:
        remove(folder / "data" / "files")
        first_run = sorted(chapter.card.get("data") or [])
    write_text(folder / "room" / "requirements.txt", "\n".join(wheels.requirements(repository, [chapter])) + "\n")
    _room(repository, [chapter], options, folder, START_LIGHT, first_run)
    target.parent.mkdir(parents=True, exist_ok=True)
    pack(folder, target)
    if target.stat().st_size > LIGHT_BYTES:
        told = f"{target.stat().st_size / 1e6:.0f} MB, and {LIGHT_BYTES / 1e6:.0f} are allowed"
        raise PressError(f"{target.name} has {told}")
    return folder


def _lengths(chapters: list[Chapter], minutes: int) -> list[int]:
    """The lengths of the run-sheets: the chosen one first, then the usual ones that the chapters can be cut to."""
    plan(chapters, minutes)  # the chosen length must do
    lengths = [minutes]
    for other in LENGTHS:
        try:
            plan(chapters, other)
        except PressError:
            continue
        if other != minutes:
            lengths.append(other)
    return lengths


def _notebooks(repository: Repository, chapters: list[Chapter], folder: Path) -> None:
    """The slices with the three notebooks of each chapter, and what `helpers` needs around them."""
    unwanted = shutil.ignore_patterns("__pycache__", "test_*", "*.ipynb", ".*", "_build")
    for chapter in chapters:
        target = folder / chapter.home.relative_to(repository.root)
        if not target.exists():
            shutil.copytree(chapter.home, target, ignore=unwanted)
        variants.write(chapter, target)
    shutil.copytree(repository.root / "helpers", folder / "helpers", ignore=unwanted)
    for name in ("_config.yml", "LICENSE"):
        shutil.copyfile(repository.root / name, folder / name)


def _paper(repository: Repository, chapters: list[Chapter], plans: list, options: Options, folder: Path) -> None:
    """Slides, run-sheet and handouts."""
    put_reveal(repository, folder / "slides" / "reveal")
    write_text(folder / "instructor" / "run-sheet.html", runsheet.run_sheet(chapters, plans, options.start))
    if not chromium.find():
        raise PressError(f"the handouts cannot be printed: {chromium.WANTED}")
    base = address(repository)
    with chromium.browser() as browser:
        for entry in gather(repository, chapters).entries:
            chapter = entry.chapter
            shown = slides(chapter, read_notebook(chapter.executed), "../book/_static")
            write_text(folder / "slides" / f"{chapter.stem}.html", shown)
            pages = [handout.handout(entry, f"{base}/{chapter.document}.html", size) for size in handout.SIZES]
            handout.print_pdf(pages, folder / "handout" / f"{chapter.stem}.pdf", browser)


def address(repository: Repository) -> str:
    """Where the book is published, else the repository, with no slash at its end."""
    return str(repository.config.get("html", {}).get("baseurl") or repository.url).rstrip("/")


def _book(html: Path, folder: Path) -> None:
    """The built book: the executed chapters as their readers see them."""
    if not (html / "index.html").exists():
        raise PressError("the book is not built yet; `.venv/bin/python book/press build` builds it")
    shutil.copytree(html, folder / "book", ignore=shutil.ignore_patterns("_sources", "*.pdf", "*.zip", ".nojekyll"))


def _room(
    repository: Repository,
    chapters: list[Chapter],
    options: Options,
    folder: Path,
    start: str = "",
    first_run: Sequence[str] = (),
) -> None:
    """The scripts for the room, what they know about the bundle, where to start, and the checksums.

    `first_run`: the data sets that are fetched when a notebook first asks for them.
    """
    for path in sorted((HERE / "room").glob("*.py")):
        if path.name != "__init__.py":
            shutil.copyfile(path, folder / "room" / path.name)
    packed = _bytes(folder)
    memory = max(float(chapter.card["needs"]["memory_gb"]) for chapter in chapters) * 1e9
    facts = {
        "title": str(repository.config.get("title", "")),
        "but": datasets.but(first_run),
        "release": repository.release,
        "chapters": [chapter.name for chapter in chapters],
        "minutes": options.minutes,
        "python": ".".join(map(str, sys.version_info[:2])),
        "platform": wheels.platform(),
        "memory_bytes": memory,
        "wheels_bytes": _bytes(folder / "wheels"),
        "data_bytes": _bytes(folder / "data"),
        "zip_bytes": packed,
        "installed_bytes": packed + UNPACKED * _bytes(folder / "wheels") + SPARE_BYTES,
    }
    write_text(folder / "room" / "bundle.json", json.dumps(facts, indent=1) + "\n")
    write_text(folder / "START_HERE.html", start_here(repository, chapters, facts, start or START))
    lines = [f"{digest(path)}  {path.relative_to(folder).as_posix()}" for path in _files(folder)]
    write_text(folder / "SHA256SUMS", "\n".join(lines) + "\n")


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in _files(folder))


def start_here(repository: Repository, chapters: list[Chapter], facts: dict, start: str) -> str:
    """The first page that anyone opens; it begins with `start`. Without a book it links the published one."""
    lines = [start.format(**facts)]
    book = "book" if start is START else address(repository)
    for chapter in chapters:
        stem, title = chapter.stem, chapter.card["title"]
        lines.append(
            f'<li>{title}: <a href="slides/{stem}.html">slides</a>, <a href="handout/{stem}.pdf">handout</a>, '
            f'<a href="{book}/{chapter.document}.html">the chapter as run</a>; notebooks in '
            f"<code>{chapter.home.relative_to(repository.root).as_posix()}</code></li>"
        )
    return page("Start here", "\n".join([*lines, "</ul>", END]))


START = """\
<h1>A workshop from {title}</h1>
<p>{minutes} minutes, release {release}. Nothing here needs a network: not the installation, not the notebooks,
not the slides.</p>
<h2>On every machine</h2>
<p>You need Python {python} on {platform}. In this folder:</p>
<pre><code>python3 room/room_check.py    # is this machine ready?
python3 room/install.py       # makes .venv from the wheels, a minute or two
python3 room/start.py         # opens JupyterLab</code></pre>
<p>Open <code>….student.ipynb</code> of the chapter.</p>
<h2>Chapters</h2>
<ul>"""
START_LIGHT = """\
<h1>{title}: one chapter for a class</h1>
<p>Release {release}. Notebooks, code, slides, handout and run-sheet, with the data that it needs{but}. The packages
come from the package index when you install them.</p>
<h2>On every machine</h2>
<p>You need Python {python}. In this folder:</p>
<pre><code>python3 room/install.py       # makes .venv; several minutes, most of them for torch
python3 room/start.py         # opens JupyterLab</code></pre>
<p>Open <code>….student.ipynb</code> of the chapter.</p>
<h2>Chapter</h2>
<ul>"""
END = """\
<h2>For the instructor</h2>
<p><a href="instructor/run-sheet.html">Run-sheet</a> with clock times and what to skip when late.
<code>….instructor.ipynb</code> holds your notes, the minutes and the common wrong answers;
<code>….solution.ipynb</code> the solutions. Take both out before you hand the folder on, if learners should not see
them.</p>
<p><code>python3 room/planner.py --seats 24 --memory-gb 8</code> says how many machines a class needs, and
how much network it takes to copy this folder to all of them. <code>SHA256SUMS</code> lists every file;
<code>room_check.py</code> compares.</p>"""


def pack(folder: Path, target: Path) -> None:
    """Write the folder as a zip, whole or not at all; the same files give the same bytes."""
    part = target.with_suffix(".part")
    try:
        with zipfile.ZipFile(part, "w", allowZip64=True) as archive:
            for path in _files(folder):
                info = zipfile.ZipInfo(f"{folder.name}/{path.relative_to(folder).as_posix()}", EPOCH)
                info.external_attr = 0o644 << 16
                packed = path.suffix in (".whl", ".png", ".pdf", ".zip", ".woff2")
                info.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
                with path.open("rb") as source, archive.open(info, "w", force_zip64=True) as entry:
                    shutil.copyfileobj(source, entry, 1 << 20)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
