"""Hidden cases hold: solutions pass, plausible wrong answers and stubs fail; and learners' code is hostile ground."""

import csv
import json
import subprocess
import time

import nbformat
import psutil
import pytest

from press import PressError
from press.cli import main
from press.repository import HOME, Repository, tags
from press.teach import scoring, variants
from press.teach.courses import CASES
from press.teach.variants import defined, exercises

BOOK = Repository(HOME)
KNOWN = {chapter.stem: chapter for chapter in BOOK.chapters}
JUDGE = scoring.Judge(BOOK, CASES)
MEDIAN = {"moving_mean/median": {"cases": [{"give": "[3, 1, 2]", "want": 2}, {"give": "[5]"}, {"give": "[4, 4, 9]"}]}}


@pytest.fixture
def judge(small):
    """A judge of the small book's only exercise, with little patience."""
    return scoring.Judge(small.repository, MEDIAN, seconds=30)


def scored(judge, source):
    """Points and reason of a learner's Python."""
    path = judge.repository.root / "moving_mean.py"
    path.write_text(source, encoding="utf-8")
    return judge.points(judge.repository.chapters[0], "moving_mean/median", path)


GOOD = "def median(values):\n    return sorted(values)[len(values) // 2]\n"


@pytest.mark.parametrize("key", list(CASES))
def test_hidden_cases_pass_the_solution_and_no_plausible_wrong_answer(key):
    stem, _, which = key.partition("/")
    chapter = KNOWN[stem]
    own, many = exercises(chapter.cells)[which], len(CASES[key]["cases"])
    book = scoring.plain(chapter)
    solution = own["solution"][0].source
    source = scoring.answer([*book, solution], defined(solution))
    assert JUDGE.passed(chapter, key, source, defined(solution)) == (many, "")
    assert own["wrong"] and many >= 2
    for cell in [*own["wrong"], *own["stub"]]:
        source = scoring.answer([*book, cell.source], defined(cell.source))
        points, why = JUDGE.passed(chapter, key, source, defined(cell.source))
        assert points < many and why, cell.source


def test_a_case_that_passes_a_wrong_answer_is_seen(judge, small):
    judge.cases = {"moving_mean/median": {"cases": [{"give": "[0]", "want": 0}, {"give": "[0, 0, 0]", "want": 0}]}}
    (chapter,) = small.repository.chapters
    wrong = next(cell.source for cell in chapter.cells if "wrong" in tags(cell))
    assert judge.passed(chapter, "moving_mean/median", scoring.answer([wrong], "wrong"), "wrong") == (2, "")


def test_a_right_answer_gets_all_points_and_a_wrong_one_its_share(judge):
    assert scored(judge, GOOD) == (3, "")
    assert scored(judge, "def median(values):\n    return max(values)\n") == (1, "another value")
    assert scored(judge, "def median(values):\n    return None\n") == (0, "another value")


def test_helpers_imports_and_later_definitions_of_the_learner_come_along(judge):
    text = "import statistics\nlimit = 1\ndef median(values):\n    return middle(values)\n"
    assert scored(judge, text + "def middle(values):\n    return limit * statistics.median_high(values)\n") == (3, "")
    assert scored(judge, "median = lambda values: sorted(values)[len(values) // 2]\n") == (3, "")
    assert scored(judge, "%pip install x\n" + GOOD)[1] == "no median in it"


def test_what_is_not_handed_in_or_cannot_be_read_gets_no_points(judge, tmp_path):
    chapter = judge.repository.chapters[0]
    assert scored(judge, "x = 1\n") == (0, "no median in it")
    for name, text in {
        "a.ipynb": "{",
        "b.ipynb": "[]",
        "c.ipynb": '{"cells": [{"cell_type": "code"}]}',
        "d.py": "\0",
    }.items():
        (tmp_path / name).write_text(text)
        points, why = judge.points(chapter, "moving_mean/median", tmp_path / name)
        assert points == 0 and (why.startswith("cannot be read") or why.startswith("no median")), name
    (tmp_path / "e.py").symlink_to(HOME / "conftest.py")
    assert judge.points(chapter, "moving_mean/median", tmp_path / "e.py") == (0, "a link, or too large a file")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("import os\n    os._exit(0)", "it ended early"),
        ("raise SystemExit", "it ended early"),
        ("raise ValueError('no\\n' * 500)", "ValueError: no no"),
        ("print('\\n::proof nothing')", "it ended early"),
        ("return [[[values]]] * 3", "another value"),
        ("return object()", "another value"),
        ("return 10 ** 5000", "ValueError"),
        ("open('big', 'wb').write(b'x' * 10 ** 8)", "OSError"),
        ("return bytearray(1 << 40)", "MemoryError"),
    ],
)
def test_code_that_ends_shouts_or_grows_gets_no_points(judge, body, why):
    points, said = scored(judge, f"def median(values):\n    {body}\n")
    assert points == 0 and said.startswith(why) and len(said) <= 200 and "\n" not in said


