"""A book of some chapters, such as a class gets: the same pages, with contents that leave the other chapters out."""

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath

from ..files import read_json, sha256, write_json
from ..repository import Chapter, Repository

LINK = re.compile(r"\]\(([^)\s#]+)\.ipynb(#[^)\s]*)?\)")
CARD = re.compile(r"^:link: (\S+)\n:link-type: doc$", re.MULTILINE)


class Edition(Repository):
    """A repository seen through some of its chapters; what it builds lies below `_build/editions`.

    >>> Edition(repository, repository.select(["signals"])).toc_files
    """

    def __init__(self, whole: Repository, chapters: list[Chapter]):
        super().__init__(whole.root)
        self.chapters = list(chapters)
        self.left_out = {chapter.document for chapter in whole.chapters} - {one.document for one in chapters}
        self.toc = _pruned(dict(whole.toc), self.left_out | self._empty(whole))
        self._name = "-".join(chapter.stem for chapter in chapters)

    def _empty(self, whole: Repository) -> set[str]:
        """The pages of parts that hold none of the chapters."""
        parts = {chapter.part for chapter in whole.chapters} - {chapter.part for chapter in self.chapters}
        return {f"book/part_{part}" for part in parts}

    @property
    def build(self) -> Path:
        """The folder of what is generated for this edition; executed notebooks lie with those of the whole book."""
        return self.root / "_build" / "editions" / self._name


def elsewhere(repository: Repository, text: str, document: str) -> str:
    """The Markdown of a page, its links to chapters that an edition leaves out leading to the published book.

    `document` is the page's path in the repository. The whole book leaves nothing out.
    """
    left_out = repository.left_out if isinstance(repository, Edition) else ()
    base = str((repository.config.get("html") or {}).get("baseurl") or repository.url).rstrip("/")

    def target(path: str) -> str | None:
        name = normpath(PurePosixPath(document).parent / path)
        return f"{base}/{name}.html" if name in left_out else None

    def link(match: re.Match) -> str:
        found = target(match.group(1))
        return f"]({found}{match.group(2) or ''})" if found else match.group()

    def card(match: re.Match) -> str:
        found = target(match.group(1))
        return f":link: {found}\n:link-type: url" if found else match.group()

    return CARD.sub(card, LINK.sub(link, text)) if left_out else text


def _pruned(node: object, left_out: set[str]) -> object:
    """The contents without the documents that are left out, and without what then holds nothing."""
    if isinstance(node, dict):
        return {key: _pruned(value, left_out) for key, value in node.items()}
    if isinstance(node, list):
        kept = [one for one in node if not (isinstance(one, dict) and one.get("file", "").split(".")[0] in left_out)]
        return [_pruned(one, left_out) for one in kept]
    return node


def made_of(repository: Repository) -> str:
    """A hash of what a book is printed from: pages, press, executed notebooks, receipts, cards, modules."""
    root = repository.root
    folders = [root / "book", root / "data", root / "_build" / "receipts"]
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    paths += [root / "_config.yml", root / "_toc.yml", root / "helpers" / "show.py"]
    for chapter in repository.chapters:
        paths += [chapter.executed, chapter.run_record, chapter.card_path, *chapter.modules(proofs=True)]
    told = [(str(path.relative_to(root)), sha256(path.read_bytes())) for path in sorted(paths) if path.is_file()]
    return sha256(repr(told))


def is_current(repository: Repository) -> bool:
    """Whether the built book is what would be printed now."""
    return read_json(repository.build / "html.json") == {"made_of": made_of(repository)}


def note(repository: Repository) -> None:
    """Keep what the book that was just printed is made of."""
    write_json(repository.build / "html.json", {"made_of": made_of(repository)})
