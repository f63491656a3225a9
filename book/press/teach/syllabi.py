"""Syllabi for `book/teaching.md`, made from the cards: they grow as chapters land."""

from contextlib import suppress
from itertools import groupby

from helpers.show import tag

from ..errors import PressError
from ..ledger.tables import html_table, link
from ..repository import Chapter
from .workshop.schedule import content, plan

HOURS = (2, 4, 8)


def syllabi(chapters: list[Chapter]) -> str:
    """One table for each length: when, what, how; and what remains open while the book is small."""
    return "\n".join(part for hours in HOURS for part in _syllabus(chapters, hours))


def _syllabus(chapters: list[Chapter], hours: int) -> list[str]:
    """The first chapters of the book that fit into the hours with the cuts that their cards allow."""
    taken, timetable = [], None
    for chapter in chapters:
        with suppress(PressError):
            timetable = plan([*taken, chapter], hours * 60)
            taken.append(chapter)
    if timetable is None:
        return [f"<p>{hours} hours: no chapter fits yet.</p>"]
    links = {str(chapter): link(chapter) for chapter in taken}
    rows, at = [], 0.0
    for name, group in groupby(timetable.blocks, key=lambda block: block.chapter or block.title):
        blocks = list(group)
        took = sum(block.minutes for block in blocks)
        told = [f"exercise: {block.title}" if block.kind == "exercise" else block.title for block in blocks]
        when = f"{int(at) // 60}:{int(at) % 60:02d}"
        rows.append((when, f"{took:g} min", links.get(name, name), "; ".join(told) if name in links else ""))
        at += took
    caption = f"{hours} hours, {len(taken)} chapter{'s' * (len(taken) != 1)}"
    shown = [html_table(caption, ["at", "takes", "what", "of it"], rows)]
    left = ", ".join(f"{block.title} ({block.minutes:g} min)" for block in timetable.left_out)
    return [*shown, tag("p", f"Left out of the {hours} hours: {left}.")] if left else shown


def by_audience(chapters: list[Chapter]) -> str:
    """Each chapter with what its learners should know, what they take away, and its minutes."""
    rows = []
    for chapter in chapters:
        card, blocks = chapter.card, content(chapter)
        least = sum(block.minutes for block in blocks if not block.cut)
        took = f"{least:g} to {sum(block.minutes for block in blocks):g} min"
        rows.append((link(chapter), ", ".join(card["prerequisites"]), "; ".join(card["objectives"]), took))
    head = ["chapter", "they should know", "afterwards they can", "takes"]
    return html_table("Chapters for a class", head, rows)
