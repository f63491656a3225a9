"""Exercises proved both ways: the stub and every plausible wrong answer fail their checker, the solution passes.
And checkpoints proved: each section starts from its own, in an empty namespace.

An exercise is run with what it needs and no more: the earlier cells that define the names it uses, found by
reading the code. So a proof takes seconds where the chapter takes a minute.
"""

import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..errors import PressError
from ..repository import Chapter, Repository, tags
from ..run import processes
from . import checkpoints
from .dependencies import needed

TIMEOUT_SECONDS = 300
ROLES = ("checker", "stub", "solution", "wrong")
RUNNER = """
import ast, asyncio, inspect, json, sys, time
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
state = {"__name__": "__main__"}
for attempt in json.load(open(sys.argv[1])):
    if attempt.get("fresh"):
        state.clear()
        state["__name__"] = "__main__"
    begun = time.monotonic()
    try:
        for source in attempt["sources"]:
            code = compile(source, attempt["what"], "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)  # as in a notebook
            if code.co_flags & inspect.CO_COROUTINE:
                loop.run_until_complete(eval(code, state))
            else:
                exec(code, state)
        said = None
    except Exception as error:
        kind = "AssertionError" if isinstance(error, AssertionError) else "error"
        said = [kind, type(error).__name__, str(error)]
    print("\\n::proof " + json.dumps([attempt["what"], said, time.monotonic() - begun]), flush=True)
"""


class Proof(NamedTuple):
    """One attempt at an exercise or a section: who tried, what is wrong with it ("" if nothing), its seconds."""

    exercise: str
    attempt: str
    problem: str
    seconds: float = 0.0


def prove(repository: Repository, chapter: Chapter) -> list[Proof]:
    """Every attempt of every exercise of the chapter, judged.

    Raises PressError when the cells that the exercises need cannot run, or take longer than five minutes.
    """
    attempts = list(_attempts(chapter))
    if not attempts:
        return []
    sources = [source for attempt in attempts for source in attempt["sources"]]
    plain = [cell for cell in chapter.cells if cell.cell_type == "code" and not cell.metadata.get("exercise")]
    before = {"what": "before", "sources": needed([cell.source for cell in plain], sources)}
    tries = [{"what": f"{one['exercise']}, {one['role']}", "sources": one["sources"]} for one in attempts]
    (first, _), *said = _run(repository, chapter, [before, *tries])
    if first is not None:
        raise PressError(f"{chapter}: what the exercises need does not run: {first[1]}: {first[2]}")
    return [
        Proof(attempt["exercise"], attempt["role"], _problem(attempt, heard), seconds)
        for attempt, (heard, seconds) in zip(attempts, said, strict=True)
    ]


def prove_sections(repository: Repository, chapter: Chapter, *, whole: bool = False) -> list[Proof]:
    """Every checkpoint of the chapter run in an empty namespace; with `whole` the section after it, too.

    The seconds are those of the checkpoint alone: how long a late learner waits.
    """
    parameters = [cell.source for cell in chapter.cells if "parameters" in tags(cell)]
    tries, about = [], []
    for section in checkpoints.sections(chapter)[1:]:
        if not section.names:
            continue
        there = f"missing = set({sorted(section.names)!r}) - globals().keys()"
        start = [*parameters, checkpoints.source(section), there, "assert not missing, f'without {missing}'"]
        tries.append({"what": section.title, "sources": start, "fresh": True})
        if whole:
            tries.append({"what": section.title, "sources": section.own})
        about += [(section.title, "start")] + [(section.title, "the section")] * whole
    heard = _run(repository, chapter, tries) if tries else []
    return [
        Proof(title, part, f"{said[1]}: {said[2]}" if said else "", seconds)
        for (title, part), (said, seconds) in zip(about, heard, strict=True)
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


def _run(repository: Repository, chapter: Chapter, attempts: list[dict]) -> list[tuple]:
    """What each attempt was told, None where nothing was wrong, and its seconds."""
    path = [str(repository.root), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(chapter.home), *path]), "REBUILT_TIER": "cpu"}
    with tempfile.TemporaryDirectory(prefix="press-proof-") as scratch:
        todo = Path(scratch) / "attempts.json"
        todo.write_text(json.dumps(attempts), encoding="utf-8")
        command = [sys.executable, "-c", RUNNER, str(todo)]
        environment |= {"REBUILT_RECEIPTS": scratch, "REBUILT_RUN": Path(scratch).name}
        limits = {"timeout": TIMEOUT_SECONDS, "cwd": chapter.home, "env": environment}
        try:
            done = subprocess.run(command, capture_output=True, text=True, **limits)
        except subprocess.TimeoutExpired:
            raise PressError(f"{chapter}: the proofs took longer than {TIMEOUT_SECONDS} s") from None
        finally:  # servers that a section started for those after it
            processes.end_tree(os.getpid(), ("REBUILT_RUN", Path(scratch).name), own=False)
    heard = [line.removeprefix("::proof ") for line in done.stdout.splitlines() if line.startswith("::proof ")]
    if len(heard) != len(attempts):
        raise PressError(f"{chapter}: the proof ended early:\n{done.stderr.strip()[-2000:]}")
    return [tuple(json.loads(line)[1:]) for line in heard]
