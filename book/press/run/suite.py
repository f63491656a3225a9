"""`press test`: pytest over two processes; what each slice's tests took is kept, and what passed may be left out.

A slice's tests are left out only on request (`REBUILT_REUSE_TESTS=1`) and only when the same key passed on this
machine; what is left out is told, with its date. Tests of the press and of the helpers always run: they look at the
whole repository, so that hardly any change leaves them alone.
"""

import os
import time
from collections import defaultdict
from pathlib import Path

from helpers.device import cores

from ..files import read_json, write_json
from ..repository import Chapter, Repository
from ..reuse import cache, store
from . import calibration, processes
from .threads import THREADS

MOST_PROCESSES = 2
TEST_SECONDS = 900  # of one test with its fixtures: what hangs is ended, named and traced
LOOK_SECONDS = 1.0  # at least, between two looks at the processor time of the tests' processes
QUICK = "not slow"  # as in pyproject.toml: what runs unless more is asked for
REHEARSAL = "rehearsal.plugin"
NARROWING = ("keyword", "lf", "stepwise", "deselect", "maxfail", "collectonly", "ignore_glob")


def run(repository: Repository, arguments: list[str]) -> int:
    """pytest's exit status; `arguments` go to pytest, such as `-n0` for one process that a debugger can stop."""
    import pytest

    os.chdir(repository.root)
    count = min(MOST_PROCESSES, cores())
    for name in THREADS:
        os.environ.setdefault(name, str(max(1, cores() // count)))
    slices = slices_of(repository)
    made_of = {home: cache.proof_parts(repository, chapters) for home, chapters in slices.items()}
    reusing = os.environ.get("REBUILT_REUSE_TESTS") == "1" and not arguments
    left_out = [home for home in slices if reusing and passed_before(repository, home, made_of[home])]
    chosen = [f"-n{count if count > 1 else 0}", "--dist=loadscope", f"--timeout={TEST_SECONDS}"]
    chosen += [f"--ignore={repository.relative(home)}" for home in left_out]
    chosen += ["-m", ""] if os.environ.get("REBUILT_SLOW") == "1" else []
    measured = Measured(repository, {home: made for home, made in made_of.items() if home not in left_out})
    return int(pytest.main([*chosen, *arguments], plugins=[measured]))


def slices_of(repository: Repository) -> dict[Path, list[Chapter]]:
    """The notebooks of each slice, by the slice's folder."""
    found = defaultdict(list)
    for chapter in repository.chapters:
        found[chapter.home].append(chapter)
    return dict(found)


def record_of(repository: Repository, home: Path) -> Path:
    """Where it is noted how a slice's tests came out."""
    return repository.build / "tests" / f"{home.parent.name}-{home.name}.json"


def passed_before(repository: Repository, home: Path, made_of: dict[str, str]) -> bool:
    """Whether the slice's tests passed on this machine with the same key; tells either since when or why not."""
    where, name = record_of(repository, home), f"tests of {home.parent.name}/{home.name}"
    kept = store.get("tests", cache.key(made_of))
    if kept is None:
        print(f"{name}: to run ({cache.why(made_of, read_json(where))})", flush=True)
        return False
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_bytes(kept["record.json"])
    told = read_json(where)
    print(f"{name}: left out, {told['tests']} passed here with the same key on {told['date']}", flush=True)
    return True


class Measured:
    """A plugin of the process that leads: sums each slice's seconds and notes how its tests came out."""

    def __init__(self, repository: Repository, made_of: dict[Path, dict[str, str]]):
        self.repository, self.made_of = repository, made_of
        self.seconds: dict[Path, float] = defaultdict(float)
        self.tests: dict[Path, int] = defaultdict(int)
        self.failed: set[Path] = set()
        self.covered: set[Path] = set()
        self.calibration: dict[str, float] = {}
        self.processes = 1
        self._taken, self._looked = processes.Taken(os.getpid()), 0.0

    def pytest_sessionstart(self, session) -> None:
        """Which slices are tested as a whole, and how fast the machine is now."""
        option = session.config.option
        narrow = any(getattr(option, name, None) for name in NARROWING) or option.markexpr not in ("", QUICK)
        narrow |= REHEARSAL in (getattr(option, "plugins", None) or ())  # a pretended GPU is another machine
        asked = [Path(session.config.invocation_params.dir, argument) for argument in session.config.args]
        whole = [path.resolve() for path in asked if "::" not in path.name]
        if not narrow:
            self.covered = {home for home in self.made_of if {home, *home.parents} & set(whole)}
        self.processes = max(1, getattr(option, "numprocesses", None) or 1)
        self._calibrate("before")

    def _calibrate(self, when: str) -> None:
        if self.covered:
            self.calibration |= calibration.named({"when": when, **calibration.measure(self.repository.root)})

    def pytest_runtest_logreport(self, report) -> None:
        """Add one phase of one test to its slice."""
        home = self._home(report.nodeid)
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self._taken.look()
            self._looked = time.monotonic()
        self.seconds[home] += report.duration
        self.tests[home] += report.when == "call"
        if report.failed:
            self.failed.add(home)

    def pytest_collectreport(self, report) -> None:
        """A file that cannot be imported is a failure of its slice."""
        if report.failed:
            self.failed.add(self._home(report.nodeid))

    def _home(self, nodeid: str) -> Path:
        path = self.repository.root / nodeid.partition("::")[0]
        return next((home for home in (path, *path.parents) if home in self.made_of), path)

    def pytest_sessionfinish(self, exitstatus) -> None:
        """Write the records of what was tested as a whole, and keep what passed."""
        if int(exitstatus) not in (0, 1):  # interrupted, or wrongly used: nothing was tested as a whole
            return
        self._taken.look()
        self._calibrate("after")
        now = Repository(self.repository.root)
        chapters = slices_of(now)
        for home in sorted(self.covered & chapters.keys()):
            if self.tests[home] or home in self.failed:
                self._note(home, cache.proof_parts(now, chapters[home]))

    def _note(self, home: Path, made_of: dict[str, str]) -> None:
        where, passed = record_of(self.repository, home), home not in self.failed
        record = {
            "slice": f"{home.parent.name}/{home.name}",
            "seconds": round(self.seconds[home] / self.processes, 2),
            "processor_seconds": self._processor_seconds(home),
            "processes": self.processes,
            "tests": self.tests[home],
            "outcome": "passed" if passed else "failed",
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "calibration": self.calibration,
            "machine": cache.hardware(),
            "made_of": self.made_of[home],
        }
        write_json(where, record)
        if passed and made_of == self.made_of[home]:  # nobody edited the slice meanwhile
            store.put("tests", cache.key(made_of), {"record.json": where.read_bytes()})

    def _processor_seconds(self, home: Path) -> float | None:
        """The slice's share, by its tests' seconds, of what the processes took; None without processes of their own."""
        if self.processes == 1:
            return None
        return round(self._taken.seconds * self.seconds[home] / sum(self.seconds.values()) / self.processes, 2)
