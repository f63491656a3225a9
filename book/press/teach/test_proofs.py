"""Exercises proved both ways, on the book's own chapters and on exercises broken in every way that counts."""

import os

import pytest

from press.errors import PressError
from press.repository import HOME, Repository
from press.teach import proofs
from press.teach.proofs import prove


@pytest.mark.parametrize("chapter", Repository(HOME).chapters, ids=str)
def test_every_exercise_of_the_book_is_proved_both_ways(chapter):
    proofs = prove(Repository(HOME), chapter)
    assert [proof for proof in proofs if proof.problem] == []
    assert {proof.exercise for proof in proofs} == {exercise["id"] for exercise in chapter.card["exercises"]}


@pytest.mark.parametrize(
    ("role", "source", "problem"),
    [
        ("solution", "def {fn}(*a):\n    return None\n\n\n{check}({fn})", "the solution fails"),
        ("stub", "{solution}", "lets it pass"),
        ("wrong", "{solution}", "lets it pass"),
        ("wrong", "def {fn}(*a):\n    raise MemoryError('much')", "instead of the checker's words"),
    ],
)
def test_a_broken_exercise_is_seen(small, role, source, problem):
    every = small.repository.chapters[0].cells
    cells = {role_: one for one in every for role_ in one.metadata.get("tags", []) if "exercise" in one.metadata}
    solution = cells["solution"].source
    name = next(line.split("(")[0][4:] for line in solution.splitlines() if line.startswith("def "))
    checker = next(line.split("(")[0][4:] for line in cells["checker"].source.splitlines() if line.startswith("def "))
    only = "\n".join(line for line in solution.splitlines() if not line.startswith("check"))
    cells[role].source = source.format(fn=name, check=checker, solution=only)
    if role == "wrong" and "MemoryError" in source:
        cells["checker"].source = f"def {checker}(fn):\n    fn()"
    small.write_notebook(every)
    chapter = small.repository.chapters[0]
    problems = [proof.problem for proof in prove(small.repository, chapter) if proof.attempt == role]
    assert any(problem in one for one in problems)


def needing(small, line):
    """The small book's chapter, whose exercises need a cell that ends with this line."""
    every = small.repository.chapters[0].cells
    for cell in every:
        if "means = " in cell.source:
            cell.source += f"\n{line}"
        if "checker" in cell.metadata.get("tags", []):
            cell.source += "\n    means"
    small.write_notebook(every)
    return small.repository.chapters[0]


def test_what_the_exercises_need_must_run(small):
    chapter = needing(small, "raise RuntimeError('gone')")
    with pytest.raises(PressError, match="does not run: RuntimeError: gone"):
        prove(small.repository, chapter)


@pytest.mark.skipif(os.name == "nt", reason="processor time has no limit there")
def test_proofs_are_bounded_by_the_processor_s_time_and_not_by_a_busy_machine(small, monkeypatch):
    monkeypatch.setattr(proofs, "PROCESSOR_SECONDS", 20)
    waits = needing(small, "import time; time.sleep(2); assert time.process_time() < 20")
    assert prove(small.repository, waits)
    monkeypatch.setattr(proofs, "PROCESSOR_SECONDS", 1)
    with pytest.raises(PressError, match="took more than 1 s of the processor"):
        prove(small.repository, needing(small, "while True: pass"))
