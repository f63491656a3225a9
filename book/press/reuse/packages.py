"""What code imports: modules of the repository, and installed packages with all that these need, with versions. It
reads the code and never runs it: imports inside functions count, names given as text to `import_module` and the like,
and what an `if` leaves out, since too much in a key costs a run, too little a lie."""

import ast
import functools
import importlib.metadata
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..repository import plain_name

TOOLS = {"pytest", "hypothesis", "ruff", "playwright", "sphinx", "setuptools"}  # count only where code imports them
FRONTS = {"ipython"}  # what these need (an editor's completion, colours) reaches no page
INSTALLED = functools.cache(importlib.metadata.packages_distributions)
BY_NAME = ("import_module", "importorskip", "find_spec", "__import__")


@functools.lru_cache(maxsize=8192)
def imported(source: str, package: str = "") -> frozenset[str]:
    """The dotted names that some code imports, none where it does not parse; relative imports start from `package`.

    For `from a import b` both `a` and `a.b` are named, since `b` may be a module.

    >>> sorted(imported("import numpy as np\\nfrom helpers import bench"))
    ['helpers', 'helpers.bench', 'numpy']
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return frozenset()
    return frozenset(name for node in ast.walk(tree) for name in _names(node, package))


def imported_by_cell(source: str) -> frozenset[str]:
    """The dotted names that a notebook's cell imports, whatever of IPython's own signs (`%`, `!`, `?`) it uses."""
    from IPython.core.inputtransformer2 import TransformerManager

    if "import" not in source and "find_spec" not in source:  # most cells: reading them took a fifth of the keys' time
        return frozenset()
    first, _, body = source.lstrip().partition("\n")
    return imported(TransformerManager().transform_cell(body if first.startswith("%%") else source))


def _names(node: ast.AST, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        base = ".".join([*above, node.module or ""]).strip(".")
        yield from (name for name in (base, *(f"{base}.{alias.name}" for alias in node.names)) if base)
    elif isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "name")]
        texts = [one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        for text in texts if called in BY_NAME else ():
            yield (f"{package}{text}" if package else text.lstrip(".")) if text.startswith(".") else text


def imports_of(path: Path, home: Path) -> set[str]:
    """The names that a module imports; `home` is the folder from which its own dotted name counts."""
    return imported(path.read_text(encoding="utf-8"), ".".join(path.relative_to(home).parts[:-1]))


def reached(names: Iterable[str], home: Path) -> set[Path]:
    """The modules below `home` that these imports reach, by their own imports too, with the packages they lie in."""
    found, seen, todo = set(), set(), set(names)
    while todo:
        seen.add(name := todo.pop())
        stem = home.joinpath(*name.split("."))
        path = next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()), None)
        if path:
            found.add(path)
            todo |= imports_of(path, home) - seen
        todo |= {name.rpartition(".")[0]} - seen - {""}
    return found


@functools.cache
def providers(name: str) -> set[str]:
    """The installed packages that are imported under a name; where there is none, the name itself."""
    return {plain_name(package) for package in INSTALLED().get(name, [name])}


@functools.cache
def version(package: str) -> str:
    """The installed version of a package; "absent" for one that is not there."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


@functools.cache
def needs(package: str) -> frozenset[str]:
    """The names of the packages that an installed one asks for on this machine, without its extras."""
    from packaging.requirements import Requirement

    asked = map(Requirement, importlib.metadata.requires(package) or () if version(package) != "absent" else ())
    return frozenset(plain_name(one.name) for one in asked if not one.marker or one.marker.evaluate({"extra": ""}))


def versions(names: Iterable[str], own: Iterable[str] = ()) -> dict[str, str]:
    """The versions of the packages behind these imports and of all that they need, test tools apart; "absent" for what
    is not there. `own`: top-level names of the repository."""
    tops = {name.partition(".")[0] for name in names} - set(own) - sys.stdlib_module_names
    todo = {package for top in tops for package in providers(top)}
    found: dict[str, str] = {}
    while todo:
        package = todo.pop()
        found[package] = version(package)
        todo |= (needs(package) if package not in FRONTS else set()) - TOOLS - found.keys()
    return dict(sorted(found.items()))
