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
from .. import cells, gate

WORDS = Path(__file__).resolve().parents[1] / "words.txt"
SKIPPED = {"_build", "node_modules", "__pycache__", "mathjax"}
SUFFIXES = (".md", ".py", ".yml", ".toml", ".cff", ".js", ".css", ".sh", ".txt")


def texts(root: Path) -> list[Path]:
    """Every text below the root that its authors wrote; hidden and generated folders are left out."""
    found = []
    for folder, inner, files in os.walk(root):
        inner[:] = [name for name in inner if name not in SKIPPED and name[0] != "."]
        found += [Path(folder, name) for name in files if name.endswith(SUFFIXES)]
    return sorted(found)


@gate
def spelling(repository: Repository) -> Iterator[tuple]:
    """No word is misspelt."""
    sources = [(path, None, path.read_text(encoding="utf-8")) for path in texts(repository.root)]
    sources += [(chapter.notebook, index, cell.source) for chapter, index, cell in cells(repository)]
    rows = [(where, cell, line, row) for where, cell, text in sources for line, row in enumerate(text.split("\n"), 1)]
    with tempfile.TemporaryDirectory() as folder:  # codespell reads all of them as one, in one go
        whole = Path(folder, "all.txt")
        whole.write_text("\n".join(row for *_, row in rows), encoding="utf-8")
        command = ("codespell_lib", "--ignore-words", str(WORDS), "--builtin", "clear,rare", str(whole))
        for number, word in _found(repository, r"^.*all\.txt:(\d+): (.*)$", *command):
            where, cell, line, _ = rows[int(number) - 1]
            yield where, f"“{word}”", cell, line


@gate
def lint(repository: Repository) -> Iterator[tuple]:
    """Ruff finds nothing in code, wherever it stands."""
    place = r"^(.+?):(?:cell (\d+):)?(\d+):\d+: (.*)$"
    for command in (["check"], ["format", "--check"]):
        found = _found(repository, place, "ruff", *command, "--quiet", "--output-format=concise", ".")
        for where, cell, line, what in found:
            yield where, what, int(cell) - 1 if cell else None, int(line)


def _found(repository: Repository, pattern: str, module: str, *arguments: str) -> list[tuple[str, ...]]:
    """The pattern's groups in what a tool prints in the root; PressError when it failed otherwise than by a finding."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=repository.root, capture_output=True, text=True)
    found = re.findall(pattern, done.stdout, re.MULTILINE)
    if done.returncode and not found:
        said = (done.stderr or done.stdout).strip()
        raise PressError(f"{module} failed with status {done.returncode}: {said[-500:]}")
    return found
