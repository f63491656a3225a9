"""Timetables: they fill the time, cut in the cards' order, and know what to skip when late."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from press.errors import PressError
from press.repository import HOME, Repository, tags
from press.teach import acts, length
from press.teach.checkpoints import heading
from press.teach.workshop.paper import cut_lines
from press.teach.workshop.schedule import LENGTHS, PAIRS, Block, clock, content, exercised, opening, plan, skips

CHAPTERS = Repository(HOME).chapters
# a chapter that was only just begun fills no three hours
FILLED = [(one, minutes) for one in CHAPTERS for minutes in LENGTHS if minutes <= length.of(one).whole + 105]


@pytest.mark.parametrize(("chapter", "minutes"), FILLED, ids=str)
def test_every_chapter_fills_the_usual_lengths(chapter, minutes):
    made = plan([chapter], minutes)
    assert sum(block.minutes for block in made.blocks) == pytest.approx(minutes, abs=1)
    taught = [block._replace(acts=()) for block in made.blocks if block.kind in ("section", "exercise")]
    assert sorted(map(str, taught + bare(made.left_out))) == sorted(map(str, bare(content(chapter))))


def bare(blocks):
    """The blocks without their acts."""
    return [block._replace(acts=()) for block in blocks]


@pytest.mark.parametrize(("chapter", "minutes"), FILLED, ids=str)
def test_nothing_is_left_out_that_fits(chapter, minutes):
    made = plan([chapter], minutes)
    spare = sum(block.minutes for block in made.blocks if block.kind == "task")
    assert [block.title for block in made.left_out if block.minutes <= spare] == []


@pytest.mark.parametrize(("chapter", "minutes"), FILLED, ids=str)
def test_a_class_works_within_ten_minutes_and_then_in_every_fifteen(chapter, minutes):
    watched, longest = 0.0, []
    for block in plan([chapter], minutes).blocks:
        works = block.minutes if block.kind in ("exercise", "break") else sum(took for _, took in block.acts)
        longest.append(watched + block.minutes - works)
        watched = 0 if works else watched + block.minutes
    assert max(longest) <= 15 and longest[1] <= 10


@pytest.mark.parametrize(("chapter", "minutes"), [one for one in FILLED if acts.of(one[0].cells)], ids=str)
def test_the_first_act_of_a_chapter_that_has_some_begins_within_ten_minutes(chapter, minutes):
    blocks = plan([chapter], minutes).blocks
    first = next(at for at, block in enumerate(blocks) if block.kind == "section" and block.acts)
    assert sum(block.minutes for block in blocks[:first]) < 10 and blocks[first].acts[0][0] != PAIRS


@pytest.mark.parametrize("chapter", [one for one, minutes in FILLED if minutes == 180], ids=str)
def test_no_half_hour_is_empty_and_no_stretch_without_a_break_is_long(chapter):
    blocks = plan([chapter], 180).blocks
    tasks = [block for block in blocks if block.kind == "task"]
    assert all(block.minutes < 30 and block.acts for block in tasks), "each says what to do"
    ends = [at for at, block in enumerate(blocks) if block.kind == "break"]
    parts = [blocks[start:end] for start, end in zip([0, *ends], [*ends, len(blocks)], strict=True)]
    assert max(sum(block.minutes for block in part if block.kind != "break") for part in parts) <= 75


@pytest.mark.parametrize("chapter", CHAPTERS, ids=str)
def test_what_the_notes_keep_when_time_is_short_is_kept(chapter):
    kept = re.compile(r"keep when time is short|[Ii]f time is short, show this section")
    sections = {section["title"]: section for section in chapter.card["sections"]}
    under = ""
    for cell in chapter.cells:
        under = heading(cell) or under
        if "instructor" in tags(cell) and kept.search(cell.source):
            assert "cut" not in sections[under] and "further" not in sections[under], under


@pytest.fixture
def own(small):
    """A function from cards' entries and cells to a small chapter."""

    def made(*cells, **card):
        small.write_notebook(small.cells(*cells))
        small.write_card(**card)
        return small.repository.chapters[0]

    return made


def test_a_needless_cut_comes_back(own):
    sizes = {"a": (20, None), "b": (8, 1), "c": (4, 2), "d": (30, 3)}
    sections = [{"title": name, "minutes": took} | ({"cut": cut} if cut else {}) for name, (took, cut) in sizes.items()]
    made = plan([own(sections=[*sections, {"title": "Exercises", "minutes": 10}])], 60)
    assert [block.title for block in made.left_out] == ["d"], "b and c were cut before it, for nothing"


