"""Which earlier cells a piece of a notebook needs, found by reading the code.

A name is *wanted* where code reads it before it binds it. Going backwards, a cell is needed when it binds or changes a
wanted name, and then what it reads is wanted in its place. A function's own reads count where the function is
used. Not seen: a change made by calling a method (`rows.append(…)` in a later cell than `rows = []`). So bind and
change in one cell; `press prove --sections` shows that each section starts from the cells found here.
"""

import ast
import builtins
import symtable
from collections.abc import Iterable
from functools import cache

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BRANCHES = (ast.If, ast.While, ast.Try)
LOOPS, CONTEXTS = (ast.For, ast.AsyncFor), (ast.With, ast.AsyncWith)


def needed(cells: list[str], uses: list[str]) -> list[str]:
    """The cells, in order, that `uses` needs, directly or through one another.

    >>> needed(["import math", "a = 1", "b = math.pi + a", "c = 2"], ["c = 3", "print(b, c)"])
    ['import math', 'a = 1', 'b = math.pi + a']
    """
    deferred = _deferred([*cells, *uses])
    wanted = _live(_statements(uses), set(), deferred)
    kept: list[str] = []
    for source in reversed(cells):
        statements = _statements([source])
        if _touched(statements) & wanted:
            kept.append(source)
            wanted = _live(statements, wanted, deferred)
    return kept[::-1]


def wanted(cells: list[str], uses: list[str]) -> set[str]:
    """The names that `uses` reads and the cells make, whatever an `if` or a `try` in them decides.

    >>> sorted(wanted(["a = 1", "b = 2"], ["b = 3", "print(a + b)"]))
    ['a']
    """
    found = _live(_statements(uses), set(), _deferred([*cells, *uses]))
    sure = [node for node in _statements(cells) if not isinstance(node, BRANCHES)]
    return found & _touched(sure) - set(dir(builtins))


def _statements(sources: Iterable[str]) -> list[ast.stmt]:
    return [node for source in sources for node in _parsed(source)]


@cache
def _parsed(source: str) -> list[ast.stmt]:
    """The statements of a cell: one tree for one text, so that what is found in it is found once.

    A chapter asks for each of its sections in turn. Without this, and the caches below, the price grows with the square
    of the chapter.
    """
    return ast.parse(source).body


def _deferred(sources: list[str]) -> dict[str, set[str]]:
    """For each name that may hold a function: what that reads when it is called."""
    found: dict[str, set[str]] = {}
    for node in _statements(sources):
        for name in _touched([node]) if _is_lazy(node) else ():
            found.setdefault(name, set()).update(_reads(node))
    return found


@cache
def _is_lazy(node: ast.stmt) -> bool:
    """Whether the statement makes something that reads names later: a function, a class, a lambda."""
    return isinstance(node, (*FUNCTIONS, ast.ClassDef)) or any(isinstance(x, ast.Lambda) for x in ast.walk(node))


def _live(statements: list[ast.stmt], after: set[str], deferred: dict[str, set[str]]) -> set[str]:
    """The names wanted before the statements, given those wanted after them."""
    live = set(after)
    for node in reversed(statements):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            live.discard(node.name)
        elif isinstance(node, LOOPS + CONTEXTS):
            live |= _live(node.body, live, deferred)
            live -= _stored(node.target if isinstance(node, LOOPS) else node.items)
            live |= _closed(_reads(*_heads(node)), deferred)
        elif isinstance(node, BRANCHES):
            live |= set().union(*(_live(part, live, deferred) for part in _parts(node)))
            live |= _closed(_reads(*_heads(node)), deferred)
        else:
            changed = _touched([node])
            partly = changed - _bound(node)
            live = (live - changed) | partly | _closed(_reads(node), deferred)
    return live


def _parts(node: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks of a compound statement, any of which may run."""
    handlers = [handler.body for handler in getattr(node, "handlers", [])]
    return [getattr(node, name, []) for name in ("body", "orelse", "finalbody")] + handlers


def _heads(node: ast.stmt) -> list[ast.expr]:
    """The expressions that a compound statement reads before its blocks."""
    items = [item.context_expr for item in getattr(node, "items", [])]
    return items + [getattr(node, name) for name in ("iter", "test") if hasattr(node, name)]


def _closed(names: set[str], deferred: dict[str, set[str]]) -> set[str]:
    """The names, with what the functions among them read, and so on."""
    closed, todo = set(), set(names)
    while todo:
        closed |= todo
        todo = set().union(*(deferred.get(name, set()) for name in todo)) - closed
    return closed


def _reads(*nodes: ast.AST) -> set[str]:
    """The names that the code reads from outside, inside its functions too."""
    return set().union(*map(_read_by, nodes))


@cache
def _read_by(node: ast.AST) -> frozenset[str]:
    def outer(table: symtable.SymbolTable) -> set[str]:
        top = table.get_type() == "module"
        own = {one.get_name() for one in table.get_symbols() if one.is_referenced() and (top or one.is_global())}
        return own.union(*map(outer, table.get_children()))

    return frozenset(outer(symtable.symtable(ast.unparse(node), "cell", "exec")))


def _stored(nodes: ast.AST | list) -> set[str]:
    """The names that are assigned anywhere inside."""
    every = [inner for node in (nodes if isinstance(nodes, list) else [nodes]) for inner in ast.walk(node)]
    return {inner.id for inner in every if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)}


@cache
def _bound(node: ast.stmt) -> frozenset[str]:
    """The names that a simple statement gives a new value, whatever they held before."""
    if isinstance(node, ast.AugAssign):
        return frozenset()
    aliases = {(a.asname or a.name).split(".")[0] for a in ast.walk(node) if isinstance(a, ast.alias)}
    return frozenset(aliases | _stored(node))


def _touched(statements: list[ast.stmt]) -> set[str]:
    """The names that the statements bind or change at their top level, in blocks too."""
    return set().union(*map(_touched_by, statements))


@cache
def _touched_by(node: ast.stmt) -> frozenset[str]:
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return frozenset({node.name})
    touched = set(_bound(node)) | _stored(node)
    for inner in ast.walk(node):
        if isinstance(inner, (ast.Subscript, ast.Attribute)) and isinstance(inner.ctx, ast.Store):
            touched.add(_root(inner))
    return frozenset(touched - {""})


def _root(node: ast.expr) -> str:
    """The name at the bottom of `name.a[i].b`; "" if there is none."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
