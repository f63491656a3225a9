"""The gate on predictions: what stands in `data/predictions/` may be shown on a page."""

from collections.abc import Iterator

from ...predict import kept, rules
from ...repository import Repository
from .. import Problem, gate

LEFT_OUT = 3  # chapters without a broken version, at most


@gate(
    "predictions",
    "predictions compare equal work, say why ours is behind, and count what can be",
    why="a reader takes the three versions for the same task; counts beyond what their bytes allow are no prediction",
    mend="change `rehearsed_<stem>.py`, its AHEAD or LEFT_OUT, then `make predict CHAPTERS=<stem>`",
)
def predictions(repository: Repository) -> Iterator[Problem]:
    """What is wrong with the chapters' counts, and with how many leave the broken version out."""
    without = []
    for chapter in repository.chapters:
        found = kept.read(chapter)
        if found is not None:
            where = repository.relative(kept.path_of(chapter))
            yield from (Problem(where, what) for what in rules.problems(found))
            if found.stale:
                yield Problem(where, "its code has changed since it was counted")
            without += [chapter.stem] if "broken" in found.content["left_out"] else []
    if len(without) > LEFT_OUT:
        what = f"{len(without)} chapters leave the broken version out ({', '.join(without)}); {LEFT_OUT} may"
        yield Problem("data/predictions", what)
