"""Gates that ask other tools: spelling (codespell) and code style (ruff)."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..model import Repository
from . import Problem, gate

WORDS = Path(__file__).resolve().parents[1] / "words.txt"
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
    mend="correct it; a right word that codespell doubts goes into book/press/words.txt",
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
    for line in found.splitlines():
        match = re.match(r"(?:.*[/\\])?(\d+\.txt):(\d+): (.*)$", line)
        if match:
            where, cell = origin[match.group(1)]
            yield Problem(where, f"“{match.group(3)}”", cell, int(match.group(2)))


@gate(
    "lint",
    "ruff finds nothing in Python files and notebooks",
    why="one style everywhere; and an unused import or name is often a mistake",
    mend="`ruff check --fix` and `ruff format` in the repository's root do most of it",
)
def lint(repository: Repository) -> Iterator[Problem]:
    """What `ruff check` and `ruff format --check` report."""
    for arguments in (["check", "--output-format=concise", "--quiet"], ["format", "--check"]):
        for line in _tool(repository, "ruff", *arguments, ".").splitlines():
            if re.match(r"(.+:\d+:\d+: |Would reformat|error|warning)", line):
                yield Problem("", line)


def _tool(repository: Repository, module: str, *arguments: str) -> str:
    """What a tool prints when it runs in the root; its exit status only says that it found something."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=repository.root, capture_output=True, text=True)
    return done.stdout + done.stderr
