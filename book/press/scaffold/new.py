"""`press new`: a part, a chapter, or one more notebook in a chapter; each passes every gate from its first minute."""

import re
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

import nbformat

from ..colab import setup_cell
from ..errors import PressError, finished
from ..files import remove, write_text
from ..gates.house.code import FLAT, clash, importable, own_modules
from ..repository import Chapter, Repository

SCAFFOLD = Path(__file__).resolve().parent
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
BESIDE = {"bench": "bench_{0}", "bench_test": "test_bench_{0}", "rehearsed": "rehearsed_{0}"}
FLAT_FILES = {"module": "{0}", "test": "test_{0}", **BESIDE}
PACKAGE_FILES = {"face": "{0}/__init__", "module": "{0}/sums", "test": "{0}/test_sums"}
ROOM = FLAT - 2  # modules beside which a notebook more, with its two, leaves a chapter flat
PACKAGE_FILES |= {name: f"{{0}}/{place}" for name, place in BESIDE.items()}


def new_part(repository: Repository, name: str) -> list[Path]:
    """The paths made or changed for a new, empty part: its page, and its entry in `_toc.yml` after the last part."""
    _check_name(name, "part")
    rows = repository.text("_toc.yml").splitlines()
    if any(re.match(rf"\s*- file: (notebooks/{name}/|{landing(name)}\b)", row) for row in rows):
        raise PressError(f"the part {name} is there already: _toc.yml names it")
    captions = [(number, row.partition("-")[0]) for number, row in enumerate(rows) if re.match(r"\s*- caption:", row)]
    last = max((n for n, row in enumerate(rows) if re.search(r"file: (notebooks/|book/part_)", row)), default=0)
    if not captions or not last:
        raise PressError("_toc.yml has no part with chapters to put the new one after; add the part by hand")
    end, indent = next((n for n, _ in captions if n > last), len(rows)), captions[0][1]
    caption = name.replace("_", " ").capitalize()
    rows[end:end] = [f"{indent}- caption: {caption}", f"{indent}  chapters:", f"{indent}    - file: {landing(name)}"]
    words = f"# {caption}\n\nWhat the chapters of this part are about.\n\n<!-- press:gallery-{name} -->\n"
    made = write_text(repository.root / f"{landing(name)}.md", words)
    return [made, write_text(repository.root / "_toc.yml", "\n".join(rows) + "\n")]


def new_chapter(repository: Repository, name: str) -> list[Path]:
    """The paths made or changed for a new chapter PART/NAME; nothing is made when anything is in the way."""
    chapter = _named(repository, name, "chapter", "PART/NAME is allowed, such as signals/rolling_distance")
    if chapter.home.exists():
        raise PressError(f"the chapter {name} is there already: {repository.relative(chapter.home)}")
    return _write(repository, chapter, FLAT_FILES)


def new_notebook(repository: Repository, name: str) -> list[Path]:
    """The paths made or changed for one more notebook PART/CHAPTER/NAME: its card, and a package of its own name."""
    chapter = _named(repository, name, "notebook", "PART/CHAPTER/NAME is allowed, such as speech/asr/asr_streaming")
    beside = [other for other in repository.chapters if other.home == chapter.home]
    if not beside:
        where = f"{chapter.part}/{chapter.folder}"
        raise PressError(f"there is no chapter {where}; `make new CHAPTER={where}` makes it")
    if any(chapter.home.glob("*.py")) and len(own_modules(chapter.home)) > ROOM:
        where = repository.relative(chapter.home)
        raise PressError(f"{where} is flat and has more than {ROOM} modules; move them into packages first")
    modules = "".join(path.read_text(encoding="utf-8") for path in chapter.modules(proofs=True))
    listed = {data for other in beside for data in other.card.get("data") or []}
    return _write(repository, chapter, PACKAGE_FILES, sorted(one for one in listed if f'fetch("{one}"' in modules))


def landing(part: str) -> str:
    """The page of a part, with the cards of its chapters."""
    return f"book/part_{part}"


def _named(repository: Repository, name: str, what: str, allowed: str) -> Chapter:
    """The notebook of this name; PressError for a name that is none."""
    parts = name.split("/")
    if len(parts) != allowed.partition(" ")[0].count("/") + 1:
        raise PressError(f"{name!r} is no {what}; {allowed}")
    for part, kind in zip(parts, ("part", what, what), strict=False):
        _check_name(part, kind)
    return Chapter(repository.root, parts[0], parts[1], parts[-1])


