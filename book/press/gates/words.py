"""Gates that ask other tools: spelling (codespell) and code style (ruff)."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..errors import PressError
from ..repository import Repository
from . import Problem, gate

WORDS = Path(__file__).resolve().parent / "words.txt"
SKIPPED = {"_build", "node_modules", "__pycache__"}


def texts(repository: Repository) -> list[Path]:
    """Every Markdown and Python file and card of the repository; hidden folders and `_build` are left out."""
    found = []
    for suffix in ("*.md", "*.py", "*.yml"):
        found += [
            path
            for path in repository.root.rglob(suffix)
            if not any(part in SKIPPED or part[0] == "." for part in path.relative_to(repository.root).parts[:-1])
        ]
    return sorted(found)


@gate(
    "spelling",
    "no word is misspelt",
    why="a typo in a lesson makes a reader doubt the rest",
    mend="correct it; a right word that codespell doubts goes into book/press/gates/words.txt",
)
def spelling(repository: Repository) -> Iterator[Problem]:
    """What codespell finds in Markdown, code, cards and the cells of notebooks."""
    with tempfile.TemporaryDirectory() as folder:
        origin, doubles = {}, Path(folder)
        for number, path in enumerate(texts(repository)):
            double = doubles / f"{number}.txt"
            double.write_bytes(path.read_bytes())
            origin[double.name] = (repository.relative(path), None)
        for chapter in repository.chapters:
            for index, cell in enumerate(chapter.cells):
                double = doubles / f"{len(origin)}.txt"
                double.write_text(cell.source, encoding="utf-8")
                origin[double.name] = (repository.relative(chapter.notebook), index)
        found = _tool(repository, "codespell_lib", "--ignore-words", str(WORDS), "--builtin", "clear,rare", folder)
    pattern = re.compile(r"(?:.*[/\\])?(\d+\.txt):(\d+): (.*)$")
    for match in _lines(found, pattern):
        where, cell = origin[match.group(1)]
        yield Problem(where, f"“{match.group(3)}”", cell, int(match.group(2)))


@gate(
    "lint",
    "ruff finds nothing in code, wherever it stands",
    why="one style everywhere; and an unused import or name is often a mistake",
    mend="`ruff check --fix` and `ruff format` in the repository's root do most of it",
)
def lint(repository: Repository) -> Iterator[Problem]:
    """What `ruff check` and `ruff format --check` report."""
    for command in ("check", "format --check"):
        found = _tool(repository, "ruff", *command.split(), "--quiet", "--output-format=concise", ".")
        for match in _lines(found, re.compile(r".+?:(cell \d+:)?\d+:\d+: .*")):
            yield Problem("", match.group())


def _tool(repository: Repository, module: str, *arguments: str) -> subprocess.CompletedProcess:
    """What came of running a tool in the root."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=repository.root, capture_output=True, text=True)


def _lines(done: subprocess.CompletedProcess, pattern: re.Pattern) -> list[re.Match]:
    """The lines of a tool's findings; PressError when it failed for another reason than a finding."""
    found = [match for line in done.stdout.splitlines() if (match := pattern.match(line))]
    if done.returncode and not found:
        said = (done.stderr or done.stdout).strip()
        raise PressError(f"{done.args[2]} failed with status {done.returncode}: {said[-500:]}")
    return found
