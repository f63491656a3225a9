"""What `conftest.py` at the root leaves out: what passed while all that it looks at was the same."""

import os
import re
import shutil
import subprocess
import sys
import time

import pytest

from press.repository import HOME

TESTS = """
import pathlib, pytest
from press.repository import Repository
ROOT = pathlib.Path(__file__).resolve().parents[2]

@pytest.mark.parametrize("chapter", Repository(ROOT).chapters, ids=str)
def test_of_a_chapter(chapter):
    pass
"""
NOWHERE = "def test_that_looks_nowhere():\n    pass\n"
READS = """
import pathlib

def test_that_reads():
    assert pathlib.Path("notebooks/signals/moving_mean/moving_mean.py").read_text()
"""
STARTS = """
import subprocess

def test_that_starts_a_program_there():
    subprocess.run(["ls"], cwd=".")
"""
SKIPS = """
import pytest

def test_that_is_skipped():
    pytest.skip("not now")
"""
COLLECTED = """
import pathlib
SEEN = pathlib.Path("notebooks/signals/moving_mean/moving_mean.py").read_text()

def test_of_what_was_read_before():
    assert SEEN
"""
FAILS = "def test_that_fails():\n    assert not 1\n"
FILES = {"own": TESTS, "nowhere": NOWHERE, "reads": READS, "starts": STARTS, "fails": FAILS, "skips": SKIPS}
FILES |= {"collected": COLLECTED}
NAMES = {"test_of_a_chapter", "test_that_looks_nowhere", "test_that_reads", "test_that_starts_a_program_there"}
NAMES |= {"test_of_what_was_read_before"}
AGAIN = {"test_that_fails", "test_that_is_skipped"}  # in every run


@pytest.fixture
def ran(small):
    """A function that runs the tests of a small house, over two processes or in one: the names of those that ran."""
    shutil.copyfile(HOME / "conftest.py", small.root / "conftest.py")
    for name, text in FILES.items():
        small.write(f"book/press/test_{name}.py", text)
    shutil.rmtree(small.root / "helpers")  # those of the book
    small.write("rehearsal/data.py", "WHAT = 1\n")
    small.write(".gitignore", "_build/\n__pycache__/\n")
    subprocess.run(["git", "init", "-q"], cwd=small.root, check=True)
    own = {**os.environ, "REBUILT_REUSE_TESTS": "1", "PYTHONPATH": f"{HOME}{os.pathsep}{HOME / 'book'}"}

    def run(processes=0):
        command = [sys.executable, "-m", "pytest", "-v", f"-n{processes}", "--dist=loadscope", "-p", "no:cacheprovider"]
        done = subprocess.run([*command, "book/press"], cwd=small.root, env=own, capture_output=True, text=True)
        found = set(re.findall(r"::(test_\w+)", done.stdout))
        assert found >= AGAIN, done.stdout + done.stderr
        return found - AGAIN

    return run


@pytest.mark.parametrize("processes", [0, 2])
def test_what_passed_is_left_out_and_what_failed_is_not(ran, processes):
    assert ran(processes) == NAMES
    assert ran(processes) == set()


def test_a_changed_chapter_runs_what_looks_at_it(ran, small):
    ran()
    path = small.home / "moving_mean.py"
    path.write_text(path.read_text() + "MORE = 1\n")
    assert ran() == NAMES - {"test_that_looks_nowhere"}
    assert ran() == set()


def test_what_was_edited_meanwhile_is_not_kept(ran, small):
    small.write("rehearsal/data.py", "WHAT = 3\n")
    path = small.root / "rehearsal/data.py"
    os.utime(path, (time.time() + 3600,) * 2)
    assert ran() == ran() == NAMES


def test_another_chapter_runs_what_started_a_program_alone(ran, small):
    ran()
    small.write("notebooks/signals/other/other.py", "")
    assert ran() == {"test_that_starts_a_program_there"}


def test_changed_code_of_the_house_runs_everything(ran, small):
    ran()
    small.write("rehearsal/data.py", "WHAT = 2\n")
    assert ran() == NAMES


def test_a_built_page_that_changed_is_looked_at_again(ran, small):
    ran()
    small.write("_build/html/notebooks/signals/moving_mean/moving_mean.html", "<p>")
    assert ran() == {"test_of_a_chapter"}