def test_the_acts_of_a_section_lie_within_its_minutes(own):
    (section, _) = content(own())
    words = "choose, how many", "find the bug, how many of one", "order, smooth in order", "predict, rate"
    assert (section.minutes, section.acts) == (5, tuple((one, 1) for one in words))


def test_one_minute_in_three_stays_an_exercise_while_sections_can_go(own):
    one = {"kind": "change", "minutes": 15, "cut": 1}
    exercises = [{"id": name, "title": name, **one} for name in ("x", "y")]
    sections = [{"title": name, "minutes": 10, "cut": 5, "further": True} for name in "abcd"]
    sections += [{"title": "Exercises", "minutes": 30}]
    made = plan([own(sections=sections, exercises=exercises)], 60)
    taught = [block for block in made.blocks if block.kind in ("section", "exercise")]
    assert exercised(taught) * 3 >= sum(block.minutes for block in taught) and made.left_out[0].title == "a"


def test_a_class_waits_twice_as_long_as_the_book_did(own, monkeypatch):
    monkeypatch.setattr("press.teach.workshop.schedule.expected_seconds", lambda chapter: 100.0)
    assert opening(own()).minutes == 4


def test_a_day_has_a_lunch():
    day = plan(CHAPTERS[:5], 480).blocks
    pauses = [block for block in day if block.kind == "break"]
    assert [block.title for block in pauses].count("Lunch") == 1 and len(pauses) == 6


def test_more_time_than_the_chapters_fill_is_refused():
    with pytest.raises(PressError, match=r"\d+ minutes are left with nothing to do in them; take more chapters"):
        plan(CHAPTERS[:1], 400)


def test_what_goes_first_is_what_the_card_says():
    made = plan(CHAPTERS[:1], 60)
    for kind in ("section", "exercise"):
        gone = [block for block in made.left_out if block.kind == kind]
        kept = [block for block in made.blocks if block.kind == kind and block.cut]
        last = max(gone, key=lambda block: block.cut)
        assert [block for block in kept if block.cut < last.cut and block.minutes >= last.minutes] == []


def test_too_little_time_says_how_much_is_needed():
    with pytest.raises(PressError, match=r"20 minutes are too short; after every cut .*, \d+ are needed"):
        plan(CHAPTERS[:1], 20)


def test_a_long_workshop_has_breaks_and_tasks():
    kinds = [block.kind for block in plan(CHAPTERS[:1], 180).blocks]
    assert kinds.count("break") == 2 and kinds.count("task") >= 2
    assert kinds[0] == kinds[-1] == "frame"


@pytest.mark.parametrize("chapter", CHAPTERS, ids=str)
def test_no_break_comes_before_the_last_minute_or_two_of_something(chapter):
    own = sum(block.minutes for block in content(chapter))
    blocks = plan([chapter], 180 if own > 60 else 60).blocks  # a short chapter does not fill a morning
    after = [next_ for one, next_ in zip(blocks, blocks[1:], strict=False) if one.kind == "break"]
    assert [one for one in after if one.kind == "section" and one.minutes <= 2] == []


def test_the_clock_adds_up_and_passes_midnight():
    blocks = [Block("section", "a", 50), Block("section", "b", 20), Block("frame", "c", 5)]
    assert clock(blocks, "23:30") == ["23:30", "00:20", "00:40"]
    with pytest.raises(PressError, match="write it as 09:00"):
        clock(blocks, "9 o'clock")


@given(st.lists(st.tuples(st.integers(1, 20), st.one_of(st.none(), st.integers(1, 5))), max_size=8), st.integers(1, 30))
def test_skips_win_back_what_was_lost_and_touch_only_what_may_go(made, late):
    blocks = [Block("section", str(i), minutes, cut=cut) for i, (minutes, cut) in enumerate(made)]
    chosen = skips(blocks, 0, late)
    possible = sum(block.minutes for block in blocks if block.cut is not None)
    if chosen is None:
        assert possible < late
    else:
        assert sum(block.minutes for block in chosen) >= late
        assert all(block.cut is not None for block in chosen)
        least = min(block.minutes for block in chosen)
        assert sum(block.minutes for block in chosen) - least < late or len(chosen) == 1


def test_what_is_already_taught_cannot_be_skipped():
    blocks = [Block("section", "a", 10, cut=1), Block("section", "b", 10)]
    assert [block.title for block in skips(blocks, 0, 5)] == ["a"]
    assert skips(blocks, 1, 5) is None
    assert "nothing left to skip" in cut_lines(blocks, 1)[0]


def test_what_to_skip_is_told_apart():
    blocks = [Block("section", "Draw, then look", 3, cut=1), Block("task", "Finish; help", 3)]
    assert cut_lines(blocks, 0) == ["5 min: skip “Finish”, “Draw, then look”"]
