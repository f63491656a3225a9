"""`press score`: learners' notebooks held against the hidden cases of `cases.yml`. What a learner wrote runs in its own
process, with little time, memory and disk, in a folder that goes afterwards, without a network where the system lets
it. It is no jail: a process reads what its user may. What should come back never enters that process: it stands with
the case, or the book's own solution says it, in another one."""

import ast
import csv
import io
import json
import math
import os
import re
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

from ..errors import PressError
from ..files import write_json, write_text
from ..repository import Chapter, Repository, read_yaml
from ..run import child
from . import checkpoints, proofs
from .courses import CASES
from .variants import defined, exercises

SECONDS, MOST_BYTES, WITHIN = 180, 10_000_000, 1e-6  # for all cases of an answer, with imports; of a file; of a number
LIMITS = {"RLIMIT_CPU": 90, "RLIMIT_FSIZE": 20_000_000, "RLIMIT_AS": 16 << 30}
KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "OMP_NUM_THREADS")  # of the environment; no more is handed on
COLUMNS = ("learner", "chapter", "exercise", "points", "of", "why")
UNREADABLE = (SyntaxError, ValueError, TypeError, KeyError, RecursionError, MemoryError, OSError)


def score(repository: Repository, folder: str, cases: str | None = None, timeout: float | None = None) -> int:
    """Score what lies in a folder as `<learner>/<stem>….ipynb` or `.py`: a line for each exercise, and all of them as
    `_build/scores/<folder>.csv` and `.json`; 0. PressError where nothing there can be scored."""
    known, home, rows = {one.stem: one for one in repository.chapters}, Path(folder).resolve(), []
    judge = Judge(repository, read_yaml(Path(cases)) if cases else CASES, timeout or SECONDS)
    for path in [one for one in sorted(home.rglob("*")) if one.suffix in (".ipynb", ".py") and one.is_file()]:
        chapter, learner = known.get(path.name.split(".")[0]), path.relative_to(home).parts[0]
        for key in [key for key in judge.cases if chapter and key.partition("/")[0] == chapter.stem]:
            points, why = judge.points(chapter, key, path)
            words = [re.sub(r"^(?=[-=+@\t])", "'", one) for one in (learner, why)]  # no formula in a table
            row = (words[0], str(chapter), key.partition("/")[2], points, len(judge.cases[key]["cases"]), words[1])
            rows.append(dict(zip(COLUMNS, row, strict=True)))
            print("{learner}: {chapter}, {exercise}: {points} of {of} {why}".format(**rows[-1]).rstrip(), flush=True)
    if not rows:
        raise PressError(f"{home} holds no notebook of a chapter with hidden cases, <learner>/<stem>.student.ipynb")
    text, made = io.StringIO(), repository.build / "scores" / home.name
    table = csv.DictWriter(text, COLUMNS)
    table.writeheader()
    table.writerows(rows)
    write_json(Path(f"{made}.json"), rows)
    print(f"wrote {write_text(Path(f'{made}.csv'), text.getvalue())}, and the same as JSON")
    return 0


