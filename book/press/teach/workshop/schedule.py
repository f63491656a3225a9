"""The timetable of a workshop: what is taught when, what is left out, and what to skip when late.

The minutes and the order of cutting come from the cards: `minutes` of sections and exercises, and `cut`, where 1 is
what goes first. What has no `cut` is never left out.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from ...errors import PressError
from ...repository import Chapter

EXERCISES = "Exercises"
LENGTHS = (60, 90, 180)  # every bundle has a run-sheet for these
BREAK_AFTER, BREAK_MINUTES = 75, 10
LATE = (5, 10, 20)  # minutes behind for which a run-sheet says what to skip


class Block(NamedTuple):
    """One line of the timetable: `kind` is frame, section, exercise, break or open."""

    kind: str
    title: str
    minutes: float
    chapter: str = ""
    cut: int | None = None


class Plan(NamedTuple):
    """A timetable of `minutes`: its blocks in order, and what was left out to make it fit."""

    minutes: int
    blocks: list[Block]
    left_out: list[Block]


def content(chapter: Chapter) -> list[Block]:
    """The chapter's sections and exercises in the order of the page; the heading over the exercises is not counted."""
    blocks = []
    for section in chapter.card["sections"]:
        work = section["title"] == EXERCISES
        for one in chapter.card["exercises"] if work else [section]:
            kind = "exercise" if work else "section"
            blocks.append(Block(kind, one["title"], one["minutes"], str(chapter), one.get("cut")))
    return blocks


def plan(chapters: list[Chapter], minutes: int) -> Plan:
    """The timetable of `minutes` over the chapters; PressError when even the shortest form of them does not fit."""
    welcome, goodbye = (5, 5) if minutes >= 90 else (3, 2)
    first = Block("frame", "Welcome; everyone has the notebook open", welcome)
    last = Block("frame", "Questions, and where to go on", goodbye)
    breaks = max(0, (minutes - 1) // 90)
    taught = [block for chapter in chapters for block in content(chapter)]
    left_out: list[Block] = []
    while (least := _length([first, *taught, last]) + breaks * BREAK_MINUTES) > minutes:
        can_go = [block for block in taught if block.cut is not None]
        if not can_go:
            raise PressError(
                f"{', '.join(map(str, chapters))}: {minutes} minutes are too short; after every cut that the cards "
                f"allow, {least:g} are needed. Take fewer chapters or more minutes, or give sections a `cut`"
            )
        left_out.append(min(can_go, key=lambda block: (block.cut, -block.minutes)))
        taught.remove(left_out[-1])
    blocks = _with_breaks([first, *taught], breaks)
    if (spare := minutes - _length([*blocks, last])) >= 1:
        blocks.append(Block("open", "Open time: finish the exercises, then run a section on data of your own", spare))
    return Plan(minutes, [*blocks, last], left_out)


def _length(blocks: Iterable[Block]) -> float:
    return sum(block.minutes for block in blocks)


def _with_breaks(blocks: list[Block], breaks: int) -> list[Block]:
    """The blocks with so many breaks between them, each after a good hour; the rest at the end."""
    made, since = [], 0.0
    for block in blocks:
        if breaks and since + block.minutes > BREAK_AFTER:
            made.append(Block("break", "Break", BREAK_MINUTES))
            since, breaks = 0, breaks - 1
        made.append(block)
        since += block.minutes
    return made + [Block("break", "Break", BREAK_MINUTES)] * breaks


def clock(blocks: list[Block], start: str) -> list[str]:
    """When each block begins, as HH:MM; PressError unless `start` is such a time.

    >>> clock([Block("frame", "a", 5), Block("frame", "b", 5)], "09:00")
    ['09:00', '09:05']
    """
    try:
        begins = datetime.strptime(start, "%H:%M")
    except ValueError:
        raise PressError(f"the start {start!r} is no time of day; write it as 09:00") from None
    return [(begins + timedelta(minutes=_length(blocks[:at]))).strftime("%H:%M") for at in range(len(blocks))]


def skips(blocks: list[Block], at: int, late: float) -> list[Block] | None:
    """What to leave out of the blocks from `at` on to win back `late` minutes; None when that cannot be done.

    The open time goes first, then what the cards allow, in their order; then a block that became needless comes back.
    """
    rest = [block for block in blocks[at:] if block.kind == "open" or block.cut is not None]
    chosen: list[Block] = []
    for block in sorted(rest, key=lambda block: (block.kind != "open", block.cut or 0, -block.minutes)):
        if _length(chosen) < late:
            chosen.append(block)
    for block in chosen[:-1]:
        if _length(chosen) - block.minutes >= late:
            chosen.remove(block)
    return chosen if _length(chosen) >= late else None
