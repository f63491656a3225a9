"""Exercises proved both ways: the stub and every plausible wrong answer fail their checker, the solution passes; and
checkpoints proved: each section starts from its own. Each runs with the earlier cells that it needs alone."""

import json
import os
import sys
import tempfile
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

from ..errors import PressError
from ..files import write_text
from ..repository import Chapter, Repository, tags
from ..run import child
from . import checkpoints
from .variants import defined, exercises

PROCESSOR_SECONDS, SECONDS = 300, 1800  # of all attempts at a chapter's: however busy the machine is, and in any case
RUNNER = Path(__file__).with_name("proof_child.py.txt").read_text(encoding="utf-8")


# One attempt at an exercise or a section: who tried, what is wrong with it ("" if nothing), its seconds.
Proof = namedtuple("Proof", "exercise attempt problem seconds")


def prove(repository: Repository, chapter: Chapter) -> list[Proof]:
    """Every attempt of every exercise, judged; PressError when what they need cannot run, or takes too long."""
    attempts = list(_attempts(chapter))
    plain = [cell.source for cell in chapter.cells if cell.cell_type == "code" and not cell.metadata.get("exercise")]
    sources = [source for *_, source in attempts]
    before = "\n".join(checkpoints.needed(plain, sources))
    (first, _), *heard = _run(repository, chapter, [(True, before), *((False, source) for source in sources)])
    if first:
        raise PressError(f"{chapter}: what the exercises need does not run: {first[1]}: {first[2]}")
    return [
        Proof(exercise, role, _problem(role, message, said), seconds)
        for (exercise, role, message, _), (said, seconds) in zip(attempts, heard, strict=True)
    ]


def prove_sections(repository: Repository, chapter: Chapter, *, whole: bool = False) -> list[Proof]:
    """Every checkpoint run in an empty namespace, with `whole` its section, too; the seconds are how long one waits."""
    parameters = [cell.source for cell in chapter.cells if "parameters" in tags(cell)]
    steps, calls = [], checkpoints.module(chapter)[1]
    for section in checkpoints.sections(chapter):
        names = ", ".join(section.names)  # a NameError where one is missing
        start = "\n".join([*parameters, calls[section.title], names])
        both = [(section.title, "start", (True, start)), (section.title, "the section", (False, section.own))]
        steps += both if whole else both[:1]
    heard = _run(repository, chapter, [source for *_, source in steps])
    return [
        Proof(title, part, f"{said[1]}: {said[2]}" if said else "", seconds)
        for (title, part, _), (said, seconds) in zip(steps, heard, strict=True)
    ]


def _attempts(chapter: Chapter) -> Iterator[tuple[str, str, str, str]]:
    """Exercise, role, the words that a wrong answer must meet, and the source, in the notebook's order."""
    own = exercises(chapter.cells)
    for cell in chapter.cells:
        for role in {"stub", "solution", "wrong"} & set(tags(cell)):
            about = cell.metadata["exercise"]
            checker = own[about["id"]]["checker"][0].source
            call = "" if role == "solution" else f"{defined(checker)}({defined(cell.source)})"  # which calls it itself
            yield about["id"], role, about.get("message", ""), f"{checker}\n{cell.source}\n{call}"


def _problem(role: str, message: str, said: list | None) -> str:
    """What is wrong with what an attempt was told: whether by an assertion, the error's name, its words."""
    if role == "solution":
        return f"the solution fails: {said[1]}: {said[2]}" if said else ""
    if said is None:
        return "the checker lets it pass"
    if not said[0]:
        return f"it stops with {said[1]} instead of the checker's words: {said[2]}"
    return "" if message in said[2] else f"the checker says {said[2]!r}, not {message!r}"


def _run(repository: Repository, chapter: Chapter, sources: list[tuple[bool, str]]) -> list[tuple[list | None, float]]:
    """What each source was told, None where nothing was wrong, and its seconds; True: in an empty namespace."""
    with tempfile.TemporaryDirectory(prefix="press-proof-") as folder:
        path = [folder, str(chapter.home), str(repository.root), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "REBUILT_TIER": "cpu"}
        write_text(Path(folder, f"start_here_{chapter.stem}.py"), checkpoints.module(chapter)[0])
        limits = {"RLIMIT_CPU": PROCESSOR_SECONDS}
        heard, ended, said = told(sources, chapter.home, Path(folder), environment, SECONDS, limits)
    if ended.status in (None, -24):  # SIGXCPU
        most = f"{PROCESSOR_SECONDS} s of the processor, or {SECONDS} s in all"
        raise PressError(f"{chapter}: the proofs took more than {most}")
    if len(heard) != len(sources):
        raise PressError(f"{chapter}: the proof ended early:\n{said.strip()[-2000:]}")
    return [(what, seconds) for what, seconds, _ in heard]


def told(
    sources: list[tuple[bool, str]],
    home: Path,
    folder: Path,
    environment: dict,
    seconds: float,
    limits: dict[str, int],
    *before: str,
) -> tuple[list, child.Ended, str]:
    """Of each source, as far as it came, what went wrong (by an assertion, name, words; or None), its seconds, its
    `_value`; how their process ended; what it printed. `before`: what its command begins with."""
    todo, log = write_text(folder / "sources.json", json.dumps(sources)), folder / "log"
    with log.open("wb") as out:  # servers that a section started for those after it end with it
        command = [*before, sys.executable, "-c", RUNNER, str(todo), json.dumps(limits)]
        ended = child.run(command, home, environment, folder, seconds, out)
    said = log.read_text(encoding="utf-8", errors="replace")
    lines = [line.removeprefix("::proof ") for line in said.splitlines() if line.startswith("::proof ")]
    return [json.loads(line) for line in lines], ended, said
