"""The timetable of a workshop: what is taught when, what is left out, and what to skip when late.

The minutes and the order of cutting come from the cards: `minutes` of sections and exercises, and `cut`, where 1 is
what goes first. What has no `cut` is never left out.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from ...errors import PressError
from ...repository import Chapter

EXERCISES = "Exercises"
LENGTHS = (60, 90, 180)  # every bundle has a run-sheet for these
BREAK_AFTER, BREAK_MINUTES = 75, 10
LATE = (5, 10, 20)  # minutes behind for which a run-sheet says what to skip


@dataclass(frozen=True)
class Block:
    """One line of the timetable: `kind` is frame, section, exercise, break or open."""

    kind: str
    title: str
    minutes: float
    chapter: str = ""
    cut: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Plan:
    """A timetable of `minutes`: its blocks in order, and what was left out to make it fit."""

    minutes: int
    blocks: list[Block]
    left_out: list[Block]


def content(chapter: Chapter) -> list[Block]:
    """The chapter's sections and exercises in the order of the page; the heading over the exercises is not counted."""
    card = chapter.card
    blocks = []
    for section in card["sections"]:
        if section["title"] == EXERCISES:
            blocks += [
                Block("exercise", one["title"], one["minutes"], str(chapter), one.get("cut"), one["kind"])
                for one in card["exercises"]
            ]
        else:
            blocks.append(Block("section", section["title"], section["minutes"], str(chapter), section.get("cut")))
    return blocks


def plan(chapters: Iterable[Chapter], minutes: int) -> Plan:
    """The timetable of `minutes` over the chapters; PressError when even the shortest form of them does not fit."""
    chapters = list(chapters)
    welcome, goodbye = (5, 5) if minutes >= 90 else (3, 2)
    first = Block("frame", "Welcome; everyone has the notebook open", welcome)
    last = Block("frame", "Questions, and where to go on", goodbye)
    taught = [block for chapter in chapters for block in content(chapter)]
    left_out: list[Block] = []
    while _length(taught) + welcome + goodbye + _breaks(minutes) > minutes:
        can_go = [block for block in taught if block.cut is not None]
        if not can_go:
            least = _length(taught) + welcome + goodbye + _breaks(minutes)
            raise PressError(
                f"{', '.join(map(str, chapters))}: {minutes} minutes are too short; after every cut that the cards "
                f"allow, {least:g} are needed. Take fewer chapters or more minutes, or give sections a `cut`"
            )
        goes = min(can_go, key=lambda block: (block.cut, -block.minutes))
        taught.remove(goes)
        left_out.append(goes)
    return Plan(minutes, _with_rest(first, taught, last, minutes), left_out)


def _length(blocks: Iterable[Block]) -> float:
    return sum(block.minutes for block in blocks)


def _breaks(minutes: int) -> int:
    """The minutes of break in a workshop of so many."""
    return BREAK_MINUTES * max(0, (minutes - 1) // 90)


def _with_rest(first: Block, taught: list[Block], last: Block, minutes: int) -> list[Block]:
    """The blocks with their breaks, and what is left over as open time before the end."""
    blocks, since, breaks = [first], first.minutes, _breaks(minutes) // BREAK_MINUTES
    for block in taught:
        if breaks and since + block.minutes > BREAK_AFTER:
            blocks.append(Block("break", "Break", BREAK_MINUTES))
            since, breaks = 0, breaks - 1
        blocks.append(block)
        since += block.minutes
    blocks += [Block("break", "Break", BREAK_MINUTES)] * breaks
    spare = minutes - _length([*blocks, last])
    if spare >= 1:
        what = "Open time: finish the exercises, then run a section on data of your own"
        blocks.append(Block("open", what, spare))
    return [*blocks, last]


def clock(blocks: list[Block], start: str) -> list[str]:
    """When each block begins, as HH:MM; PressError unless `start` is such a time.

    >>> clock([Block("frame", "a", 5), Block("frame", "b", 5)], "09:00")
    ['09:00', '09:05']
    """
    try:
        begins = datetime.strptime(start, "%H:%M")
    except ValueError:
        raise PressError(f"the start {start!r} is no time of day; write it as 09:00") from None
    times = []
    for block in blocks:
        times.append(begins.strftime("%H:%M"))
        begins += timedelta(minutes=block.minutes)
    return times


def skips(blocks: list[Block], at: int, late: float) -> list[Block] | None:
    """What to leave out of the blocks from `at` on to win back `late` minutes; None when that cannot be done.

    The open time goes first, then what the cards allow, in their order; then a block that became needless comes back.
    """
    rest = [block for block in blocks[at:] if block.kind == "open" or block.cut is not None]
    order = sorted(rest, key=lambda block: (block.kind != "open", block.cut or 0, -block.minutes))
    chosen: list[Block] = []
    for block in order:
        if _length(chosen) >= late:
            break
        chosen.append(block)
    if _length(chosen) < late:
        return None
    for block in chosen[:-1]:
        if _length(chosen) - block.minutes >= late:
            chosen.remove(block)
    return chosen