class Judge:
    """Scores answers by cases; what the book's own solution returns is asked once."""

    def __init__(self, repository: Repository, cases: dict, seconds: float = SECONDS):
        self.repository, self.cases, self.seconds, self.known = repository, cases, seconds, {}

    def points(self, chapter: Chapter, key: str, path: Path) -> tuple[int, str]:
        """How many cases a learner's file passes, and the first thing that is wrong, "" where nothing is."""
        function = defined(exercises(chapter.cells)[key.partition("/")[2]]["stub"][0].source)
        try:
            if path.is_symlink() or path.stat().st_size > MOST_BYTES:
                return 0, "a link, or too large a file"
            text = path.read_text(encoding="utf-8")
            own = [] if path.suffix == ".py" else json.loads(text)["cells"]
            cells = ["".join(one["source"]) for one in own if one["cell_type"] == "code"] or [text]
            source = answer(cells, function)
        except UNREADABLE as error:
            return 0, f"cannot be read: {type(error).__name__}"
        return self.passed(chapter, key, source, function) if source else (0, f"no {function} in it")

    def passed(self, chapter: Chapter, key: str, source: str, function: str) -> tuple[int, str]:
        """How many cases a source passes that defines the function, and the first thing that is wrong."""
        got, within, wrong = self.run(chapter, key, source, function), self.cases[key].get("within", WITHIN), []
        for (lost, value), want in zip(got, self.wanted(chapter, key), strict=True):
            wrong.append(lost or ("" if same(value, want, within) else "another value"))
        return wrong.count(""), " ".join(next(filter(None, wrong), "").split())

    def wanted(self, chapter: Chapter, key: str) -> list:
        """What each case should return; PressError where the book's own solution fails in one."""
        if key not in self.known:
            solution = exercises(chapter.cells)[key.partition("/")[2]]["solution"][0].source
            own = self.run(chapter, key, answer([*plain(chapter), solution], defined(solution)), defined(solution))
            if broken := [lost for lost, _ in own if lost]:
                raise PressError(f"cases of {key}: the book's own solution fails: {broken[0]}")
            pairs = zip(self.cases[key]["cases"], own, strict=True)
            self.known[key] = [case.get("want", value) for case, (_, value) in pairs]
        return self.known[key]

    def run(self, chapter: Chapter, key: str, source: str, function: str) -> list[tuple[str, object]]:
        """Of each case why the source did not return, "" where it did, and what; whatever it started is gone."""
        gives, setup = [one["give"] for one in self.cases[key]["cases"]], self.cases[key].get("setup", "")
        base = checkpoints.needed(statements(plain(chapter)), [setup, *(f"({give},)" for give in gives)])
        steps = [(True, "\n".join([*base, setup, source]))]
        steps += [(False, f"_value = {function}(*({give},))") for give in gives]
        with child.scratch(self.repository, "score") as folder:
            path = os.pathsep.join(map(str, (chapter.home, chapter.root)))
            own = {"PYTHONPATH": path, "HOME": str(folder), "REBUILT_TIER": "cpu", "REBUILT_OFFLINE": "1"}
            own |= {name: os.environ[name] for name in KEPT if name in os.environ}
            try:
                heard, ended, _ = proofs.told(steps, folder, folder, own, self.seconds, LIMITS, *apart())
                found = [(f"{wrong[1]}: {wrong[2]}"[:200] if wrong else "", value) for wrong, _, value in heard]
            except UNREADABLE:
                found, ended = [], child.Ended(0, None, [])
        lost = "it ended early" if ended.status in range(128) else "it took too much time, memory or disk"
        first, *rest = [*found, *[(lost, None)] * (1 + len(gives))]
        return [first if first[0] else one for one in rest[: len(gives)]]


def plain(chapter: Chapter) -> list[str]:
    """The code cells of a chapter that belong to no exercise."""
    return [one.source for one in chapter.cells if one.cell_type == "code" and not one.metadata.get("exercise")]


def statements(cells: list[str]) -> list[str]:
    """The statements of cells one by one, without bare calls; none of a cell that is not Python, as with `%`."""
    found = []
    for cell in cells:
        with suppress(SyntaxError):
            found += [ast.unparse(node) for node in ast.parse(cell).body if not isinstance(node, ast.Expr)]
    return found


def answer(cells: list[str], function: str) -> str:
    """The last statement that binds a function, and before it those that it needs; "" where none does.

    >>> answer(["a = 1", "def more(x):\\n    return x + a", "b = 2", "print(more(b))"], "more")
    'a = 1\\n\\ndef more(x):\\n    return x + a'
    """
    found = statements(cells)
    if own := [at for at, one in enumerate(found) if function in checkpoints.made(one)]:
        last = found.pop(own[-1])
        return "\n\n".join([*checkpoints.needed(found, [last]), last])
    return ""


def same(got: object, want: object, within: float) -> bool:
    """Whether two plain values are alike, numbers within a tolerance, "not a number" like itself."""
    if isinstance(want, list) and isinstance(got, list):
        return len(got) == len(want) and all(same(*one, within) for one in zip(got, want, strict=True))
    if isinstance(want, int | float) and isinstance(got, int | float) and abs(got) < 1e300:
        return math.isclose(got, want, rel_tol=within, abs_tol=within)
    return got == want or (got != got and want != want)


@cache
def apart() -> list[str]:
    """What puts a command where there is no network; nothing where the system has no such thing."""
    command = ["unshare", "--net", "--map-root-user"]
    able = shutil.which("unshare") and not subprocess.run([*command, "true"], capture_output=True).returncode
    return command if able else []