def test_code_without_an_end_is_stopped_with_all_that_it_started(judge):
    judge.wanted(judge.repository.chapters[0], "moving_mean/median")
    judge.seconds = 3
    text = "import subprocess, sys\ndef median(values):\n    "
    text += "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(987)'], start_new_session=True)\n"
    begun = time.monotonic()
    points, why = scored(judge, text + "    while True: pass\n")
    assert (points, why) == (0, "it took too much time, memory or disk") and time.monotonic() - begun < 60
    assert not [
        one for one in psutil.process_iter(["cmdline"]) if "time.sleep(987)" in " ".join(one.info["cmdline"] or [])
    ]


def test_points_that_were_earned_before_the_end_are_kept(judge):
    judge.wanted(judge.repository.chapters[0], "moving_mean/median")
    judge.seconds = 5
    text = "def median(values):\n    while values == [5]: pass\n    return sorted(values)[len(values) // 2]\n"
    assert scored(judge, text) == (1, "it took too much time, memory or disk")


def test_nothing_is_left_and_no_secret_is_handed_on(judge, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "abc")
    text = "import os\ndef median(values):\n    open('left', 'w').write('x')\n    "
    assert (
        scored(judge, text + "raise KeyError(os.environ.get('SECRET_TOKEN', 'nothing'))\n")[1] == "KeyError: 'nothing'"
    )
    assert list((judge.repository.build / "running").glob("*")) == []


@pytest.mark.skipif(not scoring.apart(), reason="no network namespaces here")
def test_a_network_is_out_of_reach(judge):
    text = "import socket\ndef median(values):\n    socket.create_connection(('127.0.0.1', 9), 2)\n"
    assert scored(judge, text)[1].startswith("OSError")
    assert subprocess.run([*scoring.apart(), "true"]).returncode == 0


def test_what_should_come_back_is_not_in_the_learner_s_process(judge):
    text = (
        "import sys\ndef median(values):\n    assert str(7 ** 9) not in open(sys.argv[1]).read()\n    return 7 ** 9\n"
    )
    judge.cases = {"moving_mean/median": {"cases": [{"give": "[7, 7]", "want": 7**9}]}}
    assert scored(judge, text) == (1, "")


def test_a_folder_is_scored_and_exported(small, tmp_path, capsys, monkeypatch):
    (chapter,) = small.repository.chapters
    made = variants.variant(chapter, "student")
    for learner, answer in (("ada", GOOD), ("=cmd()", "def median(values):\n    return 0\n")):
        mine = nbformat.from_dict(made.copy())
        for cell in mine.cells:
            if "stub" in tags(cell):
                cell.source = answer
        (tmp_path / "in" / learner).mkdir(parents=True)
        nbformat.write(mine, tmp_path / "in" / learner / "moving_mean.student.ipynb")
    (tmp_path / "in" / "notes.py").write_text("no chapter")
    (tmp_path / "cases.yml").write_text(json.dumps(MEDIAN))
    command = ["--root", str(small.root), "score", str(tmp_path / "in"), "--cases", str(tmp_path / "cases.yml")]
    assert main(command) == 0 and "ada: signals/moving_mean, median: 3 of 3" in capsys.readouterr().out
    rows = json.loads((small.root / "_build/scores/in.json").read_text())
    assert [(row["learner"], row["points"], row["of"]) for row in rows] == [("'=cmd()", 0, 3), ("ada", 3, 3)]
    with (small.root / "_build/scores/in.csv").open(newline="") as table:
        assert [(row["learner"], row["points"]) for row in csv.DictReader(table)] == [("'=cmd()", "0"), ("ada", "3")]


def test_a_folder_without_answers_is_refused(small, tmp_path, capsys):
    assert main(["--root", str(small.root), "score", str(tmp_path)]) == 2
    assert "holds no notebook of a chapter with hidden cases" in capsys.readouterr().err


def test_cases_that_the_book_s_solution_fails_are_refused(judge, small):
    judge.cases = {"moving_mean/median": {"cases": [{"give": "3", "want": 3}]}}
    with pytest.raises(PressError, match="the book's own solution fails: TypeError"):
        judge.wanted(small.repository.chapters[0], "moving_mean/median")


def test_numbers_are_alike_within_a_tolerance_and_nothing_else_is():
    nan = float("nan")
    assert scoring.same([1.0, [nan, "a"]], [1.0000001, [nan, "a"]], 1e-6) and scoring.same(True, 1, 0)
    for got, want in ((1.1, 1.0), ([1], [1, 2]), ("1", 1), (None, 0), (nan, 1.0), (10**400, 1.0), ({"a": 1}, {"a": 2})):
        assert not scoring.same(got, want, 1e-6), (got, want)
