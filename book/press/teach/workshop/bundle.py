"""One zip for a workshop: notebooks, slides, run-sheet, handouts, the book, wheels, data, checks of the room."""

import os
import re
import shutil
import sys
import zipfile
from collections import namedtuple
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path

from helpers import data

from ... import chromium
from ...colab.prepare import hashed
from ...colab.trial import PREINSTALLED
from ...errors import PressError, finished
from ...files import lock, remove, write_json, write_text
from ...ledger import gather
from ...repository import Chapter, Repository, plain_name, read_notebook
from .. import variants
from .paper import SIZES, handout, print_pdf, put_reveal, render, run_sheet, slides
from .room import HASHED, PYTHONS, digest, machine
from .schedule import LENGTHS, plan

EPOCH = 1767225600  # the time of every file, so that the same content gives the same zip
LIGHT_BYTES = 30e6  # of a zip that is downloaded from the book
LIGHT_DATA_MB = 24  # of the data in it; what else is in it takes up to 6 MB
MANY_FILES = 100  # from here on a data set is one archive
SPARE_BYTES = 0.5e9  # disk beside what the packages unpack to
UNPACKED = 3.2  # times the size of the wheels: what torch, SciPy and JupyterLab were seen to need
ENVIRONMENT_BYTES = 1.9e9  # the most that the packages of a light zip were seen to take, with torch for CPUs
CPU_INDEX = "https://download.pytorch.org/whl/cpu"  # of PyTorch's own; elsewhere than on Linux, PyPI's is one for CPUs


# What a bundle is made for; `index` is where torch comes from.
Options = namedtuple("Options", "minutes start index", defaults=(90, "09:00", ""))


def make(repository: Repository, chapters: list[Chapter], options: Options, html: Path) -> Path:
    """The path of the zip in `_build/workshop`, with the built book that lies in `html`; PressError as `fill`."""
    name = f"rebuilt-workshop-{'-'.join(chapter.stem for chapter in chapters)}-{options.minutes}min.zip"
    target = repository.build / "workshop" / name
    with lock(repository.build / ".press.lock", "press workshop"):
        remove(fill(repository, chapters, html, target, options))
    return target


def fill(
    repository: Repository, chapters: list[Chapter], html: Path, target: Path, options: Options | None = None
) -> Path:
    """The folder of what is now packed as `target`; the caller removes it. Without options a light one: no wheels, of
    the book in `html` what slides borrow, no data that are not here, too large or private. PressError, and no folder,
    when the minutes do not suffice, a chapter lacks what is shown, Chromium is missing, or a light one is too large."""
    folder = repository.build / "workshop" / target.stem
    with ExitStack() as on_fault:
        on_fault.callback(remove, folder)
        asked = requirements(repository, chapters)
        _taught(repository, chapters, options or Options(), folder)
        write_text(folder / "requirements.txt", "\n".join(asked) + "\n")
        if own := hashed(asked, repository.root / HASHED):
            write_text(folder / HASHED, own + "\n")
        if options:
            _book(html, folder)
            _wheels(asked, options.index, folder)
        for name in [] if options else ["fonts", "mathjax"]:
            if (html / "_static" / name).is_dir():
                shutil.copytree(html / "_static" / name, folder / "book" / "_static" / name)
        left = put_data(repository, chapters, folder, whole=bool(options))
        _room(repository, chapters, folder, {"first_run": left, "minutes": (options or Options()).minutes})
        pack(folder, target)
        size = target.stat().st_size
        if not options and size > LIGHT_BYTES:
            raise PressError(f"{target.name} has {size / 1e6:.0f} MB, and {LIGHT_BYTES / 1e6:.0f} are allowed")
        on_fault.pop_all()
    return folder


def _taught(repository: Repository, chapters: list[Chapter], options: Options, folder: Path) -> None:
    """A new folder with the code, the three notebooks of each chapter, `helpers`, slides, run-sheet and handouts."""
    sheet = sheet_of(chapters, options)
    if not chromium.find():
        raise PressError(f"the handouts cannot be printed: {chromium.WANTED}")
    remove(folder)
    unwanted = shutil.ignore_patterns("__pycache__", "test_*", "*.ipynb", ".*", "_build")
    for home in {repository.root / "helpers", *(chapter.home for chapter in chapters)}:
        shutil.copytree(home, folder / home.relative_to(repository.root), ignore=unwanted)
    for name in ("_config.yml", "LICENSE"):
        shutil.copyfile(repository.root / name, folder / name)
    put_reveal(repository, folder / "slides" / "reveal")
    write_text(folder / "instructor" / "run-sheet.html", sheet)
    with chromium.browser() as browser:
        for entry in gather(repository, chapters).entries:
            chapter = entry.chapter
            variants.write(chapter, folder / chapter.home.relative_to(repository.root))
            shown = slides(chapter, read_notebook(chapter.executed), "../book/_static")
            write_text(folder / "slides" / f"{chapter.stem}.html", shown)
            web = f"{repository.site}{chapter.document}.html"
            pages = [handout(entry, web, size) for size in SIZES]
            print_pdf(pages, folder / "handout" / f"{chapter.stem}.pdf", browser)


