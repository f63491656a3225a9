"""The gate on links: what a page points at inside the book is there."""

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote

from ...repository import Repository
from .. import Problem, gate, markdown

ROLE = re.compile(r"doc|ref|numref|download|cite(:[a-z]+)?")
MADE_BY_SPHINX = {"genindex.html", "search.html"}
OTHER_PAGES = ("README.md", "CONTRIBUTING.md", "data/README.md")


@gate(
    "links",
    "links inside the book resolve, and the table of contents is complete",
    why="a dead link costs a reader more than it cost the author",
    mend="correct the path or the anchor; put the page into _toc.yml",
)
def links(repository: Repository) -> Iterator[Problem]:
    """Targets, anchors, roles and contents entries that lead nowhere."""
    book = _Book(repository)
    yield from _contents(repository)
    for path, cell, text in book.texts:
        where = repository.relative(path)
        for line, target in markdown.links(text):
            problem = book.problem(path, target)
            if problem:
                yield Problem(where, f"{target!r}: {problem}", cell, line)
        for line, role, content in markdown.roles(text):
            problem = book.role_problem(path, role, content) if ROLE.fullmatch(role) else None
            if problem:
                yield Problem(where, f"{{{role}}}`{content}`: {problem}", cell, line)


def _contents(repository: Repository) -> Iterator[Problem]:
    entries = repository.toc_files
    for name in entries:
        if not any((repository.root / f"{name}{suffix}").exists() for suffix in (".md", ".ipynb")):
            yield Problem("_toc.yml", f"names {name}, which is no page")
    for name in sorted({name for name in entries if entries.count(name) > 1}):
        yield Problem("_toc.yml", f"names {name} twice")
    for document in [chapter.document for chapter in repository.chapters]:
        if document not in entries:
            yield Problem("_toc.yml", f"lacks the chapter {document}")
    for page in repository.pages:
        if repository.relative(page).removesuffix(".md") not in entries:
            yield Problem("_toc.yml", f"lacks the page {repository.relative(page)}")


class _Book:
    """The texts of all pages, and what can be linked to in them."""

    def __init__(self, repository: Repository):
        self.repository = repository
        paths = [*repository.pages, *(repository.root / name for name in OTHER_PAGES)]
        self.texts = [(path, None, path.read_text(encoding="utf-8")) for path in paths if path.exists()]
        for chapter in repository.chapters:
            for index, cell in enumerate(chapter.cells):
                self.texts += [(chapter.notebook, index, cell.source)] if cell.cell_type == "markdown" else []
        self.anchors: dict[Path, set[str]] = {}
        for path, _, text in self.texts:
            self.anchors.setdefault(path, set()).update(markdown.anchors(text))

    @cached_property
    def labels(self) -> set[str]:
        """Every label of every page."""
        return {name for names in self.anchors.values() for name in names}

    def problem(self, page: Path, target: str) -> str | None:
        """Why the link target leads nowhere; None when it leads somewhere, or out of the book."""
        if re.match(r"[a-z][a-z0-9+.-]*:|//", target, re.IGNORECASE) or target in MADE_BY_SPHINX:
            return None
        name, _, anchor = unquote(target).partition("#")
        path = self._file(page, name) if name else page
        if path is None:
            return None if name in self.labels and not anchor else "there is no such file or label"
        if anchor and anchor not in self.anchors.get(path, {anchor}):
            own = not name and anchor in self.labels  # MyST finds a label on any page
            return None if own else f"{self.repository.relative(path)} has no such heading or label"
        return None

    def _file(self, page: Path, name: str) -> Path | None:
        base = self.repository.root / name.lstrip("/") if name.startswith("/") else page.parent / name
        for suffix in ("", ".md", ".ipynb"):
            path = Path(f"{base}{suffix}")
            if name and path.exists() and path.resolve().is_relative_to(self.repository.root):
                return path.resolve()
        return None

    def role_problem(self, page: Path, role: str, content: str) -> str | None:
        """Why a `{doc}`, `{ref}`, `{download}` or `{cite}` leads nowhere; None when it does not."""
        inside = re.search(r"<([^>]+)>\s*$", content)
        target = (inside.group(1) if inside else content).strip()
        if role.startswith("cite"):
            lacking = [key.strip() for key in target.split(",") if key.strip() not in self.repository.references]
            return f"{', '.join(lacking)} is not in book/references.bib" if lacking else None
        if role in ("ref", "numref"):
            return None if target in self.labels | {"genindex", "search"} else "no page has this label"
        return None if self._file(page, target) else "there is no such file"
