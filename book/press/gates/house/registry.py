"""Gates on what is registered and pinned: data sets, packages, the release, and what live models run."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from ... import npm
from ...files import breaches
from ...print import live as packs
from ...repository import REGISTRY_COLUMNS, REQUIREMENT, Chapter, Repository, plain_name, read_yaml
from .. import gate
from ..python import argument, calls, literal_text, parse, trees

REGISTRY, CARDS, RUNTIMES = "data/registry.tsv", "data/README.md", "book/press/print/runtimes.tsv"
ROW = Path(__file__).with_name("row.schema.json")
FETCH = ("fetch", "data.fetch", "helpers.data.fetch")
ADDRESS = re.compile(r"""(?:https?:)?//(?!www\.w3\.org/)[a-z0-9-]+\.[a-z0-9.-]+|@import|importScripts""", re.IGNORECASE)
COMMENT = re.compile(r"/\*.*?\*/|(?<![:'\"`])//[^\n]*", re.DOTALL)


@gate
def data(repository: Repository) -> Iterator[tuple]:
    """Every data set used is in the registry, its row whole, its card written."""
    header = tuple(repository.text(REGISTRY).partition("\n")[0].rstrip("\r").split("\t"))
    if header != REGISTRY_COLUMNS:
        yield REGISTRY, f"the columns are {header}; they must be {REGISTRY_COLUMNS}", None, 1
        return
    seen = set()
    for line, row in enumerate(repository.registry, start=2):
        whole = None not in {*row, *row.values()}
        wrong = breaches(ROW, row, "") if whole else [f"the row has not {len(row)} fields, parted by tabs"]
        yield from ((REGISTRY, what, None, line) for what in wrong)
        name = f"{row['dataset']}/{row['file']}"
        if name in seen:
            yield REGISTRY, f"{name} stands there twice", None, line
        seen.add(name)
    bare = re.compile(r"[^a-z0-9]").sub  # CC-BY-4.0 is "CC BY 4.0" to a reader
    cards = re.split(r"^#+ ", repository.text(CARDS), flags=re.MULTILINE)
    for name, licence in sorted({(row["dataset"], row["licence"] or "") for row in repository.registry}):
        card = next((card for card in cards if re.match(rf".*(?<![\w-]){re.escape(name)}(?![\w-])", card)), None)
        said = re.search(r"^\| Licence \| (.*?)[ |]*$", card or "", re.MULTILINE)
        if card is None:
            yield CARDS, f"no heading names the data set {name}; each has its card there"
        elif not said or bare("", licence.partition(" ")[0].lower()) not in bare("", said[1].lower()):
            yield CARDS, f"{name}: the licence is {said[1] if said else 'not said'}; the registry says {licence}"
    for chapter in repository.chapters:
        yield from _used(repository, chapter)


def _used(repository: Repository, chapter: Chapter) -> Iterator[tuple]:
    places = {REGISTRY: {row["dataset"] for row in repository.registry}}
    places["the chapter's card"] = listed = set(chapter.card.get("data") or ())
    sources = [(chapter.notebook, cell.source) for cell in chapter.cells if cell.cell_type == "code"]
    sources += [(path, path.read_text(encoding="utf-8")) for path in chapter.modules(proofs=True)]
    found = [(path, *pair) for path, text in sources if "fetch" in text for pair in calls(parse(text), *FETCH)]
    fetched = [(path, literal_text(argument(call, 0, "dataset"))) for path, dotted, call in found if dotted in FETCH]
    for path, name in fetched:
        lacks = [place for place, names in places.items() if name not in names]
        if name is None:
            yield path, "fetch needs the data set's name as a literal text"
        elif lacks:
            yield path, f"fetches {name}, which is not in {' and not in '.join(lacks)}"
    for name in sorted(listed & places[REGISTRY] - {name for _, name in fetched}):
        yield chapter.card_path, f"data: {name} is listed and nothing fetches it"


@gate
def live(repository: Repository) -> Iterator[tuple]:
    """Live models have their script, style, pinned runtime and output; no other server."""
    for line, row in enumerate(npm.pinned().values(), start=2):
        known = tuple(row) == npm.COLUMNS
        wrong = breaches(ROW, row, "") if known else [f"each of {', '.join(npm.COLUMNS)} is needed"]
        yield from ((RUNTIMES, what, None, line) for what in wrong)
    for chapter in [chapter for chapter in repository.chapters if isinstance(chapter.card.get("live"), dict)]:
        yield from _live(chapter)


def _live(chapter: Chapter) -> Iterator[tuple]:
    card, where = chapter.card["live"], chapter.card_path
    if card.get("runtime") not in packs.runtimes():
        yield where, f"live.runtime: {card.get('runtime')!r}; pinned are {', '.join(packs.runtimes())}"
    for kind in ("script", "style"):
        path = chapter.home / str(card.get(kind))
        if not path.is_file():
            yield where, f"live.{kind}: {card.get(kind)!r} is no file of the chapter"
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        text = COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
        for found in ADDRESS.finditer(text):
            what = f"{found[0]!r}: a live model asks no other server; what it needs comes in its packs"
            yield path, what, None, text.count("\n", 0, found.start()) + 1
    if not any(getattr(node, "value", None) == packs.MIME for tree in trees(chapter) for node in ast.walk(tree)):
        yield where, f"live: neither a cell nor a module shows an output of the kind {packs.MIME!r}"


@gate
def pins(repository: Repository) -> Iterator[tuple]:
    """Cards pin what requirements.txt pins."""
    for chapter in repository.chapters:
        rows = repository.text(repository.relative(chapter.card_path)).splitlines()
        for kind in ("packages", "peers"):
            listed = chapter.card.get(kind)
            for requirement in map(str, listed if isinstance(listed, list) else ()):
                line, row = next(((line, row) for line, row in enumerate(rows, 1) if requirement in row), (None, ""))
                match = REQUIREMENT.match(requirement)  # the card's schema says that it does
                own = match and repository.pins.get(plain_name(match[1]), match[2])
                if match and match[2] != own and not (kind == "peers" and "  # " in row):
                    what = f"{kind}: {requirement}; requirements.txt pins {own}, which is allowed"
                    yield chapter.card_path, what, None, line


@gate
def release(repository: Repository) -> Iterator[tuple]:
    """The version stands in helpers/__init__.py, and nothing contradicts it."""
    version, citation = repository.version, repository.root / "CITATION.cff"
    cited = (read_yaml(citation) or {}).get("version") if citation.is_file() else version
    if str(cited) != version:
        yield citation, f"version: {cited}; helpers/__init__.py says {version}"
    if "release" in (repository.config.get("rebuilt") or {}):
        yield "_config.yml", f"rebuilt.release is written; it is derived, and is v{version}"
    for line, row in enumerate(repository.text("pyproject.toml").splitlines(), start=1):
        if re.match(r"version\s*=\s*[\"']", row):
            yield "pyproject.toml", f"{row}: it is read from helpers, as `dynamic` says", None, line
