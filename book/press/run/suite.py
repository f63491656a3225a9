"""`press test`: pytest over two processes; what each group's tests took is kept, and what passed may be left out. A
group is a chapter, or what belongs to the house. Left out are, where `REBUILT_REUSE_TESTS=1` asks for it, those that
passed on this machine with the same key, and that is told."""

import os
import time
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

from helpers.device import cores

from ..files import read_json, remove, write_json
from ..repository import Chapter, Repository
from ..reuse import cache, store
from . import conditions
from .processes import THREADS

MOST_PROCESSES = 2
TEST_SECONDS = 900  # of one test with its fixtures: what hangs is ended, named and traced
HOUSE = ("helpers", "rehearsal", "book/press")
PASSED, FAILED, NOTHING_COLLECTED = 0, 1, 5  # pytest's exit status
HARMLESS = ("-n", "-v", "-q", "-r", "--durations", "--timeout")  # options that leave no test out


def run(repository: Repository, arguments: list[str]) -> int:
    """pytest's exit status; `arguments` go to pytest, such as `-n0` for one process that a debugger can stop."""
    import pytest

    os.chdir(repository.root)
    count = min(MOST_PROCESSES, cores())
    for name in THREADS:
        os.environ.setdefault(name, str(max(1, cores() // count)))
    made_of, report = groups(repository), repository.build / "tests" / "junit.xml"
    reusing = os.environ.get("REBUILT_REUSE_TESTS") == "1" and not arguments
    passed = {home: passed_before(repository, home, made_of[home]) for home in made_of if reusing}
    left_out = [home for home, tests in passed.items() if tests]
    chosen = [f"-n{count if count > 1 else 0}", "--dist=loadscope", f"--timeout={TEST_SECONDS}"]
    chosen += [f"--junitxml={report}", "-ojunit_family=xunit1"]  # with each test's file
    chosen += [f"--ignore={path}" for home in left_out for path in home.iterdir()]  # home itself may be asked for
    chosen += ["-m", ""] if os.environ.get("REBUILT_SLOW") == "1" else []
    measured = Measured(repository, {home: made for home, made in made_of.items() if home not in left_out}, arguments)
    remove(report)
    status = int(pytest.main([*chosen, *arguments], plugins=[measured]))
    if status in (PASSED, FAILED):  # else it was interrupted, or wrongly used: nothing was tested as a whole
        measured.keep(report)
    if status != NOTHING_COLLECTED or not left_out:
        return status
    print(f"{sum(passed.values())} passed before with the same keys, none had to run in 0.0s", flush=True)
    return PASSED


def by_folder(repository: Repository) -> dict[Path, list[Chapter]]:
    """The notebooks of each chapter, by its folder."""
    homes = dict.fromkeys(chapter.home for chapter in repository.chapters)
    return {home: [chapter for chapter in repository.chapters if chapter.home == home] for home in homes}


def groups(repository: Repository) -> dict[Path, dict[str, str]]:
    """What the tests of each group depend on, by its folder; without what cannot be known outside of git."""
    told = {home: cache.proof_parts(repository, notebooks) for home, notebooks in by_folder(repository).items()}
    house = cache.house_parts(repository)
    return told | {repository.root / name: house | {"folder": name} for name in HOUSE if house}


def record_of(repository: Repository, home: Path) -> Path:
    """Where it is noted how a group's tests came out."""
    return repository.build / "tests" / f"{_name(repository, home).replace('/', '-')}.json"


def _name(repository: Repository, home: Path) -> str:
    return repository.relative(home).removeprefix("notebooks/")


def passed_before(repository: Repository, home: Path, made_of: dict[str, str]) -> int:
    """How many of the group's tests passed on this machine with the same key; tells either since when or why none."""
    where, name = record_of(repository, home), f"tests of {_name(repository, home)}"
    kept = store.get("tests", cache.key(made_of))
    if kept is None:
        print(f"{name}: to run ({cache.why(made_of, read_json(where))})", flush=True)
        return 0
    write_json(where, kept)
    print(f"{name}: left out, {kept['tests']} passed here with the same key on {kept['date']}", flush=True)
    return kept["tests"]


class Measured:
    """What the tests of each group that is tested as a whole took, and how they came out; a plugin of pytest's."""

    def __init__(self, repository: Repository, made_of: dict[Path, dict[str, str]], arguments: list[str]):
        self.repository, self.made_of, self.processes = repository, made_of, 1
        folders = {Path(argument).resolve() for argument in arguments if Path(argument).is_dir()}
        narrow = [one for one in arguments if not Path(one).is_dir() and not one.startswith(HARMLESS)]
        whole = folders or {repository.root}
        self.covered = [home for home in made_of if {home, *home.parents} & whole and not narrow]
        self.calibration = self._calibrated("before_s")
        self.began = sum(os.times()[2:4])

    def _calibrated(self, when: str) -> dict[str, float]:
        found = conditions.calibrated(self.repository.root) if self.covered else {}
        return {when: found["seconds"], "unit_s": found["unit_s"]} if found else {}

    def pytest_sessionstart(self, session) -> None:
        """How many processes share the tests."""
        self.processes = max(1, getattr(session.config.option, "numprocesses", None) or 1)

    def keep(self, report: Path) -> None:
        """Write the records of what was tested as a whole, and keep what passed."""
        taken = sum(os.times()[2:4]) - self.began  # of the tests' processes, which are all gone
        self.calibration |= self._calibrated("after_s")
        cases, now = defaultdict(list), groups(Repository(self.repository.root))
        for case in ElementTree.parse(report).iter("testcase"):
            path = self.repository.root / case.get("file", "")
            cases[next((home for home in (path, *path.parents) if home in self.made_of), path)].append(case)
        seconds = {home: sum(float(case.get("time", 0)) for case in found) for home, found in cases.items()}
        for home in (home for home in self.covered if cases[home] and home in now):
            shared = seconds[home] / self.processes
            processor = round(taken * shared / (sum(seconds.values()) or 1.0), 2) if self.processes > 1 else None
            self._note(home, now[home], cases[home], {"seconds": round(shared, 2), "processor_seconds": processor})

    def _note(self, home: Path, made_of: dict[str, str], cases: list[ElementTree.Element], took: dict) -> None:
        where, outcomes = record_of(self.repository, home), [{one.tag for one in case} for case in cases]
        passed = not any({"failure", "error"} & tags for tags in outcomes)
        record = took | {
            "chapter": _name(self.repository, home),
            "processes": self.processes,
            "tests": sum("skipped" not in tags for tags in outcomes),
            "outcome": "passed" if passed else "failed",
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "calibration": self.calibration,
            "machine": cache.hardware(),
            "made_of": self.made_of[home],
        }
        write_json(where, record)
        if passed and made_of == self.made_of[home]:  # nobody edited the group meanwhile
            store.put("tests", cache.key(made_of), record)
