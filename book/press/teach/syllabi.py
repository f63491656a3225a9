"""Syllabi and the map of chapters for `book/teaching.md`, made from the cards: they grow as chapters land."""

from itertools import groupby

from ..errors import PressError
from ..face.gallery import short
from ..ledger.tables import block, html_table, link
from ..repository import Chapter
from .workshop.schedule import Plan, content, exercised, plan

HOURS = (2, 4, 8)
LEVELS = ("beginner", "intermediate", "advanced")
PATHS = {  # for whom, and the interests of cards that belong to it
    "Systems": (
        "For engineers who run training and serving.",
        {"systems", "serving", "distributed systems", "distributed training", "compression"},
    ),
    "Recommendation": ("For teams that rank items, from the log to the service.", {"recommendation"}),
    "Speech and language": ("For those who work with sound and words.", {"speech", "sound", "language"}),
    "Numerics": (
        "For those who ask what a fast computation may get wrong.",
        {"numerical accuracy", "numerical precision", "FFT", "simulation"},
    ),
}
WIDE, HIGH, APART, BETWEEN = 212, 42, 48, 10  # a chapter's box on the map, and the space beside and below it


def paths(chapters: list[Chapter]) -> dict[str, list[Chapter]]:
    """The chapters of each path as they are taught: easier ones first, each after those that help before it."""
    order = sorted(chapters, key=lambda chapter: (level(chapter), chapters.index(chapter)))
    found = {}
    for name, (_, interests) in PATHS.items():
        left, found[name] = [one for one in order if interests & set(one.card["interests"])], []
        while left:
            waiting = {one.stem for one in left}
            ready = (one for one in left if not waiting & set(one.card.get("after", ())))
            found[name].append(next(ready, left[0]))
            left.remove(found[name][-1])
    return found


def level(chapter: Chapter) -> int:
    """How hard the card says that the chapter is; 0 where it says nothing."""
    return LEVELS.index(chapter.card.get("level", LEVELS[0]))


def syllabus(path: list[Chapter], hours: int) -> Plan | None:
    """The timetable of as many chapters from the path's beginning as can be taught with their whole core paths and an
    exercise in one minute of three; None where that is none."""
    for many in range(len(path), 0, -1):
        try:
            made = plan(path[:many], hours * 60, core=True)
        except PressError:
            continue
        taught = [one for one in made.blocks if one.kind in ("section", "exercise")]
        if exercised(taught) * 3 >= sum(one.minutes for one in taught):
            return made
    return None


def syllabi(chapters: list[Chapter]) -> str:
    """Each path with its syllabi, folded: when, what, how; and how much is left out."""
    parts = []
    for name, path in paths(chapters).items():
        known = {str(chapter): chapter for chapter in path}
        made = [(hours, syllabus(path, hours)) for hours in HOURS]
        told = [_told(hours, one, known) for hours, one in made if one] or ["No chapter fits yet."]
        parts += [f"### {name}", PATHS[name][0], *told]
    return "\n\n".join(parts)


def _told(hours: int, made: Plan, known: dict[str, Chapter]) -> str:
    rows, at = [], 0.0
    for name, group in groupby(made.blocks, key=lambda one: one.chapter or one.title):
        own = list(group)
        took = sum(one.minutes for one in own)
        when = f"{int(at) // 60}:{int(at) % 60:02d}"
        what = link(known[name]) if name in known else name
        rows.append((when, f"{took:g} min", what, _of_it(own) if name in known else ""))
        at += took
    taught = [short(known[name]) for name in dict.fromkeys(one.chapter for one in made.blocks) if name]
    gone = [one.kind for one in made.left_out]
    left = " and ".join(f"{gone.count(kind)} {kind}s" for kind in ("section", "exercise") if kind in gone)
    share = exercised(made.blocks) / sum(one.minutes for one in made.blocks if one.kind in ("section", "exercise"))
    table = html_table(f"{hours} hours", ["at", "takes", "what", "of it"], rows)
    return block("teach/map.html", "syllabus", hours, taught, share, table, left)


def _of_it(own: list) -> str:
    """What a class does of a chapter, in one line."""
    said = ["the core path"] if any(one.kind == "section" and one.core for one in own) else []
    said += [one.title for one in own if one.kind == "section" and not one.core]
    return "; ".join(said + [f"exercise: {one.title}" for one in own if one.kind == "exercise"])


def chapter_map(chapters: list[Chapter]) -> str:
    """A drawing of which chapters help before which, with level and paths, and the same as a list."""
    on = {name: [chapter.stem for chapter in path] for name, path in paths(chapters).items()}
    before = {one.stem: [name for name in one.card.get("after", ()) if name in {c.stem for c in chapters}] for one in chapters}
    places, row = {}, -1
    for root in [one.stem for one in chapters if not before[one.stem]]:
        row = _place(root, 0, row + 1, before, places)
    step, line = WIDE + APART, HIGH + BETWEEN
    boxes = {stem: (column * step + 1, at * line + 1) for stem, (column, at) in places.items()}
    nodes = []
    for one in chapters:
        own = [name for name, stems in on.items() if one.stem in stems]
        nodes.append((one, boxes[one.stem], LEVELS[level(one)] if "level" in one.card else "", own))
    arrows = [(boxes[first], boxes[one]) for one, firsts in before.items() for first in firsts]
    titles = {one.stem: short(one) for one in chapters}
    wide, high = max(x for x, _ in boxes.values()) + WIDE + 1, (row + 1) * line
    size = {"wide": wide, "high": high, "box": (WIDE, HIGH)}
    return block("teach/map.html", "drawn", nodes, arrows, size, before, titles, short=short)


def _place(stem: str, column: int, row: int, before: dict[str, list[str]], places: dict) -> int:
    """Put a chapter and those after it on the map; the last row that they take."""
    places[stem] = (column, row)
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
