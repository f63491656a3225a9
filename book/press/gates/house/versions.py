"""Gates on versions: each stands in one place, and what repeats it says the same; live models run what is pinned."""

import ast
import re
from collections.abc import Iterator

from ... import npm
from ...print import live as packs
from ...repository import REQUIREMENT, Chapter, Repository, plain_name, read_yaml
from .. import gate
from ..python import trees

RUNTIMES = "book/press/print/runtimes.tsv"
ADDRESS = re.compile(r"""(?:https?:)?//(?!www\.w3\.org/)[a-z0-9-]+\.[a-z0-9.-]+|@import|importScripts""", re.IGNORECASE)
COMMENT = re.compile(r"/\*.*?\*/|(?<![:'\"`])//[^\n]*", re.DOTALL)


@gate
def live(repository: Repository) -> Iterator[tuple]:
    """Live models have their script, style, pinned runtime and output; no other server."""
    for line, row in enumerate(npm.pinned().values(), start=2):
        if tuple(row) != npm.COLUMNS or not all(row.values()):
            yield RUNTIMES, f"each of {', '.join(npm.COLUMNS)} is needed", None, line
        elif not re.fullmatch("[0-9a-f]{64}", row["sha256"]):
            yield RUNTIMES, f"sha256 {row['sha256']!r}: 64 hexadecimal digits are allowed", None, line
    for chapter in [chapter for chapter in repository.chapters if isinstance(chapter.card.get("live"), dict)]:
        yield from _live(chapter)


def _live(chapter: Chapter) -> Iterator[tuple]:
    card, where = chapter.card["live"], chapter.card_path
    if card.get("runtime") not in packs.runtimes():
        yield where, f"live.runtime: {card.get('runtime')!r}; pinned are {', '.join(packs.runtimes())}"
    for kind in ("script", "style"):
        path = chapter.home / str(card.get(kind))
        if not path.is_file():
            yield where, f"live.{kind}: {card.get(kind)!r} is no file of the slice"
            continue
        text = COMMENT.sub(lambda match: "\n" * match[0].count("\n"), path.read_text(encoding="utf-8"))
        for line, found in [(line, ADDRESS.search(row)) for line, row in enumerate(text.splitlines(), start=1)]:
            if found:
                what = f"{found[0]!r}: a live model asks no other server; what it needs comes in its packs"
                yield path, what, None, line
    if not any(getattr(node, "value", None) == packs.MIME for tree in trees(chapter) for node in ast.walk(tree)):
        yield where, f"live: neither a cell nor a module shows an output of the kind {packs.MIME!r}"


@gate
def pins(repository: Repository) -> Iterator[tuple]:
    """Cards pin what requirements.txt pins."""
    for chapter in repository.chapters:
        required = [(kind, one) for kind in ("packages", "peers") for one in chapter.card.get(kind) or ()]
        rows = chapter.card_path.read_text(encoding="utf-8").splitlines() if required else []
        for kind, requirement in required:
            where, match = chapter.card_path, REQUIREMENT.match(str(requirement))
            line, row = next(((line, row) for line, row in enumerate(rows, 1) if str(requirement) in row), (None, ""))
            own = match and repository.pins.get(plain_name(match[1]), match[2])
            if not match:
                yield where, f"{kind}: {requirement!r} has no exact version; `name==1.0` is allowed", None, line
            elif match[2] != own and not (kind == "peers" and "  # " in row):
                yield where, f"{kind}: {requirement}; requirements.txt pins {own}, which is allowed", None, line


@gate
def release(repository: Repository) -> Iterator[tuple]:
    """The version stands in helpers/__init__.py, and nothing contradicts it."""
    version = repository.version
    citation = repository.root / "CITATION.cff"
    cited = (read_yaml(citation) or {}).get("version") if citation.is_file() else version
    if str(cited) != version:
        yield citation, f"version: {cited}; helpers/__init__.py says {version}"
    if "release" in (repository.config.get("rebuilt") or {}):
        yield "_config.yml", f"rebuilt.release is written; it is derived, and is v{version}"
    project = repository.root / "pyproject.toml"
    for line, row in enumerate(project.read_text(encoding="utf-8").splitlines() if project.is_file() else (), start=1):
        if re.match(r"version\s*=\s*[\"']", row):
            yield project, f"{row}: it is read from helpers, as `dynamic` says", None, line
