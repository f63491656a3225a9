"""Gates on code: names, rooms, the direction of imports, budgets of lines; spelling, by codespell."""

import os
import re
import site
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from ...errors import PressError
from ...repository import Repository, is_proof, python_files, top_name
from .. import cells, gate
from ..python import function_lengths, parse, parse_file
from ..python import imports as imports_of

HELPERS_TOTAL, PRESS_TOTAL, FUNCTION = 1838, 9386, 40  # lower a limit with each cut; courses and press/taught came last
MODULE = {"helpers": 200, "notebooks": 300, "book/press": 300, "rehearsal": 300}
FLAT = 10  # modules of a chapter that may lie beside its notebook, tests and benches not counted
HOUSE = {"press", "book", "notebooks"}
OWN = {"helpers", "data", "rehearsal"} | HOUSE
LATE = {"torch", "numpy", "scipy", "matplotlib", "tqdm", "yaml", "IPython"}  # what Colab has
KNOW_NO_CHAPTER = {  # what else their modules may not import, and why
    "helpers": (HOUSE, "helpers know no chapter and no press"),
    "rehearsal": (HOUSE, "a rehearsal knows no chapter"),
    "book/press": ({"torch"}, "the press imports neither torch nor a chapter"),
}
WORDS = Path(__file__).resolve().parents[1] / "words.txt"
SKIPPED = {"_build", "node_modules", "__pycache__", "mathjax"}
SUFFIXES = (".md", ".py", ".yml", ".toml", ".cff", ".js", ".css", ".sh", ".txt")


@gate
def names(repository: Repository) -> Iterator[tuple]:
    """Notebooks and chapter modules have names of their own."""
    stems, homes = {}, {}
    named = [(stems, chapter.notebook, chapter.stem) for chapter in repository.chapters]
    named += [(homes, path, name) for path, name in importable(repository)]
    for known, path, name in named:
        if (first := known.setdefault(name, path)) != path:
            yield path, f"{repository.relative(first)} has the same name; one a repository is allowed"
    for path in chapter_files(repository):
        if not re.fullmatch(r"[a-z][a-z0-9_]*|__init__", path.stem):
            yield path, f"{path.stem!r} is no module name: lower-case letters, digits and _ are allowed"
    for path, name in importable(repository):
        if hidden := clash(repository, name):
            yield path, hidden


@gate
def rooms(repository: Repository) -> Iterator[tuple]:
    """A chapter of more than {FLAT} modules lies in packages, and every chapter has its map."""
    for folder in sorted({chapter.home for chapter in repository.chapters}):
        files, own = python_files(folder), len(own_modules(folder))
        loose = [path for path in files if path.parent == folder]
        if own > FLAT and loose:
            yield folder, f"{own} modules, and {len(loose)} Python files lie beside the notebook; none may"
        for inner in sorted({path.parent for path in files} - {folder}):
            if not (inner / "__init__.py").is_file():
                yield inner, "holds Python files and no __init__.py, so it is no package"
        if not (folder / "README.md").is_file():
            yield folder, "has no README.md"


def own_modules(folder: Path) -> list[Path]:
    """The modules of a chapter: no tests, no benches, no studies, no faces of packages."""
    others = ("test_", "conftest", "bench_", "study_", "__init__")
    return [path for path in python_files(folder) if not path.name.startswith(others)]


def clash(repository: Repository, name: str) -> str | None:
    """What a module of this name would hide outside the chapters; None when it hides nothing."""
    if name in sys.stdlib_module_names:
        return f"hides the standard library's module {name}"
    if name in OWN:
        return f"hides the repository's own {name}"
    pinned = name in {package.replace("-", "_") for package in repository.pins}
    there = pinned or PathFinder.find_spec(name, site.getsitepackages())
    return f"hides the installed package {name}" if there else None


def chapter_files(repository: Repository) -> list[Path]:
    """Every Python file of every chapter, tests and benchmarks included; conftest files are pytest's own."""
    folders = sorted(path for path in (repository.root / "notebooks").glob("*/*") if path.is_dir())
    return [path for folder in folders for path in python_files(folder) if path.name != "conftest.py"]


def importable(repository: Repository) -> list[tuple[Path, str]]:
    """(path, name) of all that can be imported from a chapter's folder: the modules in it, and each package once."""
    homes = [(folder_of(repository, path), path) for path in chapter_files(repository)]
    found = {home / path.relative_to(home).parts[0]: top_name(path, home) for home, path in homes}
    return list(found.items())


