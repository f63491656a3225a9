"""A book of some chapters, such as a class gets: the same pages, with contents that leave the other chapters out."""

import re
from pathlib import PurePosixPath
from posixpath import normpath

from ..repository import Chapter, Repository

LINK = re.compile(r"\]\(([^)\s#]+)\.ipynb(#[^)\s]*)?\)")


class Edition(Repository):
    """A repository seen through some of its chapters; what it builds lies below `_build/editions`."""

    def __init__(self, whole: Repository, chapters: list[Chapter]):
        super().__init__(whole.root)
        self.chapters = list(chapters)
        self.left_out = {chapter.document for chapter in whole.chapters} - {one.document for one in chapters}
        parts = {chapter.part for chapter in whole.chapters} - {chapter.part for chapter in chapters}
        self.toc = _pruned(whole.toc, self.left_out | {f"book/part_{part}" for part in parts})
        self.build /= "editions/" + "-".join(chapter.stem for chapter in chapters)  # executed ones are the whole book's


def _pruned(contents: dict | list, left_out: set[str]) -> dict | list:
    if isinstance(contents, list):
        return [_pruned(one, left_out) for one in contents if one.get("file", "").split(".")[0] not in left_out]
    return {key: _pruned(one, left_out) if isinstance(one, list) else one for key, one in contents.items()}


def elsewhere(repository: Repository, text: str, document: str) -> str:
    """The text of a page, the `document`, with links to chapters that are left out leading to the published book."""
    left_out = repository.left_out if isinstance(repository, Edition) else ()

    def link(match: re.Match) -> str:
        name = normpath(PurePosixPath(document).parent / match[1])
        return f"]({repository.site}{name}.html{match[2] or ''})" if name in left_out else match[0]

    return LINK.sub(link, text)
