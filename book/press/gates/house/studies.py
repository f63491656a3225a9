"""The gate on studies and races: studies are declared, and a test beside each holds what it records."""

import re
from collections.abc import Iterator
from pathlib import Path

from ...files import read_json
from ...repository import Repository
from .. import Problem, gate
from ..python import calls, imports, parse, parse_file
from .code import slice_files

SCRIPTED = {"argparse": "options of its own", "papermill": "a run of its own"}


@gate(
    "studies",
    "studies are declared, and a test holds each declaration and each race",
    why="what decides a claim was held by nothing: arms on wrong data, turned signs, settings chosen on the test",
    mend="declare it with helpers.study; its test takes `hold` from press.study and says what each arm is handed",
)
def studies(repository: Repository) -> Iterator[Problem]:
    """Study files without a declaration or with options, studies and benches without a test, receipts of no study."""
    paths = [path for path in slice_files(repository) if path.name.startswith("study_")]
    for path in paths:
        where, tree = repository.relative(path), parse_file(path)
        if not calls(tree, "Study"):
            yield Problem(where, "declares no Study")
        for line, name in imports(tree):
            if name in SCRIPTED:
                yield Problem(
                    where, f"imports {name}: a study has no {SCRIPTED[name]}, it is run as declared", line=line
                )
        test = path.with_name(f"test_{path.name}")
        if not _holds(test):
            yield Problem(where, f"has no {test.name} that calls hold, so nothing holds what its arms are handed")
    for path in slice_files(repository):
        if path.name.startswith("bench_") and not any(_names(one, path.stem) for one in path.parent.glob("test_*.py")):
            yield Problem(
                repository.relative(path), "no test beside it names it, so nothing holds which way its ratios point"
            )
    yield from _unknown(repository, {path.relative_to(repository.root / "notebooks").as_posix() for path in paths})


def _names(test: Path, module: str) -> bool:
    return re.search(rf"\b{module}\b", test.read_text(encoding="utf-8")) is not None


def _holds(test: Path) -> bool:
    """Whether a test calls `hold`, itself or in the test of another study beside it."""
    tree = parse_file(test) if test.is_file() else parse("")
    beside = [test.with_name(f"{name}.py") for _, name in imports(tree) if name.startswith("test_study_")]
    return bool(calls(tree, "hold")) or any(calls(parse_file(one), "hold") for one in beside if one.is_file())


def _unknown(repository: Repository, known: set[str]) -> Iterator[Problem]:
    """Receipts of studies that no file declares any more."""
    for path in sorted((repository.root / "data" / "receipts").rglob("*.json")):
        content = read_json(path) or {}
        script = f"{content.get('chapter')}/{content.get('script')}"
        if content.get("study") and script not in known:
            yield Problem(repository.relative(path), f"is of {script}, which declares no study")
