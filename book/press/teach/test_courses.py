"""The courses of the book: they can be taught as `courses.yml` says, and what cannot be is refused; their pages."""

import copy
import html
import os
import re
import shutil
import sys

import pytest
import yaml

from helpers import data
from press import PressError
from press.ledger import gather
from press.print.edition import Edition
from press.print.generated import markers
from press.print.source import fill
from press.repository import HOME, Repository
from press.teach import courses, variants
from press.teach.workshop import offline
from press.teach.workshop.schedule import exercised

BOOK = Repository(HOME)
CHAPTERS = BOOK.chapters
NAMES = list(courses.OWN["courses"])
each = pytest.mark.parametrize("name", NAMES)
RUN = "-m nbconvert --to notebook --execute --ExecutePreprocessor.timeout=900 --output-dir _build/ran"


def changed(name, change):
    """The courses with one of them changed."""
    own = copy.deepcopy(courses.OWN["courses"])
    change(own[name])
    return own


def taught(made):
    """The sections and exercises of a timetable."""
    return [block for block in made.blocks if block.kind in ("section", "exercise")]


def test_there_are_a_term_of_twelve_weeks_and_three_days():
    weeks = {name: len(courses.OWN["courses"][name]["sessions"]) for name in NAMES}
    assert weeks == {"term": 12, "performance": 1, "measurement": 1, "recommenders": 1}


@each
def test_each_meeting_fills_its_minutes_and_no_more(name):
    made = courses.read(name, CHAPTERS)
    for session in made.sessions:
        if session.plan:
            assert sum(block.minutes for block in session.plan.blocks) == pytest.approx(made.about["minutes"], abs=1)
    planned = [session.plan for session in made.sessions if session.plan]
    assert [block.title for one in planned for block in one.left_out if block.kind == "section" and block.core] == []
    assert all(exercised(taught(one)) * 3 >= sum(block.minutes for block in taught(one)) for one in planned)


@each
def test_a_day_has_a_lunch_and_each_chapter_something_to_do(name):
    made = courses.read(name, CHAPTERS)
    for session in [one for one in made.sessions if one.plan]:
        lunches = [block.title for block in session.plan.blocks].count("Lunch")
        assert lunches == (made.about["minutes"] >= 360)
        with_one = {block.chapter for block in session.plan.blocks if block.kind == "exercise"}
        assert with_one == {str(chapter) for chapter in session.chapters}


@each
def test_what_a_chapter_needs_is_taught_before_it(name):
    made = courses.read(name, CHAPTERS)
    place = {chapter.stem: at for at, chapter in enumerate(made.chapters)}
    assert all(place[first] < place[stem] for stem, firsts in made.before.items() for first in firsts)
    by_card = {(one.stem, first) for one in made.chapters for first in one.card.get("after", ()) if first in place}
    assert by_card <= {(stem, first) for stem, firsts in made.before.items() for first in firsts}
    assert len([stem for stem, firsts in made.before.items() if not firsts]) < len(made.chapters), "a graph has arrows"


@each
def test_each_chapter_of_a_course_has_questions_and_each_names_an_objective(name):
    made = courses.read(name, CHAPTERS)
    assert {chapter.stem for chapter, _ in made.questions} == {chapter.stem for chapter in made.chapters}
    for chapter, one in made.questions:
        assert set(one) == {"ask", "answer", "aim"} and 1 <= one["aim"] <= len(chapter.card["objectives"]), one["ask"]


@each
def test_each_chapter_gives_homework_or_is_only_taught(name):
    made = courses.read(name, CHAPTERS)
    tasks = [(chapter.stem, one["id"]) for session in made.sessions for chapter, one, _ in session.homework]
    assert len(set(tasks)) == len(tasks) and {stem for stem, _ in tasks} == {one.stem for one in made.chapters}
    assert all(cases for session in made.sessions for *_, cases in session.homework)


def test_an_unknown_chapter_is_refused():
    own = changed("performance", lambda one: one["sessions"][0]["chapters"].append("perpetual_motion"))
    with pytest.raises(PressError, match="perpetual_motion is no chapter"):
        courses.read("performance", CHAPTERS, own)
    own = changed("performance", lambda one: one["after"].update(compression=["wide_deep"]))
    with pytest.raises(PressError, match="wide_deep is no chapter, or none that it teaches"):
        courses.read("performance", CHAPTERS, own)


@pytest.mark.parametrize(
    "after",
    [
        {"rolling_distance": ["memory_budget"], "memory_budget": ["rolling_distance"]},
        {"compression": ["compression"]},
        {"compression": ["opencl_inference"], "opencl_inference": ["memory_budget"], "memory_budget": ["compression"]},
    ],
    ids=["two", "itself", "three"],
)
def test_a_circle_of_prerequisites_is_refused(after):
    own = changed("performance", lambda one: one.update(after=after))
    with pytest.raises(PressError, match="is not before it, or needs it, too"):
        courses.read("performance", CHAPTERS, own)


