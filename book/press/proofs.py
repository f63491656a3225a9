"""Exercises proved both ways: the stub and every plausible wrong answer fail their checker, the solution passes.

An exercise is run with what it needs and no more: the earlier cells that define the names it uses, found by
reading the code. So a proof takes seconds where the chapter takes a minute.
"""

import ast
import json
import os
import subprocess
import symtable
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .errors import PressError
from .model import Chapter, Repository, tags

TIMEOUT_SECONDS = 300
ROLES = ("checker", "stub", "solution", "wrong")
RUNNER = """
import json, sys
state = {"__name__": "__main__"}
for attempt in json.load(open(sys.argv[1])):
    try:
        for source in attempt["sources"]:
            exec(compile(source, attempt["what"], "exec"), state)
        said = None
    except Exception as error:
        kind = "AssertionError" if isinstance(error, AssertionError) else "error"
        said = [kind, type(error).__name__, str(error)]
    print("\\n::proof " + json.dumps([attempt["what"], said]), flush=True)
"""


class Proof(NamedTuple):
    """One attempt at an exercise: who tried, and what is wrong with the outcome ("" if nothing is)."""

    exercise: str
    attempt: str
    problem: str


def prove(repository: Repository, chapter: Chapter) -> list[Proof]:
    """Every attempt of every exercise of the chapter, judged.

    Raises PressError when the cells that the exercises need cannot run, or take longer than five minutes.
    """
    attempts = list(_attempts(chapter))
    if not attempts:
        return []
    said = _run(repository, chapter, attempts)
    if said[0] is not None:
        raise PressError(f"{chapter}: what the exercises need does not run: {said[0][1]}: {said[0][2]}")
    return [
        Proof(attempt["exercise"], attempt["role"], _problem(attempt, heard))
        for attempt, heard in zip(attempts, said[1:], strict=True)
    ]


def _attempts(chapter: Chapter) -> Iterator[dict]:
    """What to try, in the notebook's order: a stub, wrong answers with the words they must meet, the solution."""
    cells = chapter.cells
    checkers = {cell.metadata["exercise"]["id"]: cell.source for cell in cells if "checker" in tags(cell)}
    for cell in cells:
        role = next((role for role in ROLES if role in tags(cell)), None)
        about = cell.metadata.get("exercise", {})
        if role and role != "checker":
            source = cell.source
            if role != "solution":  # a solution calls its checker itself
                source += f"\n{defined(checkers[about['id']])}({defined(cell.source)})"
            facts = {"exercise": about["id"], "role": role, "message": about.get("message", "")}
            yield facts | {"sources": [checkers[about["id"]], source]}


def defined(source: str) -> str:
    """The name of the last function that a cell defines."""
    return [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)][-1]


def _problem(attempt: dict, heard: list | None) -> str:
    if attempt["role"] == "solution":
        return f"the solution fails: {heard[1]}: {heard[2]}" if heard else ""
    if heard is None:
        return "the checker lets it pass"
    if heard[0] != "AssertionError":
        return f"it stops with {heard[1]} instead of the checker's words: {heard[2]}"
    if attempt["message"] not in heard[2]:
        return f"the checker says {heard[2]!r}, not {attempt['message']!r}"
    return ""


def _run(repository: Repository, chapter: Chapter, attempts: list[dict]) -> list:
    """What each attempt was told, None where nothing was wrong; the first is about the cells needed."""
    sources = [source for attempt in attempts for source in attempt["sources"]]
    plain = [cell for cell in chapter.cells if cell.cell_type == "code" and not cell.metadata.get("exercise")]
    before = {"what": "before", "sources": needed([cell.source for cell in plain], sources)}
    tries = [{"what": f"{one['exercise']}, {one['role']}", "sources": one["sources"]} for one in attempts]
    path = [str(repository.root), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(chapter.home), *path]), "REBUILT_TIER": "cpu"}
    with tempfile.TemporaryDirectory(prefix="press-proof-") as scratch:
        todo = Path(scratch) / "attempts.json"
        todo.write_text(json.dumps([before, *tries]), encoding="utf-8")
        command = [sys.executable, "-c", RUNNER, str(todo)]
        environment["REBUILT_RECEIPTS"] = scratch
        limits = {"timeout": TIMEOUT_SECONDS, "cwd": chapter.home, "env": environment}
        try:
            done = subprocess.run(command, capture_output=True, text=True, **limits)
        except subprocess.TimeoutExpired:
            raise PressError(f"{chapter}: the exercises took longer than {TIMEOUT_SECONDS} s") from None
    heard = [line.removeprefix("::proof ") for line in done.stdout.splitlines() if line.startswith("::proof ")]
    if len(heard) != len(tries) + 1:
        raise PressError(f"{chapter}: the proof ended early:\n{done.stderr.strip()[-2000:]}")
    return [json.loads(line)[1] for line in heard]


def needed(cells: list[str], uses: list[str]) -> list[str]:
    """The cells, in order, that define what `uses` needs, directly or through one another.

    >>> needed(["import math", "a = 1", "b = math.pi + a", "c = 2"], ["print(b)"])
    ['import math', 'a = 1', 'b = math.pi + a']
    """
    wanted = set().union(*map(_used, uses))
    kept: list[str] = []
    for source in reversed(cells):
        made = _made(source)
        if made & wanted:
            kept.append(source)
            wanted |= _used(source)
    return kept[::-1]


def _used(source: str) -> set[str]:
    """The names that a cell reads from outside, inside its functions too."""

    def outer(table: symtable.SymbolTable) -> set[str]:
        top = table.get_type() == "module"
        own = {one.get_name() for one in table.get_symbols() if one.is_referenced() and (top or one.is_global())}
        return own.union(*map(outer, table.get_children()))

    return outer(symtable.symtable(source, "cell", "exec"))


def _made(source: str) -> set[str]:
    """The names that a cell binds at its top level."""
    made: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            made.add(node.name)
            continue
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                made.add(inner.id)
            elif isinstance(inner, ast.alias):
                made.add((inner.asname or inner.name).split(".")[0])
    return made
