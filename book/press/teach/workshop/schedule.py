"""The timetable of a workshop: what is taught when, what is left out, and what to skip when late. Minutes and the order
of cutting come from the cards: a `cut` of 1 goes first, what has none stays. Learners have something to do within ten
minutes, then in every fifteen: the acts of a section, or else pairs answer what its notes ask."""

import math
from collections import namedtuple
from collections.abc import Iterable
from datetime import datetime, timedelta

from ...errors import PressError
from ...repository import Chapter
from ...run.schedule import expected_seconds
from .. import acts

EXERCISES = "Exercises"
LENGTHS = (60, 90, 180)  # every bundle has a run-sheet for these
BREAK_AFTER, BREAK_MINUTES, NO_BREAK, LUNCH_MINUTES, LUNCH_FROM = 75, 10, 100, 60, 360
LATE = (5, 10, 20)  # minutes behind for which a run-sheet says what to skip
SHORT = 5  # minutes that are too few for a task of their own
IDLE = 14  # minutes that a class may only watch before pairs get a question
SLOWER = 2  # times the book's own run, that a class waits for its cells
PAIRS = "in pairs: what the notes ask"
TASKS = (  # for the time that is left, the most minutes of each
    (10, "Finish the exercises; who has finished helps a neighbour, who keeps the keyboard"),
    (25, "Change one number in “{section}”: write down what you expect, run it again, keep both"),
    (20, "Swap: find an input on which your neighbour's answer to “{exercise}” fails, then mend it together"),
    (20, "Show: two minutes for each pair, on one number that it did not expect"),
)


# One line of the timetable; `kind` is frame, guess, section, exercise, break or task. `acts`: (words, minutes).
Block = namedtuple("Block", "kind title minutes chapter cut acts core", defaults=("", None, (), True))
# A timetable of `minutes`: its blocks in order, and what was left out to make it fit.
Plan = namedtuple("Plan", "minutes blocks left_out")


def content(chapter: Chapter, *, core: bool = False) -> list[Block]:
    """The chapter's sections and exercises in order; with `core` its core path and first exercise stay."""
    blocks, tried = [], {}
    for title, cells in acts.sections(chapter.cells):  # what everyone does there
        about = [act.about for act in acts.of(cells)]
        words = [f"{one.get('format', one['kind'])}, {one['id'].replace('_', ' ')}" for one in about]
        tried[title] = tuple((said, float(one["minutes"])) for said, one in zip(words, about, strict=True))
    for section in chapter.card["sections"]:
        if section["title"] == EXERCISES:
            for at, one in enumerate(chapter.card["exercises"]):
                cut = one.get("cut") if at or not core else None
                blocks.append(Block("exercise", one["title"], one["minutes"], str(chapter), cut))
        else:
            further, own = bool(section.get("further")), tried.get(section["title"], ())
            facts = section["minutes"], str(chapter), section.get("cut") if further or not core else None, own
            blocks.append(Block("section", section["title"], *facts, not further))
    return blocks


def opening(chapter: Chapter) -> Block:
    """What a class does while its notebooks run for the first time."""
    wait = math.ceil(SLOWER * min(expected_seconds(chapter), 120) / 60)
    ask = f"Everyone starts “Run all”; while it runs, write down a guess: {chapter.card['question']}"
    return Block("guess", ask, max(2, wait), str(chapter), None, (("guess", max(2, wait)),))


def plan(chapters: list[Chapter], minutes: int, *, core: bool = False) -> Plan:
    """The timetable of `minutes` over the chapters; with `core`, as in a syllabus, core paths stay, and exercises a
    minute in three. PressError when even the shortest form does not fit, or the longest fills less."""
    welcome, goodbye = (5, 5) if minutes >= 90 else (3, 2)
    first = Block("frame", "Welcome; everyone has the notebook open", welcome)
    last = Block("frame", "Questions, and where to go on", goodbye)
    pauses, opened = _pauses(minutes), {str(chapter): opening(chapter) for chapter in chapters}
    whole = [block for chapter in chapters for block in content(chapter, core=core)]
    fixed = _length([first, last, *pauses, *opened.values()])
    kept = _cut(whole, minutes - fixed, core)
    if kept is None:
        least = fixed + _length(block for block in whole if block.cut is None)
        what = f"{', '.join(map(str, chapters))}: {minutes} minutes are too short; after every cut that the cards allow"
        raise PressError(f"{what}, {least:g} are needed. Take fewer chapters or more minutes, or give sections a `cut`")
    blocks = [first]
    for name, start in opened.items():
        blocks += [start, *(block for block in kept if block.chapter == name)]
    blocks = _at_work(blocks + _tasks(kept, minutes - fixed - _length(kept)))
    return Plan(minutes, [*_with_breaks(blocks, pauses), last], [block for block in whole if block not in kept])