def sheet_of(chapters: list[Chapter], options: Options) -> str:
    """The run-sheet: the chosen length first, then the usual ones that fit; PressError for too few minutes."""
    plans = [plan(chapters, options.minutes)]
    for other in (length for length in LENGTHS if length != options.minutes):
        with suppress(PressError):
            plans.append(plan(chapters, other))
    return run_sheet(chapters, plans, options.start)


def _book(html: Path, folder: Path) -> None:
    """The built book: the executed chapters as their readers see them."""
    if not (html / "index.html").exists():
        raise PressError("the book is not built yet; `.venv/bin/python book/press build` builds it")
    shutil.copytree(html, folder / "book", ignore=shutil.ignore_patterns("_sources", "*.pdf", "*.zip", ".nojekyll"))


def put_data(repository: Repository, chapters: list[Chapter], folder: Path, *, whole: bool) -> list[str]:
    """The data sets that are left to the first run; the registry and the others' verified files are now in the folder,
    smallest first, one of `MANY_FILES` as an archive. Left: what cannot be had, has no place, may not be passed on."""
    shutil.copytree(repository.root / "data", folder / "data")
    sizes = {name: repository.megabytes([name]) for chapter in chapters for name in chapter.card.get("data") or []}
    private = unlicensed(repository)
    taken, left, files, registry = 0, set(sizes), folder / "data/files", repository.root / "data" / "registry.tsv"
    for name in sorted(set(sizes) - (set() if whole else private), key=lambda name: (sizes[name], name)):
        taken += sizes[name]
        if whole or taken <= LIGHT_DATA_MB:
            with nullcontext() if whole else suppress(data.DataError):
                found = data.fetch(name, folder=repository.build / "data" / name, registry=registry)
                shutil.copytree(found, files / name, ignore=shutil.ignore_patterns(".*"))
                left.remove(name)
                if len(_files(files / name)) >= MANY_FILES:
                    pack(files / name, files / f"{name}.zip", files / name)
                    remove(files / name)
    return sorted(left)


def unlicensed(repository: Repository) -> set[str]:
    """The data sets whose owners gave no licence to pass them on, by the registry's words."""
    return {row["dataset"] for row in repository.registry if row["licence"].lower().startswith("no ")}


def requirements(repository: Repository, chapters: list[Chapter]) -> list[str]:
    """What a seat installs: what Colab has, JupyterLab and the chapters' extras; pinned where requirements.txt pins."""
    extras = [package for chapter in chapters for package in chapter.card.get("packages") or []]
    named = {plain_name(re.match(r"[\w.-]+", extra).group()) for extra in extras}
    usual = {name: repository.pins.get(plain_name(name)) for name in (*PREINSTALLED, "jupyterlab")}
    pinned = [f"{name}=={pin}" if pin else name for name, pin in usual.items() if plain_name(name) not in named]
    return sorted({*pinned, *extras}, key=str.lower)


def _wheels(wanted: list[str], index: str, bundle: Path) -> None:
    """Put wheels of the packages and all that they need into the bundle; torch's from `index` where given."""
    torch, folder = [one for one in wanted if one.startswith("torch==")], bundle / "wheels"
    pip = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--quiet", "--wheel-dir", folder]
    first = [["--index-url", index, *torch]] * bool(index and torch)
    first += [["--no-deps", "--require-hashes", "-r", bundle / HASHED]] * (bundle / HASHED).is_file()
    for asked in [*first, ["--find-links", folder, *wanted]]:
        finished("the packages of the bundle cannot be had", *pip, *asked)


def _room(repository: Repository, chapters: list[Chapter], folder: Path, facts: dict) -> None:
    shutil.copyfile(Path(__file__).with_name("room.py"), folder / "room.py")
    packed, wheels = _bytes(folder), _bytes(folder / "wheels")
    facts |= {
        "title": str(repository.config.get("title", "")),
        "release": repository.release,
        "chapters": [chapter.name for chapter in chapters],
        "machine": machine() if wheels else "Python " + ", ".join(f"{major}.{minor}" for major, minor in PYTHONS),
        "torch_index": "" if wheels else CPU_INDEX,
        "memory_bytes": max(float(chapter.card["needs"]["memory_gb"]) for chapter in chapters) * 1e9,
        "wheels_bytes": wheels,
        "zip_bytes": packed,
        "installed_bytes": packed + (UNPACKED * wheels + SPARE_BYTES if wheels else ENVIRONMENT_BYTES),
        "private": sorted(unlicensed(repository) & set(facts["first_run"])),
    }
    write_json(folder / "room.json", facts)
    start = render("start.html", taught=chapters, address=repository.site, **facts)  # no book without wheels: a link
    write_text(folder / "START_HERE.html", start)
    lines = [f"{digest(path)}  {path.relative_to(folder).as_posix()}" for path in _files(folder)]
    write_text(folder / "SHA256SUMS", "\n".join(lines) + "\n")


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in _files(folder))


def pack(folder: Path, target: Path, base: Path | None = None) -> None:
    """Write the folder as a zip, whole or not at all; same files, same bytes; its names begin below `base`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _files(folder):
            os.utime(path, (EPOCH, EPOCH))
            packed = path.suffix in (".whl", ".png", ".pdf", ".zip", ".woff2")
            archive.write(path, path.relative_to(base or folder.parent), zipfile.ZIP_STORED if packed else None)
    os.replace(part, target)
