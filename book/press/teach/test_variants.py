"""The notebooks for a class: who sees what, and that each runs."""

import nbformat
import pytest

from press.repository import HOME, Repository, tags
from press.teach.checkpoints import made
from press.teach.variants import KINDS, LATE, TRIED, defined, variant, write


@pytest.fixture(params=Repository(HOME).chapters, ids=str)
def chapter(request):
    return request.param


def roles(notebook):
    return [tag for cell in notebook.cells for tag in tags(cell)]


def test_a_student_sees_no_solution_no_bullets_and_gets_a_call_for_each_stub(chapter):
    notebook = variant(chapter, "student")
    seen = roles(notebook)
    assert not {"solution", "wrong", "instructor", "talk"} & set(seen)
    assert seen.count("stub") == seen.count("checker") == len(chapter.card["exercises"])
    calls = [cell.source for cell in notebook.cells if TRIED in tags(cell)]
    assert len(calls) == len(chapter.card["exercises"]) and all("check_" in call for call in calls)


def test_after_a_stub_nothing_binds_the_learners_function_and_the_checker_is_called_on_it(chapter):
    cells = [cell for cell in variant(chapter, "student").cells if cell.cell_type == "code"]
    for place, cell in enumerate(cells):
        if "stub" in tags(cell):
            own = cell.metadata["exercise"]["id"]
            name = defined(cell.source)
            assert not any(name in made(one.source) for one in cells[place + 1 :]), "Run all would overwrite it"
            near = [one for one in cells if one.metadata.get("exercise", {}).get("id") == own]
            last = max(cells.index(one) for one in near)
            assert f"({name})" in cells[last + 1].source and TRIED in tags(cells[last + 1])


def test_run_all_of_a_students_notebook_passes_and_says_what_is_missing(small, tmp_path):
    import papermill

    cells = [cell for cell in small.cells() if "receipt" not in cell.source]
    small.write_notebook(cells)
    student = write(small.repository.chapters[0], tmp_path)[0]
    done = papermill.execute_notebook(student, tmp_path / "ran.ipynb", cwd=tmp_path, progress_bar=False)
    (tried,) = [cell for cell in done.cells if TRIED in tags(cell)]
    assert [output.text for output in tried.outputs] == ["the middle value is 2\n"]


def test_checkpoints_are_a_twelfth_of_the_code_at_most(chapter):
    code = [cell for cell in variant(chapter, "student").cells if cell.cell_type == "code"]
    lines = {cell["id"]: len(cell.source.splitlines()) for cell in code}
    late = [cell for cell in code if LATE in tags(cell)]
    assert all(lines[cell["id"]] <= 4 for cell in late)
    short = sum(lines.values()) < 300  # as a scaffold is, whose few lines are spread over all sections
    assert short or 12 * sum(lines[cell["id"]] for cell in late) <= sum(lines.values())


def test_the_solution_replaces_the_stub(chapter):
    seen = roles(variant(chapter, "solution"))
    assert seen.count("solution") == len(chapter.card["exercises"])
    assert not {"stub", "wrong", "instructor"} & set(seen)


def test_an_instructor_sees_minutes_and_wrong_answers(chapter):
    texts = "\n".join(cell.source for cell in variant(chapter, "instructor").cells if cell.cell_type == "markdown")
    assert all(f"{section['title']}, {section['minutes']} min" in texts for section in chapter.card["sections"])
    assert all(f"*Instructor: {one['minutes']} min, {one['kind']}*" in texts for one in chapter.card["exercises"])
    wrong = [cell for cell in chapter.cells if "wrong" in tags(cell)]
    assert texts.count("A plausible wrong answer") == len(wrong)
    assert all(cell.metadata["exercise"]["message"] in texts for cell in wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_objectives_and_prerequisites_come_from_the_card_once(small, kind):
    small.write_card(objectives=["smooth a stream", "fly to the moon"], prerequisites=["arrays", "sums", "one thing"])
    first = variant(small.repository.chapters[0], kind).cells[0].source
    said = "\n\n**Afterwards you can**\n\n- smooth a stream\n- fly to the moon"
    said += "\n\n**You should know** arrays, sums and one thing."
    needs = "\n\n**You need** 0.5 GB of memory and 1 MB of disk; a GPU: optional."
    assert first.endswith(said + needs)
    cells = small.cells()
    cells[0].source += "\n\n**Afterwards you can** smooth. **You should know** arrays."
    small.write_notebook(cells)
    first = variant(small.repository.chapters[0], kind).cells[0].source
    assert first.count("Afterwards you can") == 1 and "moon" not in first, "an opening that says it itself"


@pytest.mark.parametrize("kind", KINDS)
def test_variants_are_valid_and_carry_no_outputs(small, kind):
    notebook = variant(small.repository.chapters[0], kind)
    nbformat.validate(notebook)
    assert all(not cell.get("outputs") for cell in notebook.cells)
    assert len({cell["id"] for cell in notebook.cells}) == len(notebook.cells)


def test_the_same_source_gives_the_same_bytes(small, tmp_path):
    chapter = small.repository.chapters[0]
    first = [path.read_bytes() for path in write(chapter, tmp_path)]
    assert len(first) == len(KINDS) + 1 and first == [path.read_bytes() for path in write(chapter, tmp_path)]
