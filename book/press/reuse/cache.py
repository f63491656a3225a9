"""Executed notebooks kept by what made them, so that nothing unchanged is run twice. The key is a hash of everything
that can change a page (see `parts`), no comments and docstrings but in a module whose source the page shows. An entry
of `store` holds the executed notebook and its receipts, and serves every clone on this machine."""

import functools
import json
import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path

from helpers import cards

from .. import chromium
from ..errors import git
from ..files import sha256
from ..repository import Chapter, Repository, is_proof, top_name
from . import packages
from .machine import hardware, program

RUNNER = Path(__file__).resolve().parents[1] / "run"  # the press's code that decides what a page and its receipt hold
STUDIES = RUNNER.parent / "study"  # the press's code that a test of a study takes
KERNEL = ("ipykernel", "ipython")
TEST_TOOLS = ("pytest", "hypothesis", "xdist")
TOLD = ("REBUILT_TIER", "CUDA_VISIBLE_DEVICES")  # what the environment may tell a notebook
ASKED_FOR = ("SLOW", "COLAB", "WORKSHOP", "COURSES", "RELEASE")  # what a test may wait for
TOLD_TESTS = (*TOLD, "REBUILT_CHROMIUM", *(f"REBUILT_{name}" for name in ASKED_FOR))
HOUSE_PROGRAMS = ("npm", "git")
LESSONS = re.compile(r"^(?:gains|plain|errata):\n(?:[ -].*\n)*|^ +reason: .*\n", re.M)  # for the last pages alone


def parts(repository: Repository, chapter: Chapter, tier: str, threads: int) -> dict[str, str]:
    """One hash for each thing that an execution depends on, so that a new run can say what changed."""
    code = [cell.source for cell in chapter.cells if cell.cell_type == "code"]
    written = [chapter.home / name for name in cards.counted(chapter.notebook)]
    names = {name for source in code for name in packages.imported_by_cell(source)}
    runners = (path for path in RUNNER.glob("*.py") if path.name != "suite.py")
    own = {  # of a cell also what the executed copy takes over
        "notebook": [(c.cell_type, c.source, dict(c.metadata), c.get("attachments", {})) for c in chapter.cells],
        "card": _card(chapter),
        "parameters": {"tier": tier} | _told(TOLD),
        "threads": threads,
        "press": {"code": _executed(runners), **{name: packages.version(name) for name in KERNEL}},
    }
    reached = _reached(repository, chapter, names, written)
    shown = cards.shown(code, reached["chapter"] | reached["helpers"])
    for kind in ("chapter", "helpers"):
        reached[kind] = {name: text if name in shown else cards.executed(text) for name, text in reached[kind].items()}
    return _hashed(own | _asked(repository, [chapter]) | reached)


def proof_parts(repository: Repository, chapters: list[Chapter]) -> dict[str, str]:
    """The same for the tests of one chapter: all its notebooks, cards and modules, its tests and benches too."""
    everything = chapters[0].modules(proofs=True)
    settings = [repository.root / "pyproject.toml", repository.root / "notebooks" / "conftest.py"]
    own = {
        "notebooks": [(cell.cell_type, cell.source) for chapter in chapters for cell in chapter.cells],
        "cards": [_card(chapter) for chapter in chapters],
        "parameters": _told((*TOLD, "REBUILT_SLOW")),
        "settings": _digests(repository, settings),
        "page": _page(repository, chapters),
        "press": _executed(STUDIES.glob("*.py")) if any(path.name.startswith("study_") for path in everything) else {},
    }
    reached = _reached(repository, chapters[0], set(TEST_TOOLS), everything)  # they may read their chapter's text
    reached["helpers"] = {name: cards.executed(text) for name, text in reached["helpers"].items()}
    return _hashed(own | _asked(repository, chapters) | reached)


