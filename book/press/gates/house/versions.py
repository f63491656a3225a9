"""Gates on versions: each stands in one place, and what repeats it says the same; live models run what is pinned."""

import ast
import re
from collections.abc import Iterator

from ... import npm
from ...print import live as packs
from ...repository import REQUIREMENT, Chapter, Repository, plain_name, read_yaml
from .. import Problem, gate
from ..python import trees

RUNTIMES = "book/press/print/runtimes.tsv"
ADDRESS = re.compile(r"""(?:https?:)?//(?!www\.w3\.org/)[a-z0-9-]+\.[a-z0-9.-]+|@import|importScripts""", re.IGNORECASE)
COMMENT = re.compile(r"/\*.*?\*/|(?<![:'\"`])//[^\n]*", re.DOTALL)


@gate
def live(repository: Repository) -> Iterator[Problem]:
    """Live models have their script, style, pinned runtime and output; no other server.

    Why: a page must work from a folder with no network, and run only what was checked by its hash.
    Mend: correct the card's `live`, the slice's script, or {RUNTIMES}.
    """
    for line, row in enumerate(npm.pinned().values(), start=2):
        if tuple(row) != npm.COLUMNS or not all(row.values()):
            yield Problem(RUNTIMES, f"each of {', '.join(npm.COLUMNS)} is needed", line=line)
        elif not re.fullmatch("[0-9a-f]{64}", row["sha256"]):
            yield Problem(RUNTIMES, f"sha256 {row['sha256']!r}: 64 hexadecimal digits are allowed", line=line)
    for chapter in [chapter for chapter in repository.chapters if isinstance(chapter.card.get("live"), dict)]:
        yield from _live(chapter)


def _live(chapter: Chapter) -> Iterator[Problem]:
    card, where = chapter.card["live"], chapter.card_path
    if card.get("runtime") not in packs.runtimes():
        yield Problem(where, f"live.runtime: {card.get('runtime')!r}; pinned are {', '.join(packs.runtimes())}")
    for kind in ("script", "style"):
        path = chapter.home / str(card.get(kind))
        if not path.is_file():
            yield Problem(where, f"live.{kind}: {card.get(kind)!r} is no file of the slice")
            continue
        text = COMMENT.sub(lambda match: "\n" * match[0].count("\n"), path.read_text(encoding="utf-8"))
        for line, found in [(line, ADDRESS.search(row)) for line, row in enumerate(text.splitlines(), start=1)]:
            if found:
                what = f"{found[0]!r}: a live model asks no other server; what it needs comes in its packs"
                yield Problem(path, what, line=line)
    if not any(getattr(node, "value", None) == packs.MIME for tree in trees(chapter) for node in ast.walk(tree)):
        yield Problem(where, f"live: neither a cell nor a module shows an output of the kind {packs.MIME!r}")


@gate
def pins(repository: Repository) -> Iterator[Problem]:
    """Cards pin what requirements.txt pins.

    Why: a chapter that ran here with one version and in Colab or in a race with another has not been tried there.
    Mend: requirements.txt is right: write its version into the card; a pin of `peers` is exact, `name==1.0`, and
    another version than the book's says why in a comment, two spaces behind it.
    """
    for chapter in repository.chapters:
        required = [(kind, one) for kind in ("packages", "peers") for one in chapter.card.get(kind) or ()]
        rows = chapter.card_path.read_text(encoding="utf-8").splitlines() if required else []
        for kind, requirement in required:
            where, match = chapter.card_path, REQUIREMENT.match(str(requirement))
            line, row = next(((line, row) for line, row in enumerate(rows, 1) if str(requirement) in row), (None, ""))
            own = match and repository.pins.get(plain_name(match[1]), match[2])
            if not match:
                yield Problem(where, f"{kind}: {requirement!r} has no exact version; `name==1.0` is allowed", line=line)
            elif match[2] != own and not (kind == "peers" and "  # " in row):
                yield Problem(where, f"{kind}: {requirement}; requirements.txt pins {own}, which is allowed", line=line)


@gate
def release(repository: Repository) -> Iterator[Problem]:
    """The version stands in helpers/__init__.py, and nothing contradicts it.

    Why: buttons, setup cells, receipts and citations have to name one release.
    Mend: `__version__` in helpers/__init__.py is right; CITATION.cff repeats it, nothing else does.
    """
    version = repository.version
    citation = repository.root / "CITATION.cff"
    cited = (read_yaml(citation) or {}).get("version") if citation.is_file() else version
    if str(cited) != version:
        yield Problem(citation, f"version: {cited}; helpers/__init__.py says {version}")
    if "release" in (repository.config.get("rebuilt") or {}):
        yield Problem("_config.yml", f"rebuilt.release is written; it is derived, and is v{version}")
    project = repository.root / "pyproject.toml"
    for line, row in enumerate(project.read_text(encoding="utf-8").splitlines() if project.is_file() else (), start=1):
        if re.match(r"version\s*=\s*[\"']", row):
            yield Problem(project, f"{row}: it is read from helpers, as `dynamic` says", line=line)