def _check_name(name: str, what: str) -> None:
    if not NAME.fullmatch(name):
        raise PressError(f"{name!r} is no name for a {what}: lower-case letters, digits and single _ are allowed")


def _write(repository: Repository, chapter: Chapter, files: dict[str, str], data: Sequence[str] = ()) -> list[Path]:
    """The paths of a notebook's files, written aside and moved to their places, and of what they are entered in.
    `data`: what the chapter's modules fetch, for the card."""
    wanted = {place.format(chapter.stem) for place in FLAT_FILES.values()}
    taken = [other.notebook for other in repository.chapters if other.stem == chapter.stem]
    taken += [path for path, known in importable(repository) if known in wanted]
    same = f"has the name of {repository.relative(taken[0])}" if taken else ""
    if reason := same or clash(repository, chapter.stem):
        raise PressError(f"{chapter.stem} {reason}; choose another name")
    contents, home = _with(repository, chapter), chapter.home
    aside = repository.root / "notebooks" / f".{chapter.stem}.{uuid.uuid4().hex[:8]}.part"
    known = repository.text(f"{repository.relative(home)}/README.md").rstrip()
    texts = {f"{name.format(chapter.stem)}.py": f"{template}.py.txt" for template, name in files.items()}
    texts |= {f"{chapter.stem}.yml": "card.yml.txt", "README.md": "readme.md.txt"}
    marks = _marks(chapter, files) | {"DATA": ", ".join(data), "LEVEL": "##" if known else "#"}
    marks["DISK"] = str(1 + int(repository.megabytes(data)))
    notebook = nbformat.reads(_filled("notebook.ipynb.txt", marks), as_version=4)
    notebook.cells[1].source = setup_cell.text(repository, chapter)
    try:
        for name, template in texts.items():
            text = _filled(template, marks)
            write_text(aside / name, f"{known}\n\n{text}" if name == "README.md" and known else text)
        nbformat.write(notebook, aside / f"{chapter.stem}.ipynb")
        for command in (["check", "--fix", "--select", "I"], ["format"]):  # a name decides where its import stands
            ruff = [sys.executable, "-m", "ruff", *command, "--quiet", "--no-cache", aside]
            finished(f"ruff {command[0]} failed on the scaffold", *ruff, cwd=repository.root)
        made = [home / path.relative_to(aside) for path in sorted(aside.rglob("*")) if path.is_file()]
        home.mkdir(parents=True, exist_ok=True)
        for path in sorted(aside.iterdir()):
            path.replace(home / path.name)
    finally:
        remove(aside)
    cited = f"{repository.text('book/references.bib').rstrip()}\n\n{_filled('article.bib.txt', marks)}".lstrip()
    made.append(write_text(repository.root / "book" / "references.bib", cited))
    return [*made, write_text(repository.root / "_toc.yml", contents)]


def _with(repository: Repository, chapter: Chapter) -> str:
    """`_toc.yml` with the notebook behind the last of its chapter, else of its part, else behind the part's page."""
    rows = repository.text("_toc.yml").splitlines()
    for start in (f"notebooks/{chapter.part}/{chapter.folder}/", f"notebooks/{chapter.part}/", landing(chapter.part)):
        own = [number for number, row in enumerate(rows) if re.match(rf"\s*- file: {start}\b", row)]
        if own:
            rows.insert(own[-1] + 1, f"{rows[own[-1]].partition('-')[0]}- file: {chapter.document}")
            return "\n".join(rows) + "\n"
    raise PressError(f"_toc.yml has no part {chapter.part}; `make new PART={chapter.part}` makes it")


def _marks(chapter: Chapter, files: dict[str, str]) -> dict[str, str]:
    marks = {name.upper(): place.format(chapter.stem) for name, place in files.items()}
    marks |= {"NAME": chapter.stem, "PART": chapter.part, "WORDS": chapter.stem.replace("_", " ")}
    packed = "FACE" in marks
    marks |= {"SHORT": marks["WORDS"].capitalize()[:28], "BENCH": marks["BENCH"].replace("/", ".")}
    return marks | {"IMPORT": ".sums" if packed else chapter.stem, "FROM": "from . " if packed else ""}


def _filled(template: str, marks: dict[str, str]) -> str:
    text = (SCAFFOLD / template).read_text(encoding="utf-8")
    return re.sub(r"@([A-Z]+)@", lambda mark: marks[mark[1]], text)
