"""Python as the gates read it: syntax trees of files and cells, and what they import and define."""

import ast
import contextlib
import re
from functools import lru_cache
from pathlib import Path

from ..repository import Chapter

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@lru_cache(maxsize=8192)
def parse(source: str) -> ast.Module:
    """The tree of a file or a cell, kept for all gates; magics and what is no Python count as nothing."""
    plain = re.sub(r"^(\s*)([%!?].*|.*\?)$", r"\1pass", source, flags=re.MULTILINE)
    for text in (source, plain):  # a line of a docstring may end in a question
        with contextlib.suppress(SyntaxError):
            return ast.parse(text)
    return ast.Module(body=[], type_ignores=[])


def parse_file(path: Path) -> ast.Module:
    """The tree of a Python file."""
    return parse(path.read_text(encoding="utf-8"))


def trees(chapter: Chapter) -> list[ast.Module]:
    """The trees of a chapter: its code cells, its folder's modules."""
    found = [parse(cell.source) for cell in chapter.cells if cell.cell_type == "code"]
    return found + [parse_file(path) for path in chapter.modules()]


def imports(tree: ast.AST) -> list[tuple[int, str]]:
    """(line, top-level name) of every absolute import, wherever it stands."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name.split(".")[0]) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.append((node.lineno, node.module.split(".")[0]))
    return found


def definitions(tree: ast.Module) -> set[str]:
    """The names that the top level defines as functions or classes."""
    return {node.name for node in tree.body if isinstance(node, (*FUNCTIONS, ast.ClassDef))}


def function_lengths(tree: ast.AST) -> list[tuple[str, int, int]]:
    """(name, line, lines) of every function, its docstring not counted."""
    found = []
    for node in [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]:
        first = node.body[0]
        docstring = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) is not None else 0
        found.append((node.name, node.lineno, node.end_lineno - node.lineno + 1 - docstring))
    return found


def calls(tree: ast.AST, *names: str) -> list[tuple[str, ast.Call]]:
    """(dotted name, call) of every call whose dotted name, or its last part, is among `names`."""
    last = {name.rpartition(".")[2] for name in names}
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    own = [node for node in nodes if last & {getattr(node.func, "attr", ""), getattr(node.func, "id", "")}]
    found = [(ast.unparse(node.func), node) for node in own]
    return [(dotted, node) for dotted, node in found if {dotted, dotted.rpartition(".")[2]} & set(names)]


def literal_text(node: ast.AST | None) -> str | None:
    """The text of a string or an f-string, `…` for its values; None of anything else."""
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def argument(call: ast.Call, position: int, name: str) -> ast.AST | None:
    """The argument of a call by its place or its name; None when it is not given."""
    named = {keyword.arg: keyword.value for keyword in call.keywords}
    return call.args[position] if len(call.args) > position else named.get(name)
