"""The setup cell: one text for every notebook, but for its first line, which names the chapter: in Colab a notebook
knows neither its file nor its folder. The clone's folder, in REBUILT_HOME, carries the release's name, so that a
runtime which held another one gets its own. What comes after the clone is in `prepare.py`, tested like other code."""

from pathlib import Path

from ..repository import Chapter, Repository

TEMPLATE = Path(__file__).with_suffix(".py.txt").read_text(encoding="utf-8")


def text(repository: Repository, chapter: Chapter) -> str:
    """The setup cell of the chapter, with no line break at its end."""
    name, place = repository.url.rsplit("/", 1)[-1], {"branch": repository.branch, "url": repository.url}
    return TEMPLATE.format(chapter=chapter.name, name=name, release=repository.release, **place).rstrip("\n")
