"""Gates on code: module names, the direction of imports, the budgets of lines."""

import ast
import re
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from ...repository import Repository, is_proof, python_files, top_name
from .. import cells, gate
from ..python import function_lengths, parse, parse_file
from ..python import imports as imports_of

HELPERS_TOTAL, PRESS_TOTAL, HELPERS_MODULE, MODULE, FUNCTION = 1600, 8000, 200, 300, 40
FLAT = 10  # modules of a slice that may lie beside its notebook, tests and benches not counted
HOUSE = {"press", "book", "notebooks"}
OWN = {"helpers", "data", "rehearsal"} | HOUSE
LATE = {"torch", "numpy", "scipy", "matplotlib", "tqdm", "yaml", "IPython"}  # what Colab has
KNOW_NO_SLICE = {  # what else their modules may not import, and why
    "helpers": (HOUSE, "helpers know no chapter and no press"),
    "rehearsal": (HOUSE, "a rehearsal knows no chapter"),
    "book/press": ({"torch"}, "the press imports neither torch nor a slice"),
}


@cache
def installed(name: str) -> bool:
    """Whether an installed package is imported by this name."""
    paths = sysconfig.get_paths()
    return PathFinder.find_spec(name, [paths["purelib"], paths["platlib"]]) is not None


@gate
def names(repository: Repository) -> Iterator[tuple]:
    """Notebooks and slice modules have names of their own."""
    stems: dict[str, Path] = {}
    homes: dict[str, Path] = {}
    named = [(stems, chapter.notebook, chapter.stem) for chapter in repository.chapters]
    named += [(homes, path, name) for path, name in importable(repository)]
    for known, path, name in named:
        first = known.setdefault(name, path)
        if first != path:
            yield path, f"{repository.relative(first)} has the same name; one a repository is allowed"
    for path in slice_files(repository):
        if not re.fullmatch(r"[a-z][a-z0-9_]*|__init__", path.stem):
            yield path, f"{path.stem!r} is no module name: lower-case letters, digits and _ are allowed"
    for path, name in importable(repository):
        if hidden := clash(repository, name):
            yield path, hidden


@gate
def rooms(repository: Repository) -> Iterator[tuple]:
    """A slice of more than {FLAT} modules lies in packages, and every slice has its map."""
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
    """The modules of a slice: no tests, no benches, no studies, no faces of packages."""
    found = [path for path in python_files(folder) if not is_proof(path)]
    return [path for path in found if not path.name.startswith(("bench_", "study_", "__init__"))]


def clash(repository: Repository, name: str) -> str | None:
    """What a module of this name would hide outside the slices; None when it hides nothing."""
    if name in sys.stdlib_module_names:
        return f"hides the standard library's module {name}"
    if name in OWN:
        return f"hides the repository's own {name}"
    if name in {package.replace("-", "_") for package in repository.pins} or installed(name):
        return f"hides the installed package {name}"
    return None


def slice_files(repository: Repository) -> list[Path]:
    """Every Python file of every slice, tests and benchmarks included; conftest files are pytest's own."""
    folders = sorted(path for path in (repository.root / "notebooks").glob("*/*") if path.is_dir())
    return [path for folder in folders for path in python_files(folder) if path.name != "conftest.py"]


def importable(repository: Repository) -> list[tuple[Path, str]]:
    """(path, name) of all that can be imported from a slice's folder: the modules in it, and each package once."""
    found = {}
    for path in slice_files(repository):
        home = slice_of(repository, path)
        name = top_name(path, home)
        found.setdefault((home, name), path if path.parent == home else home / name)
    return [(path, name) for (_, name), path in found.items()]


def slice_of(repository: Repository, path: Path) -> Path:
    """The folder of the slice in which a file lies."""
    below = repository.root / "notebooks"
    return below.joinpath(*path.relative_to(below).parts[:2])


@gate
def imports(repository: Repository) -> Iterator[tuple]:
    """Imports point the right way."""
    homes = {name: path.parent for path, name in importable(repository)}
    sources = [(path, None, parse_file(path)) for path in slice_files(repository)]
    sources += [(chapter.notebook, index, parse(cell.source)) for chapter, index, cell in cells(repository, "code")]
    for path, cell, tree in sources:
        own, study = slice_of(repository, path), path.name.startswith("test_study_")
        for line, name in imports_of(tree):
            if homes.get(name, own) != own:
                what = f"imports {name} of {repository.relative(homes[name])}; its own slice, helpers and libraries are"
                yield path, f"{what} allowed", cell, line
            elif name in HOUSE and not (name == "press" and study):
                what = f"imports {name}; nothing does, but a test of a study, which takes `hold` from press.study"
                yield path, what, cell, line
    for folder, (others, why) in KNOW_NO_SLICE.items():
        for path in sorted((repository.root / folder).rglob("*.py")):
            for line, name in imports_of(parse_file(path)):
                if name in homes or name in others:
                    yield path, f"imports {name}; {why}", None, line
    for path in _proper(repository, "helpers"):
        yield from _helper(path, parse_file(path))


def _helper(path: Path, tree: ast.Module) -> Iterator[tuple]:
    for line, name in imports_of(tree):
        if name not in LATE | HOUSE | {"helpers"} and name not in sys.stdlib_module_names:
            yield (path, f"imports {name}; helpers need only what Colab has: {', '.join(sorted(LATE))}", None, line)
    for node in [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]:
        for line, name in imports_of(node):
            if name in LATE:
                yield path, f"imports {name} at once; helpers import it when first used", None, line


@gate
def lines(repository: Repository) -> Iterator[tuple]:
    """Helpers within {HELPERS_TOTAL:,} lines, the press within {PRESS_TOTAL:,}, modules and functions short."""
    for folder, most in (("helpers", HELPERS_TOTAL), ("book/press", PRESS_TOTAL)):
        total = sum(map(_lines, _proper(repository, folder)))
        if total > most:
            yield folder, f"{total:,} lines in all; at most {most:,} are allowed"
    for folder, most in (
        ("helpers", HELPERS_MODULE),
        ("notebooks", MODULE),
        ("book/press", MODULE),
        ("rehearsal", MODULE),
    ):
        for path in _proper(repository, folder):
            if _lines(path) > most:
                yield path, f"{_lines(path)} lines; at most {most} are allowed"
            for name, line, length in function_lengths(parse_file(path)) if folder != "helpers" else ():
                if length > FUNCTION:
                    what = f"{name} has {length} lines without its docstring; at most {FUNCTION} are allowed"
                    yield path, what, None, line


def _proper(repository: Repository, folder: str) -> list[Path]:
    return [path for path in sorted((repository.root / folder).rglob("*.py")) if not is_proof(path)]


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())
