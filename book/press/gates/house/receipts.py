"""The gate on receipts: what readers send in, held to the same rules as our own.

House rules that a receipt cannot be refused for (twenty rounds, a quiet machine) are told, and are no problem.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from ...files import read_json
from ...incoming.rules import problems
from ...ledger import BUSY_CORES
from ...race import ROUNDS
from ...repository import Chapter, Repository
from .. import Problem, gate


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
    for path in sorted((repository.root / "data" / "receipts").rglob("*.json")):
        wrong = problems(repository, path)
        yield from (Problem(repository.relative(path), what) for what in wrong)
        weak = "" if wrong else weakness(chapters[path.parent.name], path)
        told += [f"{path.parent.name}/{path.name} ({weak})"] if weak else []
    if told:
        print(f"receipts: races with fewer than {ROUNDS} rounds or beside other work: {', '.join(told)}", flush=True)


def weakness(chapter: Chapter, path: Path) -> str:
    """How a race falls short of the house rules; empty where it does not, and for what is no bench of the slice."""
    content = read_json(path)
    script = content.get("script") or ""
    if not Path(script).name.startswith("bench_") or not (chapter.home / script).is_file():
        return ""
    said = re.search(r"--rounds[ =](\d+)", content.get("command") or "")
    repeats = max((metric.get("repeats") or 0 for metric in content["metrics"].values()), default=0)
    rounds, busy = int(said[1]) if said else repeats, max((content.get("busy_cores") or {}).values(), default=0.0)
    found = [f"{rounds} rounds"] if rounds < ROUNDS else []
    return ", ".join(found + ([f"{busy:.1f} busy cores"] if busy >= BUSY_CORES else []))
