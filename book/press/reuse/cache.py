"""Executed notebooks kept by what made them, so that nothing unchanged is run twice.

The key is a hash of everything that can change a page: the notebook's cells, its slice with the weights and data that
lie in it, the card, the recorded receipts, the helpers and installed packages that these import, the registry rows of
its data, the programs that the card names, the parameters, the threads of its libraries, the machine, and the press's
own code that runs notebooks. Comments and docstrings do not count, but in a module whose source the page shows.
An entry of `store` holds the executed notebook and its receipts, so it serves every clone on this machine.
"""

import functools
import json
import os
import platform
from pathlib import Path

import nbformat

from helpers import cards

from .. import chromium
from ..files import sha256, write_bytes, write_json
from ..repository import Chapter, Repository, is_proof, top_name
from . import packages, store
from .machine import hardware, program
from .packages import pinned as versions

__all__ = ["hardware", "key", "parts", "proof_parts", "restore", "store_run", "versions", "why"]
RUNNER = Path(__file__).resolve().parents[1] / "run"  # the press's code that decides what a page and its receipt hold
STUDIES = RUNNER.parent / "study"  # the press's code that a test of a study takes
KERNEL = ("ipykernel", "ipython")
TEST_TOOLS = ("pytest", "hypothesis", "xdist")
TOLD = ("REBUILT_TIER", "CUDA_VISIBLE_DEVICES")  # what the environment may tell a notebook


def parts(repository: Repository, chapter: Chapter, tier: str, threads: int) -> dict[str, str]:
    """One hash for each thing that an execution depends on, so that a new run can say what changed."""
    cells = [(cell.cell_type, cell.source, _kept(cell)) for cell in chapter.cells]
    code = [source for kind, source, _ in cells if kind == "code"]
    written = [chapter.home / name for name in cards.counted(chapter.notebook)]
    names = {name for source in code for name in packages.imported_by_cell(source)}
    own = {
        "notebook": cells,
        "card": chapter.card_path.read_text(encoding="utf-8"),
        "recorded": _recorded(repository, [chapter]),
        "data registry": _rows(repository, [chapter]),
        "programs": _programs([chapter]),
        "parameters": {"tier": tier, **{name: os.environ.get(name, "") for name in TOLD}},
        "threads": threads,
        "press": {"code": _output_code(), **{name: packages.version(name) for name in KERNEL}},
    }
    reached = _reached(repository, chapter, names, written)
    shown = cards.shown(code, reached["slice"] | reached["helpers"])
    for kind in ("slice", "helpers"):
        reached[kind] = {name: text if name in shown else cards.executed(text) for name, text in reached[kind].items()}
    return _hashed(own | reached)


def proof_parts(repository: Repository, chapters: list[Chapter]) -> dict[str, str]:
    """The same for the tests of one slice: all its notebooks, cards and modules, its tests and benches too."""
    home = chapters[0]
    everything = home.modules(proofs=True)
    settings = [repository.root / "pyproject.toml", repository.root / "notebooks" / "conftest.py"]
    own = {
        "notebooks": [(cell.cell_type, cell.source) for chapter in chapters for cell in chapter.cells],
        "cards": [chapter.card_path.read_text(encoding="utf-8") for chapter in chapters],
        "recorded": _recorded(repository, chapters),
        "data registry": _rows(repository, chapters),
        "programs": _programs(chapters),
        "parameters": {name: os.environ.get(name, "") for name in (*TOLD, "REBUILT_SLOW")},
        "settings": [path.read_text(encoding="utf-8") for path in settings if path.is_file()],
        "page": _page(repository, chapters),
        "press": _study_code() if any(path.name.startswith("study_") for path in everything) else {},
    }
    reached = _reached(repository, home, set(TEST_TOOLS), everything)  # tests may read their slice's text, none another
    reached["helpers"] = {name: cards.executed(text) for name, text in reached["helpers"].items()}
    return _hashed(own | reached)


def _study_code() -> dict[str, str]:
    """What runs a declared study, without comments and docstrings; its own tests do not count."""
    own = [path for path in sorted(STUDIES.glob("*.py")) if not is_proof(path)]
    return {path.name: cards.executed(path.read_text(encoding="utf-8")) for path in own}


def _kept(cell: nbformat.NotebookNode) -> dict:
    """What the executed copy takes over of a cell beside its source."""
    return {"metadata": dict(cell.metadata), "attachments": cell.get("attachments", {})}


