"""Gates that ask other tools: spelling (codespell) and code style (ruff)."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ...errors import PressError
from ...repository import Repository
from .. import Problem, gate

WORDS = Path(__file__).resolve().parents[1] / "words.txt"
SKIPPED = {"_build", "node_modules", "__pycache__", "mathjax"}
SUFFIXES = (".md", ".py", ".yml", ".toml", ".cff", ".js", ".css", ".sh", ".txt")


def texts(repository: Repository) -> list[Path]:
    """Every text of the repository that its authors wrote; hidden and generated folders are left out."""
    found = []
    for folder, inner, files in os.walk(repository.root):
        inner[:] = [name for name in inner if name not in SKIPPED and name[0] != "."]
        found += [Path(folder, name) for name in files if name.endswith(SUFFIXES)]
    return sorted(found)


@gate(
    "spelling",
    "no word is misspelt",
    why="a typo in a lesson makes a reader doubt the rest",
    mend="correct it; a right word that codespell doubts goes into book/press/gates/words.txt",
)
def spelling(repository: Repository) -> Iterator[Problem]:
    """What codespell finds in texts and in the cells of notebooks; it reads all of them as one, in one go."""
    sources = [(repository.relative(path), None, path.read_text(encoding="utf-8")) for path in texts(repository)]
    for chapter in repository.chapters:
        where = repository.relative(chapter.notebook)
        sources += [(where, index, cell.source) for index, cell in enumerate(chapter.cells)]
    rows = [(where, cell, line, row) for where, cell, text in sources for line, row in enumerate(text.split("\n"), 1)]
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder, "all.txt")
        whole.write_text("\n".join(row for *_, row in rows), encoding="utf-8")
        options = ("--ignore-words", str(WORDS), "--builtin", "clear,rare")
        found = _tool(repository, "codespell_lib", *options, str(whole))
    for match in _lines(found, re.compile(r".*all\.txt:(\d+): (.*)$")):
        where, cell, line, _ = rows[int(match.group(1)) - 1]
        yield Problem(where, f"“{match.group(2)}”", cell, line)


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
