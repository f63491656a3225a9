"""Syllabi by path and length, and the map of chapters, of the real cards."""

import html
import re

import pytest

from press.print.generated import markers
from press.repository import HOME, Repository
from press.teach import syllabi
from press.teach.workshop.schedule import content, exercised

CHAPTERS = Repository(HOME).chapters
PATHS = syllabi.paths(CHAPTERS)
each = pytest.mark.parametrize(("name", "hours"), [(name, hours) for name in PATHS for hours in syllabi.HOURS])


def taught(made):
    """The sections and exercises of a plan."""
    return [block for block in made.blocks if block.kind in ("section", "exercise")]


def test_every_chapter_is_on_a_path():
    assert {chapter.stem for chapter in CHAPTERS} == {chapter.stem for path in PATHS.values() for chapter in path}


def test_a_chapter_comes_after_those_that_help_before_it():
    for name, path in PATHS.items():
        place = {chapter.stem: at for at, chapter in enumerate(path)}
        late = [
            one.stem for one in path for before in one.card.get("after", ()) if place.get(before, -1) > place[one.stem]
        ]
        assert late == [], name


def test_easier_chapters_come_first(monkeypatch):
    hard = next(one for one in CHAPTERS if one.stem == "compression")
    monkeypatch.setitem(hard.card, "level", "advanced")
    assert syllabi.paths(CHAPTERS)["Systems"][-1] is hard


@each
def test_a_chapter_that_is_taught_keeps_its_core_path(name, hours):
    made = syllabi.syllabus(PATHS[name], hours)
    assert [block.title for block in made.left_out if block.kind == "section" and block.core] == []


@each
def test_one_minute_in_three_is_an_exercise(name, hours):
    blocks = taught(syllabi.syllabus(PATHS[name], hours))
    assert exercised(blocks) * 3 >= sum(block.minutes for block in blocks)
    with_one = {block.chapter for block in blocks if block.kind == "exercise"}
    assert with_one == {block.chapter for block in blocks}


@each
def test_a_syllabus_fills_its_hours_and_a_day_has_a_lunch(name, hours):
    made = syllabi.syllabus(PATHS[name], hours)
    assert sum(block.minutes for block in made.blocks) == pytest.approx(60 * hours, abs=1)
    assert [block.title for block in made.blocks].count("Lunch") == (hours == 8)


def test_the_operator_is_never_taught_without_its_training():
    (chapter,) = [one for one in CHAPTERS if one.stem == "co2_storage"]
    kept = {block.title for block in content(chapter) if block.cut is None}
    assert "Train for a few seconds" in kept


def test_no_list_of_titles_is_left_out():
    shown = syllabi.syllabi(CHAPTERS)
    assert max(map(len, re.findall(r"Left out: (.*?)</p>", shown))) < 40
    assert all(f"### {name}\n" in shown for name in PATHS) and shown.count("<summary>") == 3 * len(PATHS)
    assert "1 exercise." in shown and "1 exercises" not in shown


def test_the_map_draws_each_chapter_once_and_each_arrow():
    drawn, listed = syllabi.chapter_map(CHAPTERS).split("</svg>")
    assert drawn.count("<rect") == len(CHAPTERS)
    assert drawn.count('class="arrow"') == sum(len(chapter.card.get("after", ())) for chapter in CHAPTERS)
    places = re.findall(r'<rect class="[^"]*" x="(\d+)" y="(\d+)"', drawn)
    assert len(set(places)) == len(CHAPTERS), "no box lies on another"
    assert listed.count("<li>") == len(CHAPTERS)


def test_the_map_says_in_a_list_what_it_draws():
    _, listed = syllabi.chapter_map(CHAPTERS).split("</svg>")
    names = {chapter.stem: chapter.card["short"] for chapter in CHAPTERS}
    for chapter in CHAPTERS:
        (said,) = re.findall(rf'{chapter.stem}\.html">[^<]*</a>: ([^<]*)</li>', listed.replace("\n", ""))
        after = " and ".join(names[one] for one in chapter.card.get("after", ()))
        assert html.unescape(said).partition("; after ")[2] == after


def test_the_page_has_the_map(small):
    from press.ledger import gather

    assert "rebuilt-map" in markers(small.repository, gather(small.repository))["map"]()
