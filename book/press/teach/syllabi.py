"""Syllabi for `book/teaching.md`, made from the cards: they grow as chapters land."""

from ..errors import PressError
from ..ledger.tables import html_table, link, row, tag
from ..repository import Chapter
from .workshop.schedule import Block, Plan, content, plan

HOURS = (2, 4, 8)


def syllabi(chapters: list[Chapter]) -> str:
    """One table for each length: when, what, how; and what remains open while the book is small."""
    return "\n".join(part for hours in HOURS for part in _syllabus(chapters, hours))


def chosen(chapters: list[Chapter], minutes: int) -> tuple[list[Chapter], Plan | None]:
    """The first chapters of the book that fit into the minutes with the cuts that their cards allow, and their plan."""
    taken: list[Chapter] = []
    best = None
    for chapter in chapters:
        try:
            best = plan([*taken, chapter], minutes)
            taken.append(chapter)
        except PressError:
            continue
    return taken, best


def _syllabus(chapters: list[Chapter], hours: int) -> list[str]:
    taken, timetable = chosen(chapters, hours * 60)
    if timetable is None:
        return [f"<p>{hours} hours: no chapter fits yet.</p>"]
    rows, at = [], 0.0
    for chapter, blocks in _grouped(timetable.blocks):
        took = sum(block.minutes for block in blocks)
        name = next((link(one) for one in taken if str(one) == chapter), blocks[0].title)
        sections = [block.title for block in blocks if block.kind == "section"]
        exercises = [block.title for block in blocks if block.kind == "exercise"]
        told = "; ".join([*sections, *(f"exercise: {title}" for title in exercises)]) if chapter else ""
        rows.append(row(f"{int(at) // 60}:{int(at) % 60:02d}", f"{took:g} min", name, told))
        at += took
    left = ", ".join(f"{block.title} ({block.minutes:g} min)" for block in timetable.left_out)
    caption = f"{hours} hours, {len(taken)} chapter{'s' * (len(taken) != 1)}"
    shown = [html_table(caption, ["at", "takes", "what", "of it"], [rows])]
    return [*shown, tag("p", f"Left out of the {hours} hours: {left}.")] if left else shown


def _grouped(blocks: list[Block]) -> list[tuple[str, list[Block]]]:
    """Neighbouring blocks of one chapter together; each other block alone."""
    groups: list[tuple[str, list[Block]]] = []
    for block in blocks:
        if block.chapter and groups and groups[-1][0] == block.chapter:
            groups[-1][1].append(block)
        else:
            groups.append((block.chapter, [block]))
    return groups


def by_audience(chapters: list[Chapter]) -> str:
    """Each chapter with what its learners should know, what they take away, and its minutes."""
    rows = []
    for chapter in chapters:
        card = chapter.card
        minutes = sum(block.minutes for block in content(chapter))
        least = minutes - sum(block.minutes for block in content(chapter) if block.cut)
        facts = (", ".join(card["prerequisites"]), "; ".join(card["objectives"]), f"{least:g} to {minutes:g} min")
        rows.append(row(link(chapter), *facts))
    head = ["chapter", "they should know", "afterwards they can", "takes"]
    return html_table("Chapters for a class", head, [rows])
