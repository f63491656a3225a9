"""The gate on a reader's time: how many words a page has, and how long its core path takes."""

from collections.abc import Iterator

from ...repository import Repository
from ...teach import length
from .. import Problem, gate

MOST_WORDS, MOST_MINUTES = 4000, 90


@gate(
    "teaching",
    f"a page has {MOST_WORDS:,} words and a core path of {MOST_MINUTES} minutes at most",
    why="a reader who cannot finish in an evening does not begin",
    mend="shorten it, mark sections with `further: true` in the card, or say there under `length:` why it is long",
)
def teaching(repository: Repository) -> Iterator[Problem]:
    """Chapters that ask for more, and whose card does not say why."""
    for chapter in repository.chapters:
        if chapter.card.get("length"):
            continue
        own = length.of(chapter)
        where = repository.relative(chapter.notebook)
        if own.words > MOST_WORDS:
            yield Problem(where, f"{own.words:,} words; allowed are {MOST_WORDS:,}")
        if own.core > MOST_MINUTES:
            yield Problem(where, f"a core path of {own.core} minutes; allowed are {MOST_MINUTES}")
