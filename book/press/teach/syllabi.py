"""Syllabi and the map of chapters for `book/teaching.md`, made from the cards: they grow as chapters land."""

from contextlib import suppress
from itertools import groupby
from pathlib import Path

from ..errors import PressError
from ..face.gallery import short
from ..ledger.tables import block, html_table, link
from ..repository import Chapter, read_yaml
from .workshop.schedule import Plan, content, exercised, plan

HOURS = (2, 4, 8)
LEVELS = ("beginner", "intermediate", "advanced")
PATHS = read_yaml(Path(__file__).with_name("paths.yml"))
STEP, LINE = 260, 66  # pixels from a chapter to the next on the map


def paths(chapters: list[Chapter]) -> dict[str, list[Chapter]]:
    """The chapters of each path as they are taught: easier ones first, each after those that help before it."""
    found = {}
    for name, path in PATHS.items():
        left, found[name] = [one for one in chapters if set(path["interests"]) & set(one.card["interests"])], []
        left.sort(key=lambda one: LEVELS.index(one.card.get("level", LEVELS[0])))
        while left:
            waiting = {one.stem for one in left}
            ready = (one for one in left if not waiting & set(one.card.get("after", ())))
            found[name].append(next(ready, left[0]))
            left.remove(found[name][-1])
    return found


def syllabus(path: list[Chapter], hours: int) -> Plan | None:
    """The timetable of as many chapters of a path, from its beginning, as can be taught whole, or None."""
    for many in range(len(path), 0, -1):
        with suppress(PressError):
            made = plan(path[:many], hours * 60, core=True)
            if _share(made) * 3 >= 1:
                return made
    return None


def _share(made: Plan) -> float:
    return exercised(made.blocks) / sum(one.minutes for one in made.blocks if one.kind in ("section", "exercise"))


def syllabi(chapters: list[Chapter]) -> str:
    """Each path with its syllabi, folded: when, what, how; and how much is left out."""
    parts = []
    for name, path in [(name, path) for name, path in paths(chapters).items() if path]:
        known = {str(chapter): chapter for chapter in path}
        made = [(hours, syllabus(path, hours)) for hours in HOURS]
        told = [_told(hours, one, known) for hours, one in made if one] or ["No chapter fits yet."]
        parts += [f"### {name}", PATHS[name]["words"], *told]
    return "\n\n".join(parts)


def timetable(caption: str, made: Plan, chapters: list[Chapter]) -> str:
    """A table of when what is taught, and what of each chapter."""
    rows, at, known = [], 0.0, {str(chapter): chapter for chapter in chapters}
    for name, group in groupby(made.blocks, key=lambda one: one.chapter or one.title):
        own = list(group)
        said = ["the core path"] * any(one.kind == "section" and one.core for one in own)
        said += [one.title for one in own if one.kind == "section" and not one.core]
        said += [f"exercise: {one.title}" for one in own if one.kind == "exercise"]
        took, when = sum(one.minutes for one in own), f"{int(at) // 60}:{int(at) % 60:02d}"
        rows.append((when, f"{took:g} min", link(known[name]) if name in known else name, "; ".join(said)))
        at += took
    return html_table(caption, ["at", "takes", "what", "of it"], rows)


def _told(hours: int, made: Plan, known: dict[str, Chapter]) -> str:
    taught = [short(known[name]) for name in dict.fromkeys(one.chapter for one in made.blocks) if name]
    gone = [one.kind for one in made.left_out]
    many = [(gone.count(kind), kind) for kind in ("section", "exercise") if kind in gone]
    left = " and ".join(f"{count} {kind}{'s' * (count > 1)}" for count, kind in many)
    table = timetable(f"{hours} hours", made, [*known.values()])
    return block("teach/map.html", "syllabus", hours, taught, _share(made), table, left)


def chapter_map(chapters: list[Chapter], before: dict[str, list[str]] | None = None) -> str:
    """A drawing of which chapters help before which, as cards or `before` say it, with level and paths; and a list."""
    names, row, places = {one.stem: short(one) for one in chapters}, -1, {}
    by_card = {one.stem: [name for name in one.card.get("after", ()) if name in names] for one in chapters}
    before = before or by_card
    for root in [stem for stem, firsts in before.items() if not firsts]:
        row = _place(root, 0, row + 1, before, places)
    on = {name: [one.stem for one in path] for name, path in paths(chapters).items()}
    nodes = [(one, places[one.stem], [name for name, stems in on.items() if one.stem in stems]) for one in chapters]
    arrows = [(places[first], places[one]) for one, firsts in before.items() for first in firsts]
    size = max(x for x, _ in places.values()) + STEP, (row + 1) * LINE
    return block("teach/map.html", "drawn", nodes, arrows, size, before, names)


def _place(stem: str, column: int, row: int, before: dict[str, list[str]], places: dict) -> int:
    """Put a chapter and those after it on the map; the last row that they take."""
    places[stem] = (column * STEP + 1, row * LINE + 1)
    for at, child in enumerate([one for one, firsts in before.items() if firsts[:1] == [stem]]):
        row = _place(child, column + 1, row + (at > 0), before, places)
    return row


def by_audience(chapters: list[Chapter]) -> str:
    """Each chapter with what its learners should know, what they take away, and its minutes."""
    rows = []
    for chapter in chapters:
        card, blocks = chapter.card, content(chapter)
        least = sum(one.minutes for one in blocks if not one.cut)
        took = f"{least:g} to {sum(one.minutes for one in blocks):g} min"
        rows.append((link(chapter), ", ".join(card["prerequisites"]), "; ".join(card["objectives"]), took))
    head = ["chapter", "they should know", "afterwards they can", "takes"]
    return html_table("Chapters for a class", head, rows)
