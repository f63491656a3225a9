"""Python as the gates read it: syntax trees of files and cells, and what they import and define."""

import ast
import contextlib
import re
from functools import lru_cache
from pathlib import Path

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@lru_cache(maxsize=8192)
def parse(source: str) -> ast.Module:
    """The tree of a file or a cell; magics count as nothing, and so does what is no Python (`lint` says so).

    Many gates read the same text, so its tree is kept: nobody changes it.
    """
    plain = re.sub(r"^(\s*)([%!?].*|.*\?)$", r"\1pass", source, flags=re.MULTILINE)
    for text in (source, plain):  # a line of a docstring may end in a question
        with contextlib.suppress(SyntaxError):
            return ast.parse(text)
    return ast.Module(body=[], type_ignores=[])


def parse_file(path: Path) -> ast.Module:
    """The tree of a Python file."""
    return parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.AST) -> list[tuple[int, str]]:
    """(line, top-level name) of every absolute import, wherever it stands."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name.split(".")[0]) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.append((node.lineno, node.module.split(".")[0]))
    return found


def definitions(tree: ast.Module) -> dict[str, int]:
    """The names that the top level defines as functions or classes, with their lines."""
    kinds = (*FUNCTIONS, ast.ClassDef)
    return {node.name: node.lineno for node in tree.body if isinstance(node, kinds)}


def function_lengths(tree: ast.AST) -> list[tuple[str, int, int]]:
    """(name, line, lines) of every function, its docstring not counted."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            first = node.body[0]
            told = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            told = told and isinstance(first.value.value, str)
            docstring = first.end_lineno - first.lineno + 1 if told else 0
            found.append((node.name, node.lineno, node.end_lineno - node.lineno + 1 - docstring))
    return found


def calls(tree: ast.AST, *names: str) -> list[tuple[str, ast.Call]]:
    """(dotted name, call) of every call whose dotted name, or its last part, is among `names`."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            dotted = dotted_name(node.func)
            if dotted in names or dotted.rpartition(".")[2] in names:
                found.append((dotted, node))
    return found


def dotted_name(node: ast.AST) -> str:
    """`a.b.c` of a name or an attribute; "" of anything else but a method, whose object becomes `_`."""
    if isinstance(node, ast.Attribute):
        return f"{dotted_name(node.value) or '_'}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def literal_text(node: ast.AST | None) -> str | None:
    """The text of a string or an f-string, its values left out; None of anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        pieces = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
        return "".join(map(str, pieces))
    return None


def argument(call: ast.Call, position: int, name: str) -> ast.AST | None:
    """The argument of a call by its place or its name; None when it is not given."""
    if len(call.args) > position:
        return call.args[position]
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
