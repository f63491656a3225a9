"""`.ci/numbers`, which writes the table of CONTRIBUTING: what it reads, and that no skipped test runs nowhere."""

import json
import re
import runpy

import pytest

from press.repository import HOME, is_proof, python_files

OWN = runpy.run_path(str(HOME / ".ci/numbers"))
ROW = "2026-01-02\t{}\t{}\t{}\n"
REASON = re.compile(r'(?:\bskip\(|(?:importorskip|skipif)\((?:(?!\bdef )[\s\S]){0,200}?reason=)\s*f?"([^"]+)"')
JUNIT = """<testsuites><testsuite><testcase name="a"/><testcase name="b"><skipped message="no GPU here"/></testcase>
<testcase name="c"><skipped message="no GPU"/></testcase></testsuite></testsuites>"""


@pytest.fixture
def book(small):
    """The small repository, with the workflow whose limit is told."""
    text = (HOME / ".github/workflows/book.yml").read_text(encoding="utf-8")
    small.write(".github/workflows/book.yml", text)
    return small


def told(book):
    """The rows of the table: what was measured, by what it is."""
    rows = [line.strip("| ").split(" | ") for line in OWN["table"](book.repository).splitlines()]
    return {row[0]: row[1].removesuffix(" |") for row in rows[2:]}


def test_what_was_not_measured_says_what_would_measure_it(book):
    found = told(book)
    assert found["minutes of `.ci/run`, cold"] == "not measured: `.ci/run`"
    assert found["heaviest page"] == found["largest PDF"] == "not measured: `make book`"
    assert found["tests run and skipped"] == "not measured: `make test`"


def test_the_newest_whole_run_of_each_kind_gives_the_minutes(book):
    whole = [(phase, seconds) for phase, seconds in zip(OWN["PHASES"], (600, 1200, 60, 120), strict=True)]
    text = "".join(ROW.format("cold", *one) for one in [("book", 6000), *whole, ("book", 60)])
    text += "".join(ROW.format("warm", phase, seconds / 60) for phase, seconds in whole).replace(".0", "")
    book.write("_build/minutes.tsv", text)
    found = told(book)
    assert found["minutes of `.ci/run`, cold"] == "33 (book 10, tests 20, peers 1, gates 2), 2026-01-02"
    assert found["minutes of `.ci/run`, warm"].startswith("1 (book 0")


def test_the_run_notes_each_phase_of_the_table():
    text = (HOME / ".ci/run").read_text(encoding="utf-8")
    assert tuple(re.findall(r"^took (\w+)$", text, re.MULTILINE)) == OWN["PHASES"] and "_build/minutes.tsv" in text


def test_pages_and_tests_are_read_from_what_the_build_and_the_tests_left(book):
    pages = {"book/a": {"bytes": 300_000, "requests": 9}, "book/b": {"bytes": 900_000, "requests": 12}}
    book.write("_build/page-weight.json", json.dumps({"pages": pages}))
    book.write("_build/html/book.pdf", "x" * 1_200_000)
    book.write("_build/tests/junit.xml", JUNIT)
    found = told(book)
    assert found["heaviest page"] == "0.90 MB, 12 requests: book/b" and found["middle page"] == "0.60 MB, of 2 pages"
    assert found["largest PDF"] == "1.2 MB: book.pdf" and found["tests run"] == "1"
    assert found["skipped; they run on a GPU, by `make test`; until then rehearsed"] == "2"


def test_lines_are_counted_by_room_and_those_of_tests_apart(book):
    module = (book.home / "moving_mean.py").read_text(encoding="utf-8").count("\n")
    book.write("notebooks/signals/moving_mean/test_more.py", "a = 1\nb = 2\n")
    tests = sum(p.read_text(encoding="utf-8").count("\n") for p in python_files(book.home) if is_proof(p))
    assert told(book)["lines of `notebooks/signals`"] == f"{module}, and {tests} of tests"


def reasons():
    """Why tests of this repository are skipped, as far as their code says it in one text."""
    for room in ("helpers", "book/press", "rehearsal", "notebooks"):
        for path in [one for one in python_files(HOME / room) if is_proof(one) and one.name != "test_numbers.py"]:
            text = path.read_text(encoding="utf-8")
            found = REASON.findall(text)
            yield from ((path, one) for one in found if not re.fullmatch(r"\{\w+\}|not now", one))


def test_receipts_that_wait_are_counted(book):
    assert told(book)["receipts that wait to be recorded again"] == "0"
    book.write("data/receipts/stale.yml", "a/b.json: {why: older code, again: make race}\n")
    assert told(book)["receipts that wait to be recorded again"] == "1"


def test_where_each_skipped_test_runs_is_known():
    found = list(reasons())
    unknown = {f"{path.relative_to(HOME)}: {one}" for path, one in found if OWN["where"](one).startswith("nobody")}
    assert (
        unknown == set() and len(found) > 80 and OWN["where"]("the moon is full") == "nobody has said: the moon is full"
    )


def test_the_table_in_contributing_has_its_place_and_every_row(book):
    text = (HOME / "CONTRIBUTING.md").read_text(encoding="utf-8")
    written = text.partition(OWN["BEGIN"])[2].partition(OWN["END"])[0]
    assert text.count(OWN["BEGIN"]) == text.count(OWN["END"]) == 1 and written.startswith(
        "| what | measured | allowed |"
    )
    for word in ("cold", "warm", "heaviest page", "largest PDF", "`helpers`", "`book/press`", "`rehearsal`", "`slow`"):
        assert word in written, word