def house_parts(repository: Repository) -> dict[str, str]:
    """The same for the tests of helpers, rehearsal and press: every file that git knows or would take, executed pages,
    and the tools. Empty outside of git."""
    names = git(repository.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if names is None:
        return {}
    pages = [(one.executed, repository.build / "html" / f"{one.document}.html") for one in repository.chapters]
    tools = {name: program(name) for name in (*HOUSE_PROGRAMS, chromium.find() or "chromium")}
    own = {
        "files": _digests(repository, (repository.root / name for name in names.split("\0"))),
        "pages": [_digests(repository, (executed for executed, _ in pages)), [html.is_file() for _, html in pages]],
        "programs": _asked(repository, repository.chapters)["programs"] | tools,
        "parameters": _told(TOLD_TESTS),
        "packages": {"python": platform.python_version(), **{name: packages.version(name) for name in repository.pins}},
        "machine": hardware(),
    }
    return _hashed(own)


def _card(chapter: Chapter) -> str:
    """A card's text without what only the pages on all chapters read: no run of the chapter depends on it."""
    return LESSONS.sub("", chapter.card_path.read_text(encoding="utf-8"))


def _told(names: Iterable[str]) -> dict[str, str]:
    return {name: os.environ.get(name, "") for name in names}


def _executed(paths: Iterable[Path]) -> dict[str, str]:
    """The press's own code without comments and docstrings; its tests do not count."""
    return {path.name: cards.executed(path.read_text(encoding="utf-8")) for path in paths if not is_proof(path)}


def _asked(repository: Repository, chapters: list[Chapter]) -> dict:
    """The recorded receipts of some chapters, and what their cards ask for: rows of the registry, programs."""
    folders = [repository.root / "data" / "receipts" / chapter.stem for chapter in chapters]
    data = {name for chapter in chapters for name in chapter.card.get("data") or ()}
    programs = {str(name) for chapter in chapters for name in chapter.card.get("programs") or ()}
    return {
        "recorded": [path.read_text(encoding="utf-8") for one in folders for path in sorted(one.glob("*.json"))],
        "data registry": [row for row in repository.registry if row.get("dataset") in data],
        "programs": {name: program(name) for name in programs},
    }


def _reached(repository: Repository, chapter: Chapter, names: set[str], written: list[Path]) -> dict:
    """The code behind some imports and modules: the chapter's, the helpers', the installed packages."""
    home, root = chapter.home, repository.root
    names = names.union(*(packages.imports_of(path, home) for path in written))
    modules = {path for path in packages.reached(names, home) if not is_proof(path)}.union(written)
    names = names.union(*(packages.imports_of(path, home) for path in modules))
    helpers = packages.reached({name for name in names if name.partition(".")[0] == "helpers"}, root)
    names = names.union(*(packages.imports_of(path, root) for path in helpers))
    own = {top_name(path, home) for path in chapter.modules(proofs=True)} | {"helpers"}
    return {
        "chapter": {path.relative_to(home).as_posix(): path.read_text(encoding="utf-8") for path in modules},
        "files": _digests(repository, chapter.files()),
        "helpers": {repository.relative(path): path.read_text(encoding="utf-8") for path in helpers},
        "packages": {"python": platform.python_version(), **packages.versions(names, own)},
        "machine": hardware(),
    }


def _page(repository: Repository, chapters: list[Chapter]) -> dict:
    """What tests of a live model look at beside the chapter: printing code, the browser, whether there is a page."""
    if not any(chapter.card.get("live") for chapter in chapters):
        return {}
    folders = (repository.root / "book" / "press" / "print", repository.root / "book" / "_static")
    return {
        "code": _digests(repository, (path for one in folders for path in one.glob("*.*") if not is_proof(path))),
        "built": [(repository.build / "html" / f"{chapter.document}.html").is_file() for chapter in chapters],
        "browser": program(chromium.find() or "chromium"),
    }


def _digests(repository: Repository, paths: Iterable[Path]) -> dict[str, str]:
    facts = {path: path.stat() for path in paths if path.is_file()}
    found = {path: _digest(path, one.st_size, one.st_mtime_ns) for path, one in facts.items()}
    return {path.relative_to(repository.root).as_posix(): digest for path, digest in found.items()}


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
