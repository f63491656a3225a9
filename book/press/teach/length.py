"""What a chapter asks of a reader: words, cells, and minutes, of its core path, of what is `further`, of exercises."""

import re
from collections import namedtuple

from ..repository import Chapter, tags
from .workshop.schedule import EXERCISES

NOT_READ = {"talk", "instructor", "solution", "wrong", "hint"}  # slides, notes, and what a reader need not open
REPLY = re.compile(r"^ *>.*$", re.MULTILINE)  # of an act: a reader sees one, after an answer
NO_WORD = re.compile(r"```.*?```|<[^>]*>|\$[^$]*\$|\]\([^)]*\)|\{[\w:]+\}(?=`)", re.DOTALL)
WORD = re.compile(r"[^\W_][\w'’.-]*")


# Words of the text, cells of the page, and minutes.
Length = namedtuple("Length", "words cells core further exercises whole")


def of(chapter: Chapter) -> Length:
    """The length of a chapter, from its card and its notebook."""
    minutes = {"core": 0, "further": 0, "exercises": 0}
    for section, beyond in zip(chapter.card.get("sections") or [], further(chapter), strict=True):
        kind = "exercises" if section["title"] == EXERCISES else "further" if beyond else "core"
        minutes[kind] += section["minutes"]
    read = [cell for cell in chapter.cells if not NOT_READ & set(tags(cell))]
    texts = [(cell.source, "act" in tags(cell)) for cell in read if cell.cell_type == "markdown"]
    words = sum(len(words_of(REPLY.sub("", text) if act else text)) for text, act in texts)
    return Length(words, len(read), **minutes, whole=sum(minutes.values()))


def words_of(text: str) -> list[str]:
    """The words of some Markdown, without code blocks, formulas, addresses and tags."""
    return WORD.findall(NO_WORD.sub(" ", text))


def further(chapter: Chapter) -> list[bool]:
    """Of each section, whether it lies beyond the core path."""
    return [bool(section.get("further")) for section in chapter.card.get("sections") or []]