def _cut(whole: list[Block], room: float, core: bool) -> list[Block] | None:
    """The blocks that stay in so many minutes, in order, a third exercises while others can go; or None."""
    kept, gone = list(whole), []
    while _length(kept) > room:
        spare = exercised(kept) - _length(kept) / 3
        order = sorted((one for one in kept if one.cut is not None), key=lambda one: (one.cut, -one.minutes))
        if not order:
            return None
        thin = [one for one in order if one.kind == "exercise" and one.minutes * 2 / 3 > spare]
        others = [one for one in order if one not in thin and (one.kind == "exercise" or not one.core)]
        gone.append(others[0] if order[0] in thin and others else order[0])
        kept.remove(gone[-1])
    for block in reversed(gone):
        thin = core and block.kind == "section" and exercised(kept) * 3 < _length(kept) + block.minutes
        if _length(kept) + block.minutes <= room and not thin:
            kept.append(block)
    return [block for block in whole if block in kept]


def exercised(blocks: Iterable[Block]) -> float:
    """The minutes of exercises."""
    return _length(block for block in blocks if block.kind == "exercise")


def _tasks(kept: list[Block], spare: float) -> list[Block]:
    """What fills the time that is left: each task as long as it may be, in their order."""
    made, sections = [], [block for block in kept if block.kind == "section"]
    section = max(sections[1:] or sections, key=lambda block: (block.core, block.minutes))  # the first one only shows
    exercise = next((block.title for block in reversed(kept) if block.kind == "exercise"), section.title)
    for most, words in TASKS:
        if (takes := spare if spare - most < SHORT else most) >= 1:
            said = words.format(section=section.title, exercise=exercise)
            made.append(Block("task", said, takes, acts=(("task", takes),)))
            spare -= takes
    if spare >= 1:
        raise PressError(f"{spare:g} minutes are left with nothing to do in them; take more chapters or fewer minutes")
    return made


def _at_work(blocks: list[Block]) -> list[Block]:
    """The blocks with a question for pairs in sections without acts, wherever a class would watch for too long."""
    made, idle = [], 0.0
    for block, after in zip(blocks, [*blocks[1:], blocks[0]], strict=True):
        watched = after.minutes if after.kind == "section" else 0
        if block.kind == "section" and not block.acts and idle + block.minutes + watched > IDLE and block.minutes > 1:
            block = block._replace(acts=((PAIRS, 2 if block.minutes >= 4 else 1),))
        idle = 0 if block.acts or block.kind == "exercise" else idle + block.minutes
        made.append(block)
    return made


def _length(blocks: Iterable[Block]) -> float:
    return sum(block.minutes for block in blocks)


def _pauses(minutes: int) -> list[Block]:
    """The breaks of a workshop, one every seventy-five minutes of a long one; in a day the middle one is lunch."""
    many = math.ceil(minutes / BREAK_AFTER) - 1 if minutes > NO_BREAK else 0
    made = [Block("break", "Break", BREAK_MINUTES)] * many
    if minutes >= LUNCH_FROM:
        made[many // 2] = Block("break", "Lunch", LUNCH_MINUTES)
    return made


def _with_breaks(blocks: list[Block], pauses: list[Block]) -> list[Block]:
    """The blocks with the breaks between them, each where it parts the time most evenly, none just before an end."""
    share, made, done, left = _length(blocks) / (len(pauses) + 1), [], 0.0, list(pauses)
    for block in blocks:
        due = share * (len(pauses) - len(left) + 1)
        if left and done and done + block.minutes / 2 > due and block.minutes > 2:
            made.append(left.pop(0))
        made.append(block)
        done += block.minutes
    return made + left


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
    """What to leave out of the blocks from `at` on to win back `late` minutes: tasks, then as cards say; or None."""
    rest = [block for block in blocks[at:] if block.kind == "task" or block.cut is not None]
    chosen: list[Block] = []
    for block in sorted(rest, key=lambda block: (block.kind != "task", block.cut or 0, -block.minutes)):
        if _length(chosen) < late:
            chosen.append(block)
    for block in chosen[:-1]:
        if _length(chosen) - block.minutes >= late:
            chosen.remove(block)
    return chosen if _length(chosen) >= late else None
