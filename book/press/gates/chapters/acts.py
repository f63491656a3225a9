"""The gate on acts: each section of the core path has something to do, and each objective is assessed."""

from collections.abc import Iterator

from ...errors import PressError
from ...repository import Chapter, Repository, tags
from ...teach import acts as forms
from ...teach.workshop.schedule import EXERCISES
from .. import gate

NONE_YET = "asr_finetuning asr_streaming co2_storage"  # chapters without acts: this list only shrinks
LEAST = 3  # acts of choice or order in a chapter
NOT_HELD = {EXERCISES, "Further reading"}  # sections


@gate
def acts(repository: Repository) -> Iterator[tuple]:
    """Sections have acts, {LEAST} a chapter of choice or order; all objectives are assessed."""
    for chapter in repository.chapters:
        held = [index for index, cell in enumerate(chapter.cells) if "act" in tags(cell)]
        if held and chapter.stem in NONE_YET.split():
            yield chapter.notebook, f"has acts now: take {chapter.stem} off the list NONE_YET", held[0]
        if held or chapter.stem not in NONE_YET.split():
            yield from ((chapter.notebook, what, index) for index, what in _forms(chapter, held))
            yield from ((chapter.notebook, what) for what in _rhythm(chapter))


def _forms(chapter: Chapter, held: list[int]) -> Iterator[tuple[int, str]]:
    seen = set()
    for index in held:
        about = chapter.cells[index].metadata.get("act", {})
        try:
            forms.read(chapter.cells[index])
        except PressError as error:
            yield index, str(error)
        if about.get("id") in seen:
            yield index, f"the id {about['id']} is used twice"
        seen.add(about.get("id"))
    objectives = range(1, len(chapter.card["objectives"]) + 1)
    for index, cell in enumerate(chapter.cells):
        for number in [one for one in _assessed(cell) if one not in objectives]:
            yield index, f"assesses objective {number!r}; the card has {len(objectives)}"


def _rhythm(chapter: Chapter) -> Iterator[str]:
    about = [cell.metadata.get("act", {}) for cell in chapter.cells]
    if (many := sum(one.get("kind") in ("choose", "order") for one in about)) < LEAST:
        yield f"{many} acts of choice or order; at least {LEAST} must be there"
    assessed = {number for cell in chapter.cells for number in _assessed(cell)}
    for number, aim in enumerate(chapter.card["objectives"], 1):
        if number not in assessed:
            yield f"no act and no exercise assesses objective {number}, {aim!r}"
    minutes = {one["title"]: one["minutes"] for one in chapter.card["sections"] if not one.get("further")}
    for title, cells in forms.sections(chapter.cells):
        own = [cell.metadata["act"] for cell in cells if "act" in tags(cell)]
        if title in minutes.keys() - NOT_HELD and not own and not any("exercise" in tags(cell) for cell in cells):
            yield f"section {title!r} of the core path has neither an act nor an exercise"
        if title in minutes and (takes := sum(one.get("minutes", 0) for one in own)) > minutes[title]:
            yield f"the acts of section {title!r} take {takes} minutes, the section {minutes[title]}"


def _assessed(cell: dict) -> list:
    return [number for kind in ("act", "exercise") for number in cell.metadata.get(kind, {}).get("assesses", [])]