def folder_of(repository: Repository, path: Path) -> Path:
    """The folder of the chapter in which a file lies."""
    below = repository.root / "notebooks"
    return below.joinpath(*path.relative_to(below).parts[:2])


@gate
def imports(repository: Repository) -> Iterator[tuple]:
    """Imports point the right way."""
    homes = {name: path.parent for path, name in importable(repository)}
    sources = [(path, None, parse_file(path)) for path in chapter_files(repository)]
    sources += [(chapter.notebook, index, parse(cell.source)) for chapter, index, cell in cells(repository, "code")]
    for path, cell, tree in sources:
        own, study = folder_of(repository, path), path.name.startswith("test_study_")
        for line, name in imports_of(tree):
            if homes.get(name, own) != own:
                what = f"imports {name} of {repository.relative(homes[name])}; allowed are its own chapter"
                yield path, f"{what}, helpers and libraries", cell, line
            elif name in HOUSE and not (name == "press" and study):
                what = f"imports {name}; nothing does, but a test of a study, which takes `hold` from press.study"
                yield path, what, cell, line
    for folder, (others, why) in KNOW_NO_CHAPTER.items():
        for path in sorted((repository.root / folder).rglob("*.py")):
            for line, name in imports_of(parse_file(path)):
                if name in homes or name in others:
                    yield path, f"imports {name}; {why}", None, line
    for path in _proper(repository, "helpers"):  # that they load none of it at once is a test of theirs
        for line, name in imports_of(parse_file(path)):
            if name not in {"helpers", *LATE, *HOUSE, *sys.stdlib_module_names}:
                what = f"imports {name}; helpers need only what Colab has: {', '.join(sorted(LATE))}"
                yield path, what, None, line


@gate
def lines(repository: Repository) -> Iterator[tuple]:
    """Helpers within {HELPERS_TOTAL:,} lines, the press within {PRESS_TOTAL:,}, modules and functions short."""
    for folder, most in (("helpers", HELPERS_TOTAL), ("book/press", PRESS_TOTAL)):
        total = sum(map(_lines, _proper(repository, folder)))
        if total > most:
            yield folder, f"{total:,} lines in all; at most {most:,} are allowed"
    for path, most in [(path, most) for folder, most in MODULE.items() for path in _proper(repository, folder)]:
        if _lines(path) > most:
            yield path, f"{_lines(path)} lines; at most {most} are allowed"
        for name, line, length in function_lengths(parse_file(path)):
            if length > FUNCTION:
                what = f"{name} has {length} lines without its docstring; at most {FUNCTION} are allowed"
                yield path, what, None, line


def _proper(repository: Repository, folder: str) -> list[Path]:
    return [path for path in sorted((repository.root / folder).rglob("*.py")) if not is_proof(path)]


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def texts(root: Path) -> list[Path]:
    """Every text below the root that its authors wrote; hidden and generated folders are left out."""
    found = []
    for folder, inner, files in os.walk(root):
        inner[:] = [name for name in inner if name not in SKIPPED and name[0] != "."]
        found += [Path(folder, name) for name in files if name.endswith(SUFFIXES)]
    return sorted(found)


@gate
def spelling(repository: Repository) -> Iterator[tuple]:
    """No word is misspelt."""
    sources = [(path, None, path.read_text(encoding="utf-8")) for path in texts(repository.root)]
    sources += [(chapter.notebook, index, cell.source) for chapter, index, cell in cells(repository)]
    rows = [(where, cell, line, row) for where, cell, text in sources for line, row in enumerate(text.split("\n"), 1)]
    command = ["codespell_lib", "--ignore-words", str(WORDS), "--builtin", "clear,rare", "--stdin-single-line", "-"]
    whole = "\n".join(row for *_, row in rows)  # codespell reads all of them as one, in one go
    how = {"input": whole, "capture_output": True, "encoding": "utf-8"}
    done = subprocess.run([sys.executable, "-m", *command], cwd=repository.root, **how)
    found = re.findall(r"^(\d+): (.*)$", done.stdout, re.MULTILINE)
    if done.returncode and not found:  # otherwise than by a finding
        said = (done.stderr or done.stdout).strip()
        raise PressError(f"codespell failed with status {done.returncode}: {said[-500:]}")
    for number, word in found:
        where, cell, line, _ = rows[int(number) - 1]
        yield where, f"“{word}”", cell, line
