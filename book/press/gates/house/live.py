"""The gate on live models: what a card promises is there, its runtime is pinned, and it asks no other server."""

import ast
import re
from collections.abc import Iterator

from ... import npm
from ...print import live as packs
from ...repository import Chapter, Repository
from .. import Problem, gate
from ..python import parse, parse_file

RUNTIMES = "book/press/print/runtimes.tsv"
ADDRESS = re.compile(r"""(?:https?:)?//(?!www\.w3\.org/)[a-z0-9-]+\.[a-z0-9.-]+|@import|importScripts""", re.IGNORECASE)
COMMENT = re.compile(r"/\*.*?\*/|(?<![:'\"`])//[^\n]*", re.DOTALL)


@gate(
    "live",
    "live models have their script, style, pinned runtime and output; no other server",
    why="a page must work from a folder with no network, and run only what was checked by its hash",
    mend=f"correct the card's `live`, the slice's script, or {RUNTIMES}",
)
def live(repository: Repository) -> Iterator[Problem]:
    """What is wrong with the pinned runtimes, and with the live model of each card."""
    for line, row in enumerate(npm.pinned().values(), start=2):
        if tuple(row) != npm.COLUMNS or not all(row.values()):
            yield Problem(RUNTIMES, f"each of {', '.join(npm.COLUMNS)} is needed", line=line)
        elif not re.fullmatch("[0-9a-f]{64}", row["sha256"]):
            yield Problem(RUNTIMES, f"sha256 {row['sha256']!r}: 64 hexadecimal digits are allowed", line=line)
    for chapter in repository.chapters:
        if chapter.card_path.exists() and isinstance(chapter.card.get("live"), dict):
            yield from _chapter(repository, chapter)


def _chapter(repository: Repository, chapter: Chapter) -> Iterator[Problem]:
    card, where = chapter.card["live"], repository.relative(chapter.card_path)
    if card.get("runtime") not in packs.runtimes():
        yield Problem(where, f"live.runtime: {card.get('runtime')!r}; pinned are {', '.join(packs.runtimes())}")
    for kind in ("script", "style"):
        path = chapter.home / str(card.get(kind))
        if not path.is_file():
            yield Problem(where, f"live.{kind}: {card.get(kind)!r} is no file of the slice")
            continue
        for line, text in enumerate(COMMENT.sub(_blank, path.read_text(encoding="utf-8")).splitlines(), start=1):
            found = ADDRESS.search(text)
            if found:
                told = f"{found.group()!r}: a live model asks no other server; what it needs comes in its packs"
                yield Problem(repository.relative(path), told, line=line)
    trees = [parse(cell.source) for cell in chapter.cells if cell.cell_type == "code"]
    trees += [parse_file(path) for path in chapter.modules()]
    texts = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    if packs.MIME not in texts:
        yield Problem(where, f"live: neither a cell nor a module shows an output of the kind {packs.MIME!r}")


def _blank(match: re.Match) -> str:
    return "\n" * match.group().count("\n")
