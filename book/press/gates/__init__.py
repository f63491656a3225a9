"""The gates: what has to be true of the repository before anything is published. A gate is a function from the
repository to its problems: tuples of a path, what is wrong and what is allowed, and where they are known the cell and
the line. Its name is the gate's, its docstring the rule, with the numbers of its module in braces; `rules.yml` says why
it is, and how to mend a breach; `said.yml` has the patterns of what looks measured. They lie in two rooms: `chapters`
(what chapters and pages say) and `house` (what they stand on). `markdown` and `python` read texts for all of them."""

import importlib
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import yaml

from ..errors import PressError
from ..repository import Chapter, Repository

MODULES = [f"chapters.{name}" for name in ("notebooks", "acts", "cards", "said")]
MODULES += [f"house.{name}" for name in ("registry", "links", "code", "recorded")]
REASONS = yaml.safe_load(Path(__file__).with_name("rules.yml").read_text(encoding="utf-8"))
OF_THE_HOUSE = {"release"}  # say nothing of one chapter


class Problem(namedtuple("Problem", "where what cell line", defaults=(None, None))):
    """One finding: the path below the root, what is wrong and what is allowed, the cell or line in it."""

    def __str__(self) -> str:
        place = f", cell {self.cell}" if self.cell is not None else ""
        place += f", line {self.line}" if self.line is not None else ""
        return f"{self.where}{place}: {self.what}" if self.where else self.what


class Gate(namedtuple("Gate", "name title why mend find")):
    """A named rule with its reason and the way to mend a breach; `find` goes from a repository to its problems."""

    def problems(self, repository: Repository) -> list[Problem]:
        """What the gate finds; a file that cannot be read is a finding, too, in no place."""
        try:
            found = [(repository.root / where, *rest) for where, *rest in self.find(repository)]
        except PressError as error:
            return [Problem("", str(error))]
        return [Problem(repository.relative(where), *rest) for where, *rest in found]


GATES: dict[str, Gate] = {}


def gate(find: Callable[[Repository], Iterable[tuple]]) -> Callable:
    """Decorator: make the function the gate of its name."""
    title = find.__doc__.strip().removesuffix(".").format_map(find.__globals__)
    GATES[find.__name__] = Gate(find.__name__, title, **REASONS[find.__name__], find=find)
    return find


def load() -> dict[str, Gate]:
    """All gates by name, in the order of `rules.yml`."""
    for module in MODULES:
        importlib.import_module(f"{__name__}.{module}")
    return {name: GATES[name] for name in REASONS}


def cells(repository: Repository, *kinds: str) -> Iterator[tuple[Chapter, int, dict]]:
    """(chapter, index, cell) of all cells of all notebooks, or of those of some kinds."""
    for chapter in repository.chapters:
        numbered = enumerate(chapter.cells)
        yield from ((chapter, index, cell) for index, cell in numbered if not kinds or cell.cell_type in kinds)


def check(repository: Repository, names: list[str] | None = None, chapters: list[str] | None = None) -> int:
    """Print one line a gate, then every problem, or those of some chapters alone; 1 if there is one, else 0."""
    known = load()
    if unknown := [name for name in names or [] if name not in known]:
        raise PressError(f"no gate is called {', '.join(unknown)}; there are: {', '.join(known)}")
    chosen = [known[name] for name in names or known if not chapters or name not in OF_THE_HOUSE]
    places = [place for chapter in repository.select(chapters) for place in _places(chapter)] if chapters else [Path()]
    failed = []
    for each in chosen:
        found = [(problem, Path(problem.where)) for problem in each.problems(repository)]  # of no place: of all
        problems = [one for one, path in found if not one.where or any(map(path.is_relative_to, places))]
        verdict = "ok" if not problems else f"{len(problems)} problem{'s' * (len(problems) > 1)}"
        print(f"{each.name:13} {each.title:78} {verdict}", flush=True)
        failed += [(each, problems)] if problems else []
    for each, problems in failed:
        print(f"\n{each.name}: {each.title}", *problems, f"Why: {each.why}", f"Mend: {each.mend}", sep="\n  ")
    total = sum(len(problems) for _, problems in failed)
    print(f"\n{len(chosen) - len(failed)} of {len(chosen)} gates pass" + (f"; {total} problems" if total else ""))
    return 1 if failed else 0


def _places(chapter: Chapter) -> list[Path]:
    """Below the root: a chapter's folder, its executed copy, its receipts, its predictions."""
    data = [Path(f"data/receipts/{chapter.stem}"), Path(f"data/predictions/{chapter.stem}.json")]
    page = Path(f"_build/html/{chapter.document}.html")
    return [*data, page, *(path.relative_to(chapter.root) for path in (chapter.home, chapter.executed))]
