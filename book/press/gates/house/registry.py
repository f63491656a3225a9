"""The gate on data: what is used is registered, what is registered is whole and explained."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from ...repository import REGISTRY_COLUMNS, Chapter, Repository
from .. import Problem, gate
from ..python import argument, calls, literal_text, parse

REGISTRY, CARDS = "data/registry.tsv", "data/README.md"


@gate(
    "data",
    "every data set used is in the registry, its row whole, its card written",
    why="a file that is not registered is not verified, and nobody knows its licence",
    mend=f"add the rows to {REGISTRY}, a card to {CARDS}, and the name to the chapter's card",
)
def data(repository: Repository) -> Iterator[Problem]:
    """Rows that are wrong, data sets without a card, and fetches of what nobody registered."""
    header = _header(repository)
    if header != REGISTRY_COLUMNS:
        yield Problem(REGISTRY, f"the columns are {header}; they must be {REGISTRY_COLUMNS}", line=1)
        return
    seen: set[tuple] = set()
    for line, row in enumerate(repository.registry, start=2):
        yield from (Problem(REGISTRY, what, line=line) for what in row_problems(row))
        name = (row.get("dataset"), row.get("file"))
        if name in seen:
            yield Problem(REGISTRY, f"{name[0]}/{name[1]} stands there twice", line=line)
        seen.add(name)
    yield from _cards(repository)
    for chapter in repository.chapters:
        yield from _used(repository, chapter)


def _header(repository: Repository) -> tuple:
    path = repository.root / REGISTRY
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return tuple(text.split("\n", 1)[0].rstrip("\r").split("\t"))


def row_problems(row: dict) -> Iterator[str]:
    """What is wrong with one row of a registry."""
    if None in row or None in row.values():
        yield f"the row has not {len(REGISTRY_COLUMNS)} fields, parted by tabs"
        return
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", row["dataset"]):
        yield f"dataset {row['dataset']!r}: lower-case letters, digits, _ and - are allowed"
    if not safe_name(row["file"]):
        yield f"file {row['file']!r}: a relative path inside the data set's folder is allowed"
    if not re.fullmatch(r"[0-9a-f]{64}", row["sha256"]):
        yield f"sha256 {row['sha256']!r}: 64 hexadecimal digits in lower case are allowed"
    if not re.fullmatch(r"[1-9]\d*", row["bytes"]):
        yield f"bytes {row['bytes']!r}: a whole number above zero is allowed"
    address = urlsplit(row["url"])
    if address.scheme not in ("http", "https") or not address.netloc or re.search(r"\s", row["url"]):
        yield f"url {row['url']!r}: an http or https address is allowed"
    for name in ("licence", "citation", "used_for"):
        if not row[name].strip():
            yield f"{name} is empty; say at least that it is unknown"


def safe_name(name: str) -> bool:
    """Whether a file name stays inside its folder on every system."""
    path = PurePosixPath(name)
    odd = not name or path.is_absolute() or "\\" in name or ":" in name or not name.isprintable()
    return not odd and path.as_posix() == name and not {".", ".."} & set(path.parts)


def _cards(repository: Repository) -> Iterator[Problem]:
    path = repository.root / CARDS
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    titles = " ".join(re.findall(r"^#+ (.*)$", text, re.MULTILINE))
    for name in sorted({row["dataset"] for row in repository.registry if row.get("dataset")}):
        if not re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", titles):
            yield Problem(CARDS, f"no heading names the data set {name}; each has its card there")


def _used(repository: Repository, chapter: Chapter) -> Iterator[Problem]:
    known = {row["dataset"] for row in repository.registry if row.get("dataset")}
    listed = set(chapter.card.get("data") or []) if chapter.card_path.exists() else set()
    sources = [(chapter.notebook, cell.source) for cell in chapter.cells if cell.cell_type == "code"]
    sources += [(path, path.read_text(encoding="utf-8")) for path in chapter.modules(proofs=True)]
    fetched = set()
    for path, tree in [(path, parse(text)) for path, text in sources if "fetch" in text]:
        for dotted, call in calls(tree, "fetch"):
            if dotted not in ("fetch", "data.fetch", "helpers.data.fetch"):
                continue
            name = literal_text(argument(call, 0, "dataset"))
            fetched.add(name)
            if name is None:
                yield Problem(repository.relative(path), "fetch needs the data set's name as a literal text")
            elif name not in known or name not in listed:
                lacks = [
                    place for place, names in ((REGISTRY, known), ("the chapter's card", listed)) if name not in names
                ]
                yield Problem(
                    repository.relative(path), f"fetches {name}, which is not in {' and not in '.join(lacks)}"
                )
    for name in sorted(listed & known - fetched):
        yield Problem(repository.relative(chapter.card_path), f"data: {name} is listed and nothing fetches it")
