"""`press new`: a part, a chapter, or one more notebook in a slice; each passes every gate from its first minute."""

import re
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

import nbformat
import yaml

from ..colab import setup_cell
from ..errors import PressError
from ..files import remove, write_text
from ..gates.house.code import FLAT, clash, importable, own_modules
from ..repository import Chapter, Repository
from .contents import caption_of, landing, with_chapter, with_part

SCAFFOLD = Path(__file__).resolve().parent
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
ROLES = ("exercise", "hint", "stub", "checker", "solution", "wrong")
CELL = re.compile(r"^=== (markdown|code)([^|\n]*)(?:\| (.*))?\n", re.MULTILINE)
FLAT_FILES = {"module": "{0}", "test": "test_{0}", "bench": "bench_{0}", "bench_test": "test_bench_{0}"}
PACKAGE_FILES = {"face": "{0}/__init__", "module": "{0}/sums", "test": "{0}/test_sums"}
PACKAGE_FILES |= {"bench": "{0}/bench_{0}", "bench_test": "{0}/test_bench_{0}"}


def new_part(repository: Repository, name: str) -> list[Path]:
    """The paths made or changed for a new, empty part: its folder and its caption in `_toc.yml`."""
    _check_name(name, "part")
    folder = repository.root / "notebooks" / name
    if folder.exists():
        raise PressError(f"the part {name} is there already: {repository.relative(folder)}")
    contents = with_part(repository, name)
    keep = write_text(folder / ".gitkeep", "")
    return [keep, write_text(repository.root / "_toc.yml", contents)]


def new_chapter(repository: Repository, name: str) -> list[Path]:
    """The paths made or changed for a new chapter PART/NAME; nothing is made when anything is in the way."""
    chapter = _named(repository, name, "chapter", "PART/NAME is allowed, such as signals/rolling_distance")
    if not chapter.home.parent.is_dir():
        raise PressError(f"there is no part {chapter.part}; `new part {chapter.part}` makes it")
    if chapter.home.exists():
        raise PressError(f"the chapter {name} is there already: {repository.relative(chapter.home)}")
    _check_free(repository, chapter.stem)
    made = _write(repository, chapter, FLAT_FILES)
    (chapter.home.parent / ".gitkeep").unlink(missing_ok=True)
    return made


def new_notebook(repository: Repository, name: str) -> list[Path]:
    """The paths made or changed for one more notebook PART/SLICE/NAME: its card, and a package of its own name."""
    chapter = _named(repository, name, "notebook", "PART/SLICE/NAME is allowed, such as speech/asr/asr_streaming")
    if not any(other.home == chapter.home for other in repository.chapters):
        raise PressError(f"there is no slice {chapter.part}/{chapter.folder}; `new chapter` makes one")
    _check_free(repository, chapter.stem)
    loose = any(path.suffix == ".py" for path in chapter.home.iterdir())
    if loose and len(own_modules(chapter.home)) >= FLAT:
        where = repository.relative(chapter.home)
        raise PressError(f"{where} is flat and has {FLAT} modules or more; move them into packages first")
    beside = [other.card.get("data") or [] for other in repository.chapters if other.home == chapter.home]
    modules = "".join(path.read_text(encoding="utf-8") for path in chapter.home.rglob("*.py"))
    fetched = {name for names in beside for name in names if f'fetch("{name}"' in modules}
    return _write(repository, chapter, PACKAGE_FILES, sorted(fetched))


def _named(repository: Repository, name: str, what: str, allowed: str) -> Chapter:
    """The Chapter of this name; PressError for a name that is none."""
    parts = name.split("/")
    if len(parts) != allowed.partition(" ")[0].count("/") + 1:
        raise PressError(f"{name!r} is no {what}; {allowed}")
    _check_name(parts[0], "part")
    for part in parts[1:]:
        _check_name(part, what)
    return Chapter(repository.root, parts[0], parts[1], parts[-1])


def _check_free(repository: Repository, stem: str) -> None:
    """PressError when the notebook, or its module, test or bench, would meet another of the same name."""
    wanted = {stem, f"test_{stem}", f"bench_{stem}", f"test_bench_{stem}"}
    taken = [other.notebook for other in repository.chapters if other.stem == stem]
    taken += [path for path, known in importable(repository) if known in wanted]
    reason = f"has the name of {repository.relative(taken[0])}" if taken else clash(repository, stem)
    if reason:
        raise PressError(f"{stem} {reason}; choose another name")


def _check_name(name: str, what: str) -> None:
    if not NAME.fullmatch(name):
        raise PressError(f"{name!r} is no name for a {what}: lower-case letters, digits and single _ are allowed")


