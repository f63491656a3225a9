"""The notebooks for a class: who sees what, and that each runs."""

import nbformat
import pytest

from press.conftest import markdown
from press.repository import HOME, Repository, tags
from press.teach.checkpoints import made
from press.teach.variants import KINDS, LATE, TRIED, aims, defined, module, variant, write


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


@pytest.fixture
def ran(small, monkeypatch):
    """A function from answers, old and new text of a cell, to what each cell of the student's notebook printed."""
    monkeypatch.setenv("PYTHONPATH", str(small.root))
    monkeypatch.setenv("REBUILT_RECEIPTS", str(small.root))

    def made(**answers):
        import papermill

        student = write(small.repository.chapters[0], small.home)[0]
        notebook = nbformat.read(student, as_version=4)
        for cell in notebook.cells:
            for name, given in answers.items():
                cell.source = cell.source.replace(f'"{name}", None', f'"{name}", {given!r}')
        nbformat.write(notebook, student)
        done = papermill.execute_notebook(student, small.root / "ran.ipynb", cwd=small.home, progress_bar=False)
        code = [cell for cell in done.cells if cell.cell_type == "code"]
        return [(cell.source.splitlines()[-1], "".join(one.get("text", "") for one in cell.outputs)) for cell in code]

    return made


def test_run_all_of_a_students_notebook_passes_and_says_what_is_missing(ran):
    printed = ran()
    assert ("    print(problem)", "the middle value is 2\n") in printed
    said = [text for line, text in printed if line.startswith("acts.")]
    missing = "No answer yet: put it in the place of None.\n"
    assert said[:4] == [missing] * 3 + ["No guess yet: put a number in the place of None.\n"]
    beside = "You made no guess; measured: 2,100 points/s."
    assert said[4:] == [f"{beside} A rate belongs to its machine.\n"]


def test_a_students_answers_are_told_what_they_are_worth(small, ran):
    small.write_notebook([*small.cells(), markdown("## Recap\n\n- smooth")])
    said = [text for line, text in ran(how_many="B", how_many_of_one="b", rate=1500) if line.startswith("acts.")]
    assert said[0] == "✓ Right. One less than the values: `n - 1` windows fit.\n"
    assert said[1] == "✗ Not yet. One less than the values: `n - 1` windows fit.\n"
    close = "You guessed 1500; measured: 2,100 points/s. That is close, within a factor of 2."
    assert said[3].startswith("Kept: 1500.")
    assert said[4:] == [f"{close} A rate belongs to its machine.\n", f"rate: {close}\n"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{right}", "✓ Right. A sum needs its values first."),
        ("{wrong}", "✗ Not yet. 1 of 3 stand where they belong."),
        ("aab", "'aab' is no answer: each of the letters abc is wanted."),
        ("x", "'x' is no answer: each of the letters abc is wanted."),
        (("a", "b"), "'ab' is no answer: each of the letters abc is wanted."),
    ],
)
def test_an_order_is_told_how_much_of_it_fits(small, capsys, given, said):
    own = {}
    exec(module(small.repository.chapters[0]), own)
    right = own["acts"].acts["smooth_in_order"]["right"]
    wrong = right[0] + right[2] + right[1]
    own["acts"].answer("smooth_in_order", given.format(right=right, wrong=wrong) if isinstance(given, str) else given)
    assert capsys.readouterr().out == f"{said}\n"


def test_an_instructor_sees_which_answer_is_right_and_how_long_an_act_takes(small):
    cells = variant(small.repository.chapters[0], "instructor").cells
    texts = "\n".join(cell.source for cell in cells)
    assert "- [x] three" in texts and "*Instructor: 1 min, order*" in texts
    shown = "\n".join(cell.source for cell in variant(small.repository.chapters[0], "student").cells)
    assert "- **b** three" in shown and "[x]" not in shown and "windows fit" not in shown


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


def test_a_last_prerequisite_that_has_an_and_is_set_off_by_a_comma(small):
    small.write_card(prerequisites=["arrays", "precision and recall"])
    assert "**You should know** arrays, and precision and recall." in aims(small.repository.chapters[0])


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
