"""Exercises in the page: a learner writes and checks an answer in the browser, in Python, which Pyodide runs there. One
that says `"inpage": true` gets an editor in the place of its stub, and loads its packs (see `live`) at the first check:
Pyodide, one for the whole site, and `helpers.check` as it is."""

import html
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_output

from .. import npm
from ..gates.python import imports, parse
from ..repository import Repository
from ..teach.checkpoints import lacking
from ..teach.variants import defined, exercises
from . import live

HERE = Path(__file__).parent
RUNTIME = "pyodide"
FILES = ("pyodide.js", "pyodide.asm.js", "pyodide.asm.wasm", "pyodide-lock.json", "python_stdlib.zip")
SOURCES = ("helpers/__init__.py", "helpers/check.py")


def publish(notebook: NotebookNode, repository: Repository, source: Path) -> None:
    """Put an editor below the stub of each exercise in the page, and write the packs below `source/_live`."""
    marked = inpage(notebook.cells)
    loaded = packs(repository, source) if marked else {}
    places = {pack: live.write(source, file, text) for pack, (file, text) in loaded.items()}
    size = sum(len(text) for _, text in loaded.values()) * 3 / 4e6  # without its base64
    for name, own in marked.items():
        (stub,), (checker,), (task, *_) = own["stub"], own["checker"], own["exercise"]
        told = {"id": name, "title": task.source.splitlines()[0].lstrip("# "), "stub": stub.source}
        told |= {"checker": checker.source, "call": f"{defined(checker.source)}({defined(stub.source)})"}
        told |= {"packs": places, "megabytes": f"{size:.1f}"}
        shown = f'<div class="rebuilt-exercise" data-exercise="{html.escape(json.dumps(told))}"></div>'
        script = "".join((HERE / one).read_text(encoding="utf-8") for one in ("live.js", "exercise.js"))  # one request
        shown += f'\n<script defer src="{live.write(source, "exercise.js", script)}"></script>'
        stub.outputs = [new_output("display_data", data={"text/html": shown, "text/plain": ""})]


def inpage(cells: Iterable[NotebookNode]) -> dict[str, dict[str, list[NotebookNode]]]:
    """The exercises that run in the page: their cells by their tags."""
    marked = {cell.metadata["exercise"]["id"] for cell in cells if cell.metadata.get("exercise", {}).get("inpage")}
    return {name: own for name, own in exercises(cells).items() if name in marked}


def foreign(own: dict[str, list[NotebookNode]]) -> Iterator[str]:
    """What the cells of an exercise need beyond Python's own library and `check`, which is all that a page has."""
    for answer in [cell for role in ("stub", "solution", "wrong") for cell in own[role]]:
        source = "\n".join(cell.source for cell in [*own["checker"], answer])
        yield from lacking([source]) - {"check"}
        yield from {name for _, name in imports(parse(source))} - sys.stdlib_module_names


def packs(repository: Repository, source: Path) -> dict[str, tuple[str, str]]:
    """The packs of Python and of what checks, by name: file and text. What a build has packed it packs no more."""
    version = npm.pinned()[RUNTIME]["version"]
    file, sources = f"{RUNTIME}-{version}.js", {name: (repository.root / name).read_bytes() for name in SOURCES}
    sources["attempt.py"] = (HERE / "attempt.py").read_bytes()
    if (made := source / "_live" / file).is_file():
        text = made.read_text(encoding="utf-8")
    else:
        notice = (HERE / "pyodide_notice.txt").read_text(encoding="utf-8").format(version=version)
        text = live.pack(RUNTIME, npm.taken(repository, RUNTIME, FILES), " ".join(notice.split()))
    return {RUNTIME: (file, text), "checking": ("checking.js", live.pack("checking", sources))}