def _write(repository: Repository, chapter: Chapter, files: dict[str, str], data: Sequence[str] = ()) -> list[Path]:
    """The paths of a notebook's files, written aside and moved to their places, and of what they are entered in.

    `data`: what the slice's modules fetch, which the cards of all its notebooks name.
    """
    contents, home = with_chapter(repository, chapter), chapter.home
    aside = home.parent / f".{chapter.stem}.{uuid.uuid4().hex[:8]}.part"
    try:
        for template, name in files.items():
            write_text(aside / f"{name.format(chapter.stem)}.py", _filled(f"{template}.py.txt", chapter, files))
        card = _filled("card.yml.txt", chapter, files).replace("@DATA@", ", ".join(data))
        write_text(aside / f"{chapter.stem}.yml", card)
        nbformat.write(_notebook(repository, chapter, files), aside / f"{chapter.stem}.ipynb")
        _in_order(repository, aside)
        whole = home / "README.md"
        known = whole.read_text(encoding="utf-8").rstrip() + "\n\n" if whole.exists() else ""
        write_text(aside / "README.md", known + _filled("readme.md.txt", chapter, files, bool(known)))
        made = [home / path.relative_to(aside) for path in sorted(aside.rglob("*")) if path.is_file()]
        home.mkdir(exist_ok=True)
        for path in sorted(aside.iterdir()):
            path.replace(home / path.name)
    finally:
        remove(aside)
    references = repository.root / "book" / "references.bib"
    known = references.read_text(encoding="utf-8") if references.exists() else ""
    write_text(references, f"{known.rstrip()}\n\n{_bib_entry(chapter)}".lstrip())
    page = repository.root / f"{landing(chapter.part)}.md"
    if f"file: {landing(chapter.part)}" in contents and not page.exists():
        words = f"# {caption_of(chapter.part)}\n\nWhat the chapters of this part are about.\n"
        made.append(write_text(page, f"{words}\n<!-- press:gallery-{chapter.part} -->\n"))
    return [*made, references, write_text(repository.root / "_toc.yml", contents)]


def _in_order(repository: Repository, folder: Path) -> None:
    """Sort the imports and lines as ruff wants them: the chapter's name decides where its import stands."""
    for command in (["check", "--fix", "--select", "I"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--quiet", "--no-cache", str(folder)]
        done = subprocess.run(ruff, cwd=repository.root, capture_output=True, text=True)
        if done.returncode:
            raise PressError(f"ruff {command[0]} failed on the scaffold: {(done.stderr or done.stdout).strip()}")


def _filled(template: str, chapter: Chapter, files: dict[str, str], below: bool = False) -> str:
    text = (SCAFFOLD / template).read_text(encoding="utf-8")
    places = {name.upper(): place.format(chapter.stem) for name, place in files.items()}
    marks = {"NAME": chapter.stem, "PART": chapter.part, "KEY": f"{chapter.stem}_article", **places}
    marks |= {"SHORT": chapter.stem.replace("_", " ").capitalize()[:28]}
    marks |= {"TITLE": f"Rebuild {chapter.stem.replace('_', ' ')}", "LEVEL": "##" if below else "#"}
    marks |= {"BENCH": places["BENCH"].replace("/", "."), "IMPORT": ".sums" if "FACE" in places else chapter.stem}
    marks["FROM"] = "from . " if "FACE" in places else ""
    for mark, value in marks.items():
        text = text.replace(f"@{mark}@", value)
    return text


def _notebook(repository: Repository, chapter: Chapter, files: dict[str, str]) -> nbformat.NotebookNode:
    """The notebook of the scaffold: `=== kind tag | message` starts a cell."""
    pieces = CELL.split(_filled("notebook.txt", chapter, files))[1:]
    (exercise,) = yaml.safe_load(_filled("card.yml.txt", chapter, files).replace("@DATA@", ""))["exercises"]
    cells = []
    for kind, tags, message, source in zip(*[iter(pieces)] * 4, strict=True):
        make = nbformat.v4.new_markdown_cell if kind == "markdown" else nbformat.v4.new_code_cell
        named = tags.split()
        text = setup_cell.text(repository, chapter) if named == ["setup"] else source.strip("\n")
        cell = make(text, metadata={"tags": named} if named else {})
        if set(named) & set(ROLES):
            cell.metadata["exercise"] = {key: exercise[key] for key in ("id", "kind", "minutes")}
        if message:
            cell.metadata["exercise"]["message"] = message
        cell.id = f"{chapter.stem[:40]}-{len(cells):02d}".replace("_", "-")
        cells.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def _bib_entry(chapter: Chapter) -> str:
    fields = f"  author = {{The author}},\n  title  = {{The article behind {chapter.name}}},\n  year   = {{2020}}\n"
    return f"@misc{{{chapter.stem}_article,\n{fields}}}\n"
