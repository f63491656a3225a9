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
from .. import Problem, gate
from ..python import function_lengths, imports, parse, parse_file

HELPERS_TOTAL, HELPERS_MODULE, MODULE, FUNCTION = 1600, 200, 300, 40
FLAT = 10  # modules of a slice that may lie beside its notebook, tests and benches not counted
OWN = {"helpers", "press", "book", "notebooks", "data", "rehearsal"}
HELPERS_MAY = {"torch", "numpy", "scipy", "matplotlib", "tqdm", "yaml", "IPython", "helpers"}


@cache
def installed(name: str) -> bool:
    """Whether an installed package is imported by this name."""
    paths = sysconfig.get_paths()
    return PathFinder.find_spec(name, [paths["purelib"], paths["platlib"]]) is not None


@gate(
    "names",
    "notebooks and slice modules have names of their own",
    why="`import rolling_distance` has to mean one thing in a notebook, under pytest and in a worker; receipts "
    "and notebooks for a class go by the notebook's name",
    mend="rename the notebook with its card, or the module (and what imports it)",
)
def names(repository: Repository) -> Iterator[Problem]:
    """Notebooks of one name; modules and packages whose names clash with each other, the library or packages."""
    homes: dict[str, Path] = {}
    stems: dict[str, Path] = {}
    for chapter in repository.chapters:
        first = stems.setdefault(chapter.stem, chapter.notebook)
        if first != chapter.notebook:
            what = f"{repository.relative(first)} has the same name; one a repository is allowed"
            yield Problem(repository.relative(chapter.notebook), what)
    for path in slice_files(repository):
        if not re.fullmatch(r"[a-z][a-z0-9_]*|__init__", path.stem):
            what = f"{path.stem!r} is no module name: lower-case letters, digits and _ are allowed"
            yield Problem(repository.relative(path), what)
    for path, name in importable(repository):
        where = repository.relative(path)
        if name in homes:
            yield Problem(where, f"{repository.relative(homes[name])} has the same name; one a repository is allowed")
        homes.setdefault(name, path)
        hidden = clash(repository, name)
        if hidden:
            yield Problem(where, hidden)


@gate(
    "rooms",
    f"a slice of more than {FLAT} modules lies in packages, and every slice has its map",
    why="a newcomer finds the file for a question in half a minute, or leaves",
    mend="move modules with their tests into packages named by the field's terms; write README.md: which file answers "
    "which question, in reading order",
)
def rooms(repository: Repository) -> Iterator[Problem]:
    """Slices too large to be flat, folders of Python files that are no packages, slices without README.md."""
    for folder in sorted({chapter.home for chapter in repository.chapters}):
        where, files = repository.relative(folder), python_files(folder)
        own, loose = len(own_modules(folder)), [path for path in files if path.parent == folder]
        if own > FLAT and loose:
            yield Problem(where, f"{own} modules, and {len(loose)} Python files lie beside the notebook; none may")
        for inner in sorted({path.parent for path in files} - {folder}):
            if not (inner / "__init__.py").is_file():
                yield Problem(repository.relative(inner), "holds Python files and no __init__.py, so it is no package")
        if not (folder / "README.md").is_file():
            yield Problem(where, "has no README.md")


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


