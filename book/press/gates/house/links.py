"""The gate on links: what a page points at inside the book is there."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from ...repository import Repository
from .. import cells, gate, markdown

ROLE = re.compile(r"doc|ref|numref|download|cite(:[a-z]+)?")
MADE_BY_SPHINX = {"genindex", "search", "genindex.html", "search.html"}
OTHER_PAGES = ("README.md", "CONTRIBUTING.md", "data/README.md")


@gate
def links(repository: Repository) -> Iterator[tuple]:
    """Links inside the book resolve, and the table of contents is complete."""
    book = _Book(repository)
    entries = repository.toc_files
    for name in entries:
        if not any((repository.root / f"{name}{suffix}").exists() for suffix in (".md", ".ipynb")):
            yield "_toc.yml", f"names {name}, which is no page"
    yield from (("_toc.yml", f"names {name} twice") for name, many in Counter(entries).items() if many > 1)
    there = {f"the chapter {one.document}": one.document for one in repository.chapters}
    there |= {f"the page {repository.relative(page)}": f"book/{page.stem}" for page in repository.pages}
    yield from (("_toc.yml", f"lacks {what}") for what, name in there.items() if name not in entries)
    for path, cell, text in book.texts:
        found = [(line, repr(target), book.problem(path, target)) for line, target in markdown.links(text)]
        roles = markdown.roles(text)
        found += [(line, f"{{{role}}}`{to}`", book.role_problem(path, role, to)) for line, role, to in roles]
        yield from ((path, f"{what}: {wrong}", cell, line) for line, what, wrong in found if wrong)


class _Book:
    """The texts of all pages, and what can be linked to in them."""

    def __init__(self, repository: Repository):
        self.repository = repository
        paths = [*repository.pages, *(repository.root / name for name in OTHER_PAGES)]
        self.texts = [(path, None, path.read_text(encoding="utf-8")) for path in paths if path.exists()]
        found = cells(repository, "markdown")
        self.texts += [(chapter.notebook, index, cell.source) for chapter, index, cell in found]
        self.anchors: dict[Path, set[str]] = {}
        for path, _, text in self.texts:
            self.anchors.setdefault(path, set()).update(markdown.anchors(text))
        self.labels = set().union(*self.anchors.values())

    def problem(self, page: Path, target: str) -> str | None:
        """Why the link target leads nowhere; None when it leads somewhere, or out of the book."""
        if re.match(r"[a-z][a-z0-9+.-]*:|//", target, re.IGNORECASE) or target in MADE_BY_SPHINX:
            return None
        name, _, anchor = unquote(target).partition("#")
        path = self._file(page, name) if name else page
        if path is None:
            return None if name in self.labels and not anchor else "there is no such file or label"
        known = self.anchors.get(path, {anchor}) | {"", *(() if name else self.labels)}  # MyST finds labels on any page
        return None if anchor in known else f"{self.repository.relative(path)} has no such heading or label"

    def _file(self, page: Path, name: str) -> Path | None:
        base = self.repository.root / name.lstrip("/") if name.startswith("/") else page.parent / name
        paths = [Path(f"{base}{suffix}").resolve() for suffix in ("", ".md", ".ipynb")]
        return next((path for path in paths if path.exists() and path.is_relative_to(self.repository.root)), None)

    def role_problem(self, page: Path, role: str, content: str) -> str | None:
        """Why a `{doc}`, `{ref}`, `{download}` or `{cite}` leads nowhere; None when it does not."""
        if not ROLE.fullmatch(role):
            return None
        inside = re.search(r"<([^>]+)>\s*$", content)
        target = (inside[1] if inside else content).strip()
        if role.startswith("cite"):
            lacking = {key.strip() for key in target.split(",")} - self.repository.references.keys()
            return f"{', '.join(sorted(lacking))} is not in book/references.bib" if lacking else None
        if role in ("ref", "numref"):
            return None if target in self.labels | MADE_BY_SPHINX else "no page has this label"
        return None if target and self._file(page, target) else "there is no such file"