def test_a_card_s_order_holds_in_a_course():
    own = changed("recommenders", lambda one: one["sessions"][0]["chapters"].reverse())
    with pytest.raises(PressError, match="needs .*, which is not before it"):
        courses.read("recommenders", CHAPTERS, own)


def test_a_day_over_its_minutes_is_refused():
    own = changed("performance", lambda one: one.update(minutes=180))
    with pytest.raises(PressError, match="180 minutes are too short"):
        courses.read("performance", CHAPTERS, own)


def test_a_day_with_nothing_to_do_is_refused():
    own = changed("performance", lambda one: one["sessions"][0].update(chapters=["compression"], homework=[]))
    own["performance"]["after"] = {}
    with pytest.raises(PressError, match="minutes are left with nothing to do"):
        courses.read("performance", CHAPTERS, own)


@pytest.mark.parametrize(
    "key", ["compression/no_such", "rolling_distance/dot_products_by_blocks", "wide_deep/out_of_fold"]
)
def test_homework_is_an_exercise_of_the_course_with_hidden_cases(key):
    own = changed("performance", lambda one: one["sessions"][0]["homework"].append(key))
    with pytest.raises(PressError, match=f"homework {key} is no exercise of its chapters with hidden cases"):
        courses.read("performance", CHAPTERS, own)


@each
def test_a_course_is_shown_with_map_aims_minutes_and_homework(name):
    said = courses.shown(BOOK, name)
    made = courses.read(name, CHAPTERS)
    assert "\n\n" not in said and said.count("<rect") == len(made.chapters)
    assert said.count('class="arrow"') == sum(map(len, made.before.values()))
    words = html.unescape(said)
    assert all(aim in words for chapter in made.chapters for aim in chapter.card["objectives"])
    assert all(session.title in words and session.project in words for session in made.sessions)
    assert all(one["title"] in words for session in made.sessions for _, one, _ in session.homework)
    assert all(one["ask"] in words for _, one in made.questions)
    assert not [one for _, one in made.questions if one["answer"] in words], "answers are the teacher's"


@each
def test_the_map_s_arrows_lead_to_the_right(name):
    for x, to in re.findall(r'class="arrow" d="M(\d+) \d+C\d+ \d+ -?\d+ \d+ (\d+) ', courses.shown(BOOK, name)):
        assert int(x) <= int(to) + 1


def test_a_book_of_some_chapters_says_where_the_course_is():
    some = Edition(BOOK, BOOK.select(["compression"]))
    said = courses.shown(some, "term")
    assert "whole one" in said and f'href="{BOOK.site}book/courses.html"' in said


def test_the_teacher_s_pages_hold_answers_cases_and_the_rubric(tmp_path):
    courses.publish(BOOK, tmp_path)
    for name in NAMES:
        said = html.unescape((tmp_path / courses.ANSWERS.format(name)).read_text(encoding="utf-8"))
        made = courses.read(name, CHAPTERS)
        assert all(one["answer"] in said for _, one in made.questions) and 'content="noindex"' in said
        assert all(one["give"] in said for session in made.sessions for *_, cases in session.homework for one in cases)
        assert all(words in said for row in courses.OWN["rubric"] for words in row["levels"])


def test_a_book_without_the_page_has_no_teacher_s_pages(small, tmp_path):
    courses.publish(small.repository, tmp_path)
    assert list(tmp_path.glob("_data/**/*")) == []


def test_the_project_begins_with_the_scaffold_and_has_a_worked_example():
    project, said = courses.OWN["project"], courses.parts(BOOK, [], "project")
    for one in project["steps"]:
        assert (HOME / "book/press/scaffold" / one["template"]).is_file() and (
            HOME / project["example"] / one["file"]
        ).is_file()
        assert f"scaffold/{one['template']}" in said and f"{project['example']}/{one['file']}" in said


def test_the_rubric_has_words_for_zero_one_and_two_points():
    assert all(len(row["levels"]) == 3 and all(row["levels"]) for row in courses.OWN["rubric"])
    assert courses.parts(BOOK, [], "rubric").count("<dd>") == 3 * len(courses.OWN["rubric"])


