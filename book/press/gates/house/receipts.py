"""The gate on receipts: what readers send in, held to the same rules as our own; and the list of those that wait.

House rules that a receipt cannot be refused for (twenty rounds, a quiet machine) are told, and are no problem.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from helpers import receipts as recorded

from ...files import read_json
from ...incoming import problems
from ...ledger import BUSY_CORES, unseen_in
from ...race import ROUNDS
from ...repository import Chapter, Repository, read_yaml
from .. import Problem, gate

WAITING = Path("data/receipts/stale.yml")
ENTRY = {"why", "again"}  # why it may wait, and with which chapter's work it is recorded again


@gate(
    "receipts",
    "receipts are whole, of a notebook, of known code, of the device they say",
    why="a verdict of the ledger stands on one file, which anybody may send",
    mend="measure again with `make receipt` on the machine that it names; never edit a number",
)
def receipts(repository: Repository) -> Iterator[Problem]:
    """What is wrong with the files in `data/receipts/`; says which races to run again on a quiet machine."""
    chapters = {chapter.stem: chapter for chapter in repository.chapters}
    told = []
    for path in _files(repository):
        wrong = problems(repository, path)
        yield from (Problem(repository.relative(path), what) for what in wrong)
        weak = "" if wrong else weakness(chapters[path.parent.name], path)
        told += [f"{path.parent.name}/{path.name} ({weak})"] if weak else []
    if told:
        print(f"receipts: races with fewer than {ROUNDS} rounds or beside other work: {', '.join(told)}", flush=True)


@gate(
    "stale",
    f"no receipt is dirty, of older code, or without calibration and load, but those in {WAITING.name}",
    why="numbers of code that nobody has, or of a machine that nobody looked at, show what the book does not do",
    mend="record it again from committed code: `make race CHAPTERS=…`, a study by the command that it holds. What a "
    f"later work on its chapter records anyway may wait in {WAITING}: its path, `why`, and `again`: with which work",
)
def stale(repository: Repository) -> Iterator[Problem]:
    """Our receipts that lack something and do not wait in the list, by chapter; entries of the list without need."""
    lacking = {path.relative_to(repository.root / WAITING.parent).as_posix(): path for path in _files(repository)}
    lacking = {name: lacks(repository, path) for name, path in lacking.items()}
    waiting = read_yaml(repository.root / WAITING) if (repository.root / WAITING).is_file() else {}
    if not isinstance(waiting, dict | None):
        yield Problem(WAITING.as_posix(), "it holds no mapping of receipts' paths")
        return
    for name, entry in (waiting or {}).items():
        good = isinstance(entry, dict) and entry.keys() == ENTRY and all(isinstance(one, str) for one in entry.values())
        if name not in lacking:
            yield Problem(WAITING.as_posix(), f"{name}: no such receipt; remove the entry")
        elif not lacking[name]:
            yield Problem(WAITING.as_posix(), f"{name}: lacks nothing any more; remove the entry")
        elif not good or not all(one.strip() for one in entry.values()):
            yield Problem(WAITING.as_posix(), f"{name}: it needs the texts {' and '.join(sorted(ENTRY))}, nothing else")
    count = defaultdict(int)
    for name, what in lacking.items():
        if what and name not in (waiting or {}):
            yield Problem(f"{WAITING.parent.as_posix()}/{name}", ", ".join(what))
        count[name.partition("/")[0]] += bool(what and name in (waiting or {}))
    if any(count.values()):
        told = ", ".join(f"{stem} {many}" for stem, many in count.items() if many)
        print(f"stale: {sum(count.values())} receipts wait to be recorded again: {told}", flush=True)


def lacks(repository: Repository, path: Path) -> list[str]:
    """What a receipt lacks to decide anything; nothing for a GPU's, which decides nothing then (see the ledger).

    What is no receipt of a notebook here is the other gate's to name.
    """
    content = read_json(path)
    chapter = next((one for one in repository.chapters if one.stem == path.parent.name), None)
    if chapter is None or not isinstance(content, dict) or content.get("tier") != "cpu" or "code" not in content:
        return []
    found = ["older code"] if recorded.stale(content, chapter.notebook) else []
    found += ["uncommitted code"] * (content.get("dirty") is not False) + unseen_in(content)
    return found + ["beside other work"] * (_busiest(content) >= BUSY_CORES)


def weakness(chapter: Chapter, path: Path) -> str:
    """How a race falls short of the house rules; empty where it does not, and for what is no bench of the slice."""
    content = read_json(path)
    script = content.get("script") or ""
    if not Path(script).name.startswith("bench_") or not (chapter.home / script).is_file():
        return ""
    said = re.search(r"--rounds[ =](\d+)", content.get("command") or "")
    repeats = max((metric.get("repeats") or 0 for metric in content["metrics"].values()), default=0)
    rounds = int(said[1]) if said else repeats
    busy = _busiest(content)
    found = [f"{rounds} rounds"] if rounds < ROUNDS else []
    found += [f"{busy:.1f} busy cores"] if busy >= BUSY_CORES else []
    return ", ".join(found + (unseen_in(content) if content["tier"] != "cpu" else []))  # of ours `stale` tells it


def _busiest(content: dict) -> float:
    """The most cores that others were seen to use; 0 where nobody looked, which `unseen_in` tells."""
    return max((one for one in (content.get("busy_cores") or {}).values() if one is not None), default=0.0)


def _files(repository: Repository) -> list[Path]:
    return sorted((repository.root / WAITING.parent).rglob("*.json"))