@gate(
    "imports",
    "imports point the right way",
    why="a chapter that needs another chapter, or helpers that know one, can no longer be read or run alone",
    mend="move what is shared into the slice's own folder; into helpers only when three slices need it",
)
def imports_point_the_right_way(repository: Repository) -> Iterator[Problem]:
    """Imports of slices by helpers, by other slices, by the press, and of torch where it is too early."""
    slices = {name: path.parent for path, name in importable(repository)}
    for path in slice_files(repository):
        yield from _foreign(repository, path, parse_file(path), slices, None)
    for chapter in repository.chapters:
        for index, cell in enumerate(chapter.cells):
            if cell.cell_type == "code":
                yield from _foreign(repository, chapter.notebook, parse(cell.source), slices, index)
    for path in sorted((repository.root / "helpers").rglob("*.py")):
        yield from _helper(repository, path, slices)
    for path in sorted((repository.root / "rehearsal").rglob("*.py")):
        for line, name in imports(parse_file(path)):
            if name in slices or name in ("press", "book", "notebooks"):
                yield Problem(repository.relative(path), f"imports {name}; a rehearsal knows no chapter", line=line)
    for path in sorted((repository.root / "book" / "press").rglob("*.py")):
        for line, name in imports(parse_file(path)):
            if name in slices or name == "torch":
                what = f"imports {name}; the press imports neither torch nor a slice"
                yield Problem(repository.relative(path), what, line=line)


def _foreign(repository: Repository, path: Path, tree: ast.AST, slices: dict, cell: int | None) -> Iterator[Problem]:
    for line, name in imports(tree):
        if name in slices and slices[name] != slice_of(repository, path):
            home = repository.relative(slices[name])
            what = f"imports {name} of {home}; its own slice, helpers and libraries are allowed"
            yield Problem(repository.relative(path), what, cell, line)
        elif name in ("press", "book", "notebooks") and not (name == "press" and path.name.startswith("test_study_")):
            what = f"imports {name}; nothing does, but a test of a study, which takes `hold` from press.study"
            yield Problem(repository.relative(path), what, cell, line)


def _helper(repository: Repository, path: Path, slices: dict) -> Iterator[Problem]:
    where, tree = repository.relative(path), parse_file(path)
    test = path.name.startswith(("test_", "conftest"))
    for line, name in imports(tree):
        if name in slices or name in ("press", "book", "notebooks"):
            yield Problem(where, f"imports {name}; helpers know no chapter and no press", line=line)
        elif not test and name not in HELPERS_MAY and name not in sys.stdlib_module_names:
            allowed = ", ".join(sorted(HELPERS_MAY - {"helpers"}))
            yield Problem(where, f"imports {name}; helpers need only what Colab has: {allowed}", line=line)
    for node in tree.body if not test else []:
        early = [name for _, name in imports(node) if name in HELPERS_MAY - {"helpers"}]
        if early and isinstance(node, ast.Import | ast.ImportFrom):
            yield Problem(where, f"imports {early[0]} at once; helpers import it when first used", line=node.lineno)


@gate(
    "lines",
    f"helpers within {HELPERS_TOTAL:,} lines, modules and functions short",
    why="what stays small stays readable; a shared library that grows is read by nobody",
    mend="remove, simplify, or move what only one chapter needs into its slice",
)
def budget(repository: Repository) -> Iterator[Problem]:
    """Files and functions beyond their lines; docstrings do not count in a function, tests nowhere."""
    helpers = _proper(repository, "helpers")
    total = sum(_lines(path) for path in helpers)
    if total > HELPERS_TOTAL:
        yield Problem("helpers", f"{total:,} lines in all; at most {HELPERS_TOTAL:,} are allowed")
    for path in helpers:
        if _lines(path) > HELPERS_MODULE:
            yield Problem(repository.relative(path), f"{_lines(path)} lines; at most {HELPERS_MODULE} are allowed")
    for path in [path for folder in ("notebooks", "book/press", "rehearsal") for path in _proper(repository, folder)]:
        if _lines(path) > MODULE:
            yield Problem(repository.relative(path), f"{_lines(path)} lines; at most {MODULE} are allowed")
        for name, line, length in function_lengths(parse_file(path)):
            if length > FUNCTION:
                what = f"{name} has {length} lines without its docstring; at most {FUNCTION} are allowed"
                yield Problem(repository.relative(path), what, line=line)


def _proper(repository: Repository, folder: str) -> list[Path]:
    found = sorted((repository.root / folder).rglob("*.py"))
    return [path for path in found if not path.name.startswith(("test_", "conftest"))]


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())