@pytest.mark.parametrize("name", list(courses.CHECKLISTS))
def test_each_row_of_a_checklist_is_met_somewhere_or_waits_for_people_on_the_list(name):
    listed = set(
        re.findall(r"^- \*\*([\w ]+)\*\*:", (HOME / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE)
    )
    for row in courses.CHECKLISTS[name]["rows"]:
        assert set(row) <= {"asks", "how", "where", "people"} and row["how"], row["asks"]
        assert [path for path in row.get("where", []) if not (HOME / path).exists()] == [], row["asks"]
        assert set(row.get("people", [])) <= listed, row["asks"]
        assert row.get("where") or row.get("people"), row["asks"]


def test_the_checklists_say_what_waits_for_people():
    said = courses.parts(BOOK, [], "jose")
    waiting = [row for row in courses.CHECKLISTS["jose"]["rows"] if row.get("people")]
    assert said.count("Waits for people") == len(waiting) and said.count("Met.") == said.count("<dt>") - len(waiting)
    assert courses.parts(BOOK, [], "fair").count("<dt>") == 10


@pytest.fixture(scope="module")
def ledger():
    """The runs of the real book."""
    return gather(BOOK)


def test_what_was_never_run_is_read_from_receipts_and_workflows(ledger):
    said = courses.parts(BOOK, ledger.entries, "never")
    gpu, big, rest = re.split(r"<summary>Tier big|<h3>On hosted", said.partition("<summary>Tier gpu")[2], maxsplit=2)
    for tier, own in (("gpu", gpu), ("big", big)):
        ran = {
            entry.chapter for entry in ledger.entries if any((run.tier, run.name) == (tier, "") for run in entry.runs)
        }
        need = [entry.chapter for entry in ledger.entries if entry.chapter.card["needs"]["gpu"] != "none"]
        assert {str(one) for one in need if one not in ran} == set(re.findall(r"<code>(\w+/[\w/]+)</code>", own))
    for path in (HOME / ".github/workflows").glob("*.yml"):
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]:
            assert f"{job}: <a" in rest and f"gh workflow run {path.name}" in rest
    assert "make book" in rest and ".ci/weekly" in rest


def test_each_thing_that_was_never_run_says_what_is_known_and_what_would_run_it():
    for row in courses.NEVER:
        assert set(row) in ({"what", "known", "command"}, {"what", "known", "do"}), row["what"]
    targets = set(re.findall(r"^([a-z]+):", (HOME / "Makefile").read_text(), re.MULTILINE))
    asked = re.findall(r"\bmake ([a-z]+)", " ".join(row.get("command", "") for row in courses.NEVER))
    assert asked and set(asked) <= targets


def test_contributing_leads_to_the_one_list():
    text = (HOME / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert (
        "`book/never_run.md`" in text.partition("## What could not be tried")[2] and "book/never_run" in BOOK.toc_files
    )


@pytest.mark.parametrize("page", ["courses", "checklists", "never_run"])
def test_each_page_is_filled(page, ledger):
    text = (HOME / "book" / f"{page}.md").read_text(encoding="utf-8")
    filled = fill(text, markers(BOOK, ledger))
    assert "<!-- press:" not in filled and f"book/{page}" in BOOK.toc_files
    assert len(filled) > 3000 and "{{" not in filled.replace("{{ clone }}", "")


def test_the_paper_has_the_journal_s_fields_and_no_person():
    _, head, body = (HOME / "book/paper/paper.md").read_text(encoding="utf-8").split("---\n", 2)
    about = yaml.safe_load(head)
    assert {"title", "tags", "authors", "affiliations", "date", "bibliography"} <= set(about)
    assert [one["name"] for one in about["authors"]] == [BOOK.config["author"]] and "[blank: authors]" in head
    assert (HOME / "book/paper" / about["bibliography"]).is_file()
    assert set(re.findall(r"@(\w+)\]", body)) <= set(BOOK.references)
    for heading in ("Summary", "Statement of Need", "Use in teaching", "References"):
        assert f"# {heading}\n" in body
    assert 250 <= len(body.split()) <= 1000


@pytest.mark.parametrize("name", os.environ.get("REBUILT_COURSES", "").split() or ["none"])
def test_the_students_notebooks_of_a_course_run_in_order_without_a_network(name, tmp_path, record_property):
    if name == "none":
        pytest.skip("minutes; asked for by REBUILT_COURSES with the names of courses")
    made = courses.read(name, CHAPTERS)
    seat = tmp_path / "seat"
    unwanted = shutil.ignore_patterns("__pycache__", "test_*", "*.ipynb", ".*", "_build")
    for home in {HOME / "helpers", *(chapter.home for chapter in made.chapters)}:
        shutil.copytree(home, seat / home.relative_to(HOME), ignore=unwanted)
    shutil.copytree(HOME / "data", seat / "data")
    shutil.copyfile(HOME / "_config.yml", seat / "_config.yml")
    for chapter in made.chapters:
        variants.write(chapter, seat / chapter.home.relative_to(HOME))
        for one in chapter.card.get("data") or []:
            data.fetch(one, folder=seat / "_build/data" / one, registry=seat / "data/registry.tsv")
    for chapter in made.chapters:
        command = [sys.executable, *RUN.split(), f"{chapter.document}.student.ipynb"]
        took = offline.alone(f"{name}: {chapter}", command, seat, PYTHONPATH=str(seat))
        print(f"{name}: {chapter}: fine, {took:.0f} s", flush=True)
        assert (seat / "_build/ran" / f"{chapter.stem}.student.ipynb").is_file()