def _reached(repository: Repository, chapter: Chapter, names: set[str], written: list[Path]) -> dict:
    """The code behind some imports and modules: the slice's, the helpers', the installed packages."""
    home, root = chapter.home, repository.root
    names = names.union(*(packages.imports_of(path, home) for path in written))
    modules = {path for path in packages.reached(names, home) if not is_proof(path)}.union(written)
    names = names.union(*(packages.imports_of(path, home) for path in modules))
    helpers = packages.reached({name for name in names if name.partition(".")[0] == "helpers"}, root)
    names = names.union(*(packages.imports_of(path, root) for path in helpers))
    own = {top_name(path, home) for path in chapter.modules(proofs=True)} | {"helpers"}
    return {
        "slice": {path.relative_to(home).as_posix(): path.read_text(encoding="utf-8") for path in modules},
        "files": {repository.relative(path): _digest(path, *_state(path)) for path in chapter.files()},
        "helpers": {repository.relative(path): path.read_text(encoding="utf-8") for path in helpers},
        "packages": {"python": platform.python_version(), **packages.versions(names, own)},
        "machine": hardware(),
    }


def _recorded(repository: Repository, chapters: list[Chapter]) -> list[str]:
    folders = [repository.root / "data" / "receipts" / chapter.stem for chapter in chapters]
    return [path.read_text(encoding="utf-8") for folder in folders for path in sorted(folder.glob("*.json"))]


def _rows(repository: Repository, chapters: list[Chapter]) -> list[dict]:
    data = {name for chapter in chapters for name in chapter.card.get("data") or ()}
    return [row for row in repository.registry if row.get("dataset") in data]


def _programs(chapters: list[Chapter]) -> dict[str, str]:
    """The programs that the cards name, with what they say of their versions."""
    return {str(name): program(str(name)) for chapter in chapters for name in chapter.card.get("programs") or ()}


def _page(repository: Repository, chapters: list[Chapter]) -> dict:
    """What tests of a live model look at beside the slice: printing code, the browser, whether there is a page."""
    if not any(chapter.card.get("live") for chapter in chapters):
        return {}
    folders = (repository.root / "book" / "press" / "print", repository.root / "book" / "_static")
    files = [path for folder in folders for path in folder.glob("*.*") if path.is_file() and not is_proof(path)]
    return {
        "code": {repository.relative(path): _digest(path, *_state(path)) for path in files},
        "built": [(repository.build / "html" / f"{chapter.document}.html").is_file() for chapter in chapters],
        "browser": program(chromium.find() or "chromium"),
    }


def _output_code() -> dict[str, str]:
    paths = [path for path in sorted(RUNNER.glob("*.py")) if not is_proof(path) and path.name != "suite.py"]
    return {path.name: cards.executed(path.read_text(encoding="utf-8")) for path in paths}


def _state(path: Path) -> tuple[int, int]:
    facts = path.stat()
    return facts.st_size, facts.st_mtime_ns


@functools.lru_cache(maxsize=4096)
def _digest(path: Path, size: int, modified: int) -> str:
    """The hash of a file, which may be large, once for each state of it."""
    return sha256(path.read_bytes())


def _hashed(whole: dict) -> dict[str, str]:
    return {name: sha256(json.dumps(value, sort_keys=True)) for name, value in whole.items()}


def key(made_of: dict[str, str]) -> str:
    """The name of the cache entry for these parts."""
    return sha256(json.dumps(made_of, sort_keys=True))[:32]


def why(made_of: dict[str, str], record: object) -> str:
    """Why these parts are not those of the last run, which `record` tells of."""
    old = record.get("made_of", {}) if isinstance(record, dict) else {}
    changed = [name for name, value in made_of.items() if old.get(name) != value]
    return f"changed since the last run: {', '.join(changed)}" if old and changed else "not run yet"


def store_run(name: str, notebook: Path, receipts: dict[str, dict]) -> None:
    """Keep an executed notebook and its receipts (content by file name) under the key `name`."""
    files = {f"receipts/{file}": json.dumps(content).encode() for file, content in receipts.items()}
    store.put("notebooks", name, {"notebook.ipynb": notebook.read_bytes(), **files})


def restore(repository: Repository, name: str, chapter: Chapter) -> dict[str, dict] | None:
    """Put a kept execution in its place; its receipts by file name, or None when none is kept whole."""
    files = store.get("notebooks", name)
    if files is None:
        return None
    receipts = {Path(file).name: json.loads(text) for file, text in files.items() if file.startswith("receipts/")}
    for file, content in receipts.items():
        write_json(repository.build / "receipts" / file, content)
    write_bytes(chapter.executed, files["notebook.ipynb"])
    return receipts
