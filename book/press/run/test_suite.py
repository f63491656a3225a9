"""`press test`: what is measured of a chapter's tests, what is left out when it passed, and what is not."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from press.reuse import cache, store
from press.run import calibration, suite

PRESS = Path(__file__).resolve().parents[1]
HOME = "notebooks/signals/moving_mean"
SETTINGS = """\
[tool.pytest.ini_options]
testpaths = ["checks", "notebooks"]
addopts = "--strict-markers -m 'not slow' -p no:cacheprovider -p no:hypothesispytest"
markers = ["slow: long"]
"""
PROOF = """\
import pytest
from moving_mean import moving_mean


def test_mean():
    import time

    time.sleep(0.2)
    assert moving_mean([1, 3], 2) == [2]


@pytest.mark.slow
def test_slow():
    assert not "wanted"
"""


@pytest.fixture
def proved(small):
    """The small repository with a test of its own and tests of its chapter, and a calibration."""
    small.write("pyproject.toml", SETTINGS)
    small.write(str(calibration.SCRIPT), "print([1.0, 0.5])\n")
    small.write("checks/test_always.py", "def test_always():\n    assert True\n")
    small.write(f"{HOME}/test_moving_mean.py", PROOF)
    return small


def pressed(small, *arguments, reuse=False, **more):
    """Exit status and output of `press test` as its own process."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "REBUILT_"))}
    environment |= {"REBUILT_CACHE": os.environ["REBUILT_CACHE"], "REBUILT_REUSE_TESTS": "01"[reuse], **more}
    command = [sys.executable, str(PRESS), "--root", str(small.root), "test", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def record(small):
    """What is noted of the chapter's tests; None where nothing is."""
    path = small.root / "_build/tests/signals-moving_mean.json"
    return json.loads(path.read_text()) if path.exists() else None


def test_a_test_that_hangs_is_ended_named_and_traced(proved):
    proved.write("checks/test_always.py", "import time\n\n\ndef test_hangs():\n    time.sleep(100)\n")
    status, said = pressed(proved, "--timeout=1", "checks")
    assert status == 1 and "test_always.py::test_hangs" in said and "Timeout" in said and "time.sleep(100)" in said
    assert "timeout: 900" in pressed(proved, "checks", "--collect-only")[1]


def test_a_chapter_s_tests_are_measured_and_left_out_only_when_asked_and_unchanged(proved):
    status, said = pressed(proved)
    assert status == 0 and "2 passed" in said, said
    found = record(proved)
    assert found["outcome"] == "passed" and found["tests"] == 1, "the slow one was not asked for"
    assert found["calibration"] == {"before_s": 1.0, "after_s": 1.0, "unit_s": 0.5}
    assert found["processes"] == min(2, suite.cores()) and 0.1 <= found["seconds"] < 10
    assert found["processes"] == 1 or 0 < found["processor_seconds"] < 10
    (proved.root / "_build/tests/signals-moving_mean.json").unlink()
    status, said = pressed(proved, reuse=True)
    assert f"signals/moving_mean: left out, 1 passed here with the same key on {found['date']}" in said
    assert status == 0 and "1 passed" in said.splitlines()[-1], "the others always run; the closing line counts them"
    assert record(proved) == found, "what is known of the chapter is put back"
    with (proved.root / HOME / "moving_mean.py").open("a") as module:
        module.write("# more\n")
    _, said = pressed(proved, reuse=True)
    assert "signals/moving_mean: to run (changed since the last run: chapter)" in said and "2 passed" in said


def test_what_failed_is_never_left_out(proved):
    proved.write(f"{HOME}/test_more.py", "def test_wrong():\n    assert False\n")
    status, _ = pressed(proved, "-n0")
    assert status == 1 and record(proved)["outcome"] == "failed" and not store.contents()


def test_slow_tests_run_when_asked(proved):
    status, said = pressed(proved, "-n0", HOME, REBUILT_SLOW="1")
    assert status == 1 and "test_slow" in said and record(proved)["tests"] == 2


@pytest.mark.parametrize(
    ("arguments", "whole"),
    [
        ([], True),
        ([HOME], True),
        (["checks", "notebooks", "-n0", "-v", "--durations=9"], True),
        (["checks"], False),
        ([f"{HOME}/test_moving_mean.py"], False),
        ([f"{HOME}/test_moving_mean.py::test_mean"], False),
        ([HOME, "-k", "mean"], False),
        ([HOME, "-p", "rehearsal.plugin"], False),
        ([HOME, "-m", "slow"], False),
        ([HOME, "--lf"], False),
        ([HOME, "--maxfail=1"], False),
        ([HOME, "--deselect=x"], False),
        ([HOME, "--collect-only"], False),
    ],
)
def test_only_a_chapter_tested_as_a_whole_leaves_a_record(proved, monkeypatch, arguments, whole):
    monkeypatch.chdir(proved.root)
    measured = suite.Measured(proved.repository, {proved.home: {}}, arguments)
    measured.pytest_sessionstart(SimpleNamespace(config=SimpleNamespace(option=SimpleNamespace(numprocesses=2))))
    measured.keep(report(proved, '<testcase file="{file}" time="3.0"/>'))
    found = record(proved)
    assert (found is not None) == whole
    assert not whole or (found["seconds"], found["tests"], found["outcome"]) == (1.5, 1, "passed")


def report(small, *cases):
    """What pytest tells of some tests of the chapter."""
    found = "".join(cases).replace("{file}", f"{HOME}/test_moving_mean.py")
    return small.write("_build/tests/junit.xml", f"<testsuites><testsuite>{found}</testsuite></testsuites>")


def test_a_file_that_cannot_be_imported_fails_its_chapter(proved):
    measured = suite.Measured(proved.repository, {proved.home: {}}, [])
    measured.keep(report(proved, '<testcase file="{file}"/>', '<testcase file="{file}"><error/></testcase>'))
    assert record(proved)["outcome"] == "failed"


def test_what_was_skipped_is_no_test_that_passed(proved):
    measured = suite.Measured(proved.repository, {proved.home: {}}, [])
    measured.keep(report(proved, '<testcase file="{file}"/>', '<testcase file="{file}"><skipped/></testcase>'))
    assert record(proved)["outcome"] == "passed" and record(proved)["tests"] == 1


def test_a_chapter_edited_while_its_tests_ran_is_not_taken_for_tested(proved):
    measured = suite.Measured(proved.repository, {proved.home: {"chapter": "as it was"}}, [])
    (case,) = suite.ElementTree.parse(report(proved, '<testcase file="{file}"/>')).iter("testcase")
    measured._note(proved.home, {"chapter": "as it is"}, [case], {})
    assert record(proved)["outcome"] == "passed" and not store.contents()
    measured._note(proved.home, {"chapter": "as it was"}, [case], {})
    assert store.get("tests", cache.key({"chapter": "as it was"}))


def test_an_interrupted_session_notes_nothing(proved):
    proved.write(f"{HOME}/test_more.py", "def test_stops():\n    raise KeyboardInterrupt\n")
    status, _ = pressed(proved, "-n0")
    assert status == 2 and record(proved) is None


def test_the_house_s_tests_are_left_out_too_when_nothing_changed(proved):
    proved.write("helpers/test_data.py", "def test_house():\n    assert True\n")
    proved.write("pyproject.toml", SETTINGS.replace('"checks"', '"helpers"'))
    proved.write(".gitignore", "_build/\n__pycache__/\n")
    subprocess.run(["git", "init", "-q"], cwd=proved.root, check=True)
    status, said = pressed(proved)
    assert status == 0 and "2 passed" in said
    status, said = pressed(proved, reuse=True)
    assert status == 0 and "tests of helpers: left out, 1 passed here with the same key" in said
    assert "2 passed before with the same keys, none had to run in 0.0s" in said.splitlines()[-1]
    proved.write("book/welcome.md", "# Welcome\n")
    status, said = pressed(proved, reuse=True)
    assert (
        "tests of helpers: to run (changed since the last run: files)" in said and "1 passed" in said.splitlines()[-1]
    )
