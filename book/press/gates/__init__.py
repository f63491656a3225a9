"""The gates: what has to be true of the repository before anything is published.

A gate is a function from the repository to the problems that it sees. Each says what is wrong and what is
allowed, where; the gate says once why, and how to mend it.

They lie in two rooms: `chapters` (what chapters and pages say) and `house` (what they stand on). `markdown` and
`python` read texts for all of them.
"""

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..errors import PressError
from ..repository import Repository

MODULES = [
    *(f"chapters.{name}" for name in ("notebooks", "cards", "teaching", "figures", "numbers", "results")),
    *(f"house.{name}" for name in ("registry", "live", "links", "code", "versions", "budgets")),
    *(f"house.{name}" for name in ("receipts", "shown", "studies", "predictions")),
    "chapters.words",
]


@dataclass(frozen=True)
class Problem:
    """One finding: the path below the root, the cell or line in it, and what is wrong and what is allowed."""

    where: str
    what: str
    cell: int | None = None
    line: int | None = None

    def __str__(self) -> str:
        place = f", cell {self.cell}" if self.cell is not None else ""
        place += f", line {self.line}" if self.line is not None else ""
        return f"{self.where}{place}: {self.what}" if self.where else self.what


@dataclass(frozen=True)
class Gate:
    """A named rule with its reason and the way to mend a breach."""

    name: str
    title: str
    why: str
    mend: str
    find: Callable[[Repository], Iterable[Problem]]

    def problems(self, repository: Repository) -> list[Problem]:
        """What the gate finds; a file that cannot be read is a finding, too."""
        try:
            return list(self.find(repository))
        except PressError as error:
            return [Problem("", str(error))]


GATES: dict[str, Gate] = {}


def gate(name: str, title: str, *, why: str, mend: str) -> Callable:
    """Decorator: make the function the gate `name`."""

    def register(find: Callable[[Repository], Iterable[Problem]]) -> Callable:
        GATES[name] = Gate(name, title, why, mend, find)
        return find

    return register


def load() -> dict[str, Gate]:
    """All gates by name, in the order of the modules."""
    for module in MODULES:
        importlib.import_module(f"{__name__}.{module}")
    return dict(
        sorted(GATES.items(), key=lambda item: MODULES.index(item[1].find.__module__.removeprefix(f"{__name__}.")))
    )


def check(repository: Repository, names: list[str] | None = None) -> int:
    """Print one line a gate, then every problem; 1 if there is one, else 0."""
    known = load()
    unknown = [name for name in names or [] if name not in known]
    if unknown:
        raise PressError(f"no gate is called {', '.join(unknown)}; there are: {', '.join(known)}")
    chosen = [known[name] for name in names or known]
    failed = []
    for each in chosen:
        problems = each.problems(repository)
        verdict = "ok" if not problems else f"{len(problems)} problem{'s' * (len(problems) > 1)}"
        print(f"{each.name:13} {each.title:78} {verdict}", flush=True)
        failed += [(each, problems)] if problems else []
    for each, problems in failed:
        print(f"\n{each.name}: {each.title}")
        for problem in problems:
            print(f"  {problem}")
        print(f"  Why: {each.why}\n  Mend: {each.mend}")
    total = sum(len(problems) for _, problems in failed)
    print(f"\n{len(chosen) - len(failed)} of {len(chosen)} gates pass" + (f"; {total} problems" if total else ""))
    return 1 if failed else 0
