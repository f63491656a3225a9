"""The notebooks for a class: who sees what, and that each runs."""

import nbformat
import pytest

from press.repository import HOME, Repository, tags
from press.teach.variants import KINDS, variant, write


@pytest.fixture(params=Repository(HOME).chapters, ids=str)
def chapter(request):
    return request.param


def roles(notebook):
    return [tag for cell in notebook.cells for tag in tags(cell)]


def test_a_student_sees_no_solution_and_gets_a_call_for_each_stub(chapter):
    notebook = variant(chapter, "student")
    seen = roles(notebook)
    assert not {"solution", "wrong", "instructor"} & set(seen)
    assert seen.count("stub") == seen.count("checker") == len(chapter.card["exercises"])
    calls = [cell.source for cell in notebook.cells if "raises-exception" in tags(cell)]
    assert len(calls) == len(chapter.card["exercises"]) and all("check_" in call for call in calls)


def test_the_solution_replaces_the_stub(chapter):
    seen = roles(variant(chapter, "solution"))
    assert seen.count("solution") == len(chapter.card["exercises"])
    assert not {"stub", "wrong", "instructor"} & set(seen)


def test_an_instructor_sees_minutes_and_wrong_answers(chapter):
    texts = "\n".join(cell.source for cell in variant(chapter, "instructor").cells if cell.cell_type == "markdown")
    assert all(f"{section['title']}, {section['minutes']} min" in texts for section in chapter.card["sections"])
    assert all(f"*Instructor: {one['minutes']} min, {one['kind']}*" in texts for one in chapter.card["exercises"])
    wrong = [cell for cell in chapter.cells if "wrong" in tags(cell)]
    assert texts.count("A common wrong answer") == len(wrong)
    assert all(cell.metadata["exercise"]["message"] in texts for cell in wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_variants_are_valid_and_carry_no_outputs(small, kind):
    notebook = variant(small.repository.chapters[0], kind)
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") for cell in notebook.cells)
    assert len({cell["id"] for cell in notebook.cells}) == len(notebook.cells)


def test_the_same_source_gives_the_same_bytes(small, tmp_path):
    chapter = small.repository.chapters[0]
    first = [path.read_bytes() for path in write(chapter, tmp_path)]
    assert len(first) == len(KINDS) and first == [path.read_bytes() for path in write(chapter, tmp_path)]
