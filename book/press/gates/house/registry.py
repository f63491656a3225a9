"""The gate on data: what is used is registered, what is registered is whole and explained."""

import re
from collections.abc import Iterator

from ...repository import REGISTRY_COLUMNS, Chapter, Repository
from .. import gate
from ..python import argument, calls, literal_text, parse

REGISTRY, CARDS = "data/registry.tsv", "data/README.md"
FIELDS = {
    "dataset": (r"[a-z0-9][a-z0-9_-]*", "lower-case letters, digits, _ and - are allowed"),
    "sha256": (r"[0-9a-f]{64}", "64 hexadecimal digits in lower case are allowed"),
    "bytes": (r"[1-9]\d*", "a whole number above zero is allowed"),
    "url": (r"https?://[^\s/]\S*", "an http or https address is allowed"),
}
FIELDS |= dict.fromkeys(
    ("licence", "citation", "used_for"), (r".*\S.*", "a text is needed, if only that it is unknown")
)


@gate
def data(repository: Repository) -> Iterator[tuple]:
    """Every data set used is in the registry, its row whole, its card written."""
    header = tuple(_text(repository, REGISTRY).partition("\n")[0].rstrip("\r").split("\t"))
    if header != REGISTRY_COLUMNS:
        yield REGISTRY, f"the columns are {header}; they must be {REGISTRY_COLUMNS}", None, 1
        return
    seen = set()
    for line, row in enumerate(repository.registry, start=2):
        yield from ((REGISTRY, what, None, line) for what in row_problems(row))
        name = f"{row['dataset']}/{row['file']}"
        if name in seen:
            yield REGISTRY, f"{name} stands there twice", None, line
        seen.add(name)
    yield from _described(repository)
    for chapter in repository.chapters:
        yield from _used(repository, chapter)


def _text(repository: Repository, name: str) -> str:
    path = repository.root / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


def row_problems(row: dict) -> Iterator[str]:
    """What is wrong with one row of a registry."""
    if None in row or None in row.values():
        yield f"the row has not {len(REGISTRY_COLUMNS)} fields, parted by tabs"
        return
    for name, (pattern, allowed) in FIELDS.items():
        if not re.fullmatch(pattern, row[name]):
            yield f"{name} {row[name]!r}: {allowed}"
    if not safe_name(row["file"]):
        yield f"file {row['file']!r}: a relative path inside the data set's folder is allowed"


def safe_name(name: str) -> bool:
    """Whether a file name stays inside its folder on every system: no empty part, no `.` or `..`, no drive."""
    return name.isprintable() and not re.search(r"[\\:]|(^|/)\.{0,2}(/|$)", name)


def _described(repository: Repository) -> Iterator[tuple]:
    """Data sets without a card, or whose card names another licence than the registry."""
    cards = re.split(r"^#+ ", _text(repository, CARDS), flags=re.MULTILINE)
    for name, licence in sorted(
        {(row["dataset"], row["licence"] or "") for row in repository.registry if row["dataset"]}
    ):
        named = re.compile(rf".*(?<![\w-]){re.escape(name)}(?![\w-])")
        card = next((card for card in cards if named.match(card)), None)
        said = re.search(r"^\| Licence \| (.*)", card or "", re.MULTILINE)
        if card is None:
            yield CARDS, f"no heading names the data set {name}; each has its card there"
        elif not said or _squeezed(licence.partition(" ")[0]) not in _squeezed(said[1]):
            told = said[1].rstrip(" |") if said else "not said"
            yield CARDS, f"{name}: the licence is {told}; the registry says {licence}"


def _squeezed(licence: str) -> str:
    """Letters and digits alone: CC-BY-4.0 is "CC BY 4.0" to a reader."""
    return re.sub(r"[^a-z0-9]", "", licence.lower())


def _used(repository: Repository, chapter: Chapter) -> Iterator[tuple]:
    known, listed = {row["dataset"] for row in repository.registry}, set(chapter.card.get("data") or ())
    sources = [(chapter.notebook, cell.source) for cell in chapter.cells if cell.cell_type == "code"]
    sources += [(path, path.read_text(encoding="utf-8")) for path in chapter.modules(proofs=True)]
    fetched = set()
    for path, tree in [(path, parse(text)) for path, text in sources if "fetch" in text]:
        found = [
            call for dotted, call in calls(tree, "fetch") if dotted in ("fetch", "data.fetch", "helpers.data.fetch")
        ]
        for name in [literal_text(argument(call, 0, "dataset")) for call in found]:
            fetched.add(name)
            places = {REGISTRY: known, "the chapter's card": listed}
            lacks = [place for place, names in places.items() if name not in names]
            if name is None:
                yield path, "fetch needs the data set's name as a literal text"
            elif lacks:
                yield path, f"fetches {name}, which is not in {' and not in '.join(lacks)}"
    for name in sorted(listed & known - fetched):
        yield chapter.card_path, f"data: {name} is listed and nothing fetches it"
