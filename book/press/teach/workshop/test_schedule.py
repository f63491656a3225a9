"""Timetables: they fill the time, cut in the cards' order, and know what to skip when late."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from press.errors import PressError
from press.repository import HOME, Repository
from press.teach.workshop.paper import cut_lines
from press.teach.workshop.schedule import Block, clock, content, plan, skips

CHAPTERS = Repository(HOME).chapters


@pytest.mark.parametrize("chapter", CHAPTERS, ids=str)
@pytest.mark.parametrize("minutes", [60, 90, 180])
def test_every_chapter_fills_the_usual_lengths(chapter, minutes):
    made = plan([chapter], minutes)
    assert sum(block.minutes for block in made.blocks) == pytest.approx(minutes, abs=1)
    taught = [block for block in made.blocks if block.kind in ("section", "exercise")]
    assert sorted(map(str, taught + made.left_out)) == sorted(map(str, content(chapter)))


def test_what_goes_first_is_what_the_card_says():
    made = plan(CHAPTERS[:1], 60)
    cuts = [block.cut for block in made.left_out]
    assert cuts == sorted(cuts) and None not in cuts


def test_too_little_time_says_how_much_is_needed():
    with pytest.raises(PressError, match=r"20 minutes are too short; after every cut .*, \d+ are needed"):
        plan(CHAPTERS[:1], 20)


def test_a_long_workshop_has_breaks_and_open_time():
    kinds = [block.kind for block in plan(CHAPTERS[:1], 180).blocks]
    assert kinds.count("break") == 1 and kinds.count("open") == 1
    assert kinds[0] == kinds[-1] == "frame"


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
