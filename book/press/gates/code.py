"""Gates on code: module names, the direction of imports, the budgets of lines."""

import ast
import importlib.metadata
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from ..cache import versions
from ..model import Repository
from . import Problem, gate
from .python import function_lengths, imports, parse, parse_file

HELPERS_TOTAL, HELPERS_MODULE, MODULE, FUNCTION = 1200, 200, 300, 40
OWN = {"helpers", "press", "book", "notebooks", "data"}
HELPERS_MAY = {"torch", "numpy", "matplotlib", "tqdm", "yaml", "IPython", "helpers"}


@cache
def installed() -> dict[str, list[str]]:
    """The importable top-level names of everything installed, with their packages."""
    return importlib.metadata.packages_distributions()


@gate(
    "names",
    "slice modules have names of their own",
    why="`import rolling_distance` has to mean one thing in a notebook, under pytest and in a worker",
    mend="rename the module (and what imports it)",
)
def names(repository: Repository) -> Iterator[Problem]:
    """Python files of slices whose names clash with each other, the standard library or packages."""
    homes: dict[str, Path] = {}
    for path in slice_files(repository):
        name, where = path.stem, repository.relative(path)
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
            yield Problem(where, f"{name!r} is no module name: lower-case letters, digits and _ are allowed")
        if name in homes:
            yield Problem(where, f"{repository.relative(homes[name])} has the same name; one a repository is allowed")
        homes.setdefault(name, path)
        hidden = clash(repository, name)
        if hidden:
            yield Problem(where, hidden)


def clash(repository: Repository, name: str) -> str | None:
    """What a module of this name would hide outside the slices; None when it hides nothing."""
    if name in sys.stdlib_module_names:
        return f"hides the standard library's module {name}"
    if name in OWN:
        return f"hides the repository's own {name}"
    pinned = {package.lower().replace("-", "_") for package in versions(repository.root)}
    if name in pinned or name in installed():
        return f"hides the installed package {installed().get(name, [name])[0]}"
    return None


def slice_files(repository: Repository) -> list[Path]:
    """Every Python file of every slice, tests and benchmarks included; conftest files are pytest's own."""
    found = sorted((repository.root / "notebooks").glob("*/*/*.py"))
    return [path for path in found if path.name != "conftest.py"]


@gate(
    "imports",
    "imports point the right way",
    why="a chapter that needs another chapter, or helpers that know one, can no longer be read or run alone",
    mend="move what is shared into the slice's own folder; into helpers only when three slices need it",
)
def imports_point_the_right_way(repository: Repository) -> Iterator[Problem]:
    """Imports of slices by helpers, by other slices, by the press, and of torch where it is too early."""
    slices = {path.stem: path.parent for path in slice_files(repository)}
    for path in slice_files(repository):
        yield from _foreign(repository, path, parse_file(path), slices, None)
    for chapter in repository.chapters:
        for index, cell in enumerate(chapter.cells):
            if cell.cell_type == "code":
                yield from _foreign(repository, chapter.notebook, parse(cell.source), slices, index)
    for path in sorted((repository.root / "helpers").rglob("*.py")):
        yield from _helper(repository, path, slices)
    for path in sorted((repository.root / "book" / "press").rglob("*.py")):
        for line, name in imports(parse_file(path)):
            if name in slices or name == "torch":
                what = f"imports {name}; the press imports neither torch nor a slice"
                yield Problem(repository.relative(path), what, line=line)


def _foreign(repository: Repository, path: Path, tree: ast.AST, slices: dict, cell: int | None) -> Iterator[Problem]:
    for line, name in imports(tree):
        if name in slices and slices[name] != path.parent:
            home = repository.relative(slices[name])
            what = f"imports {name} of {home}; its own slice, helpers and libraries are allowed"
            yield Problem(repository.relative(path), what, cell, line)
        elif name in ("press", "book", "notebooks"):
            yield Problem(repository.relative(path), f"imports {name}; nothing imports the press", cell, line)


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
    "budget",
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
    for path in [*_proper(repository, "notebooks"), *_proper(repository, "book/press")]:
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
