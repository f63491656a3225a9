"""Gates on versions: each stands in one place, and what repeats it says the same."""

import re
from collections.abc import Iterator

from ...repository import REQUIREMENT, Chapter, Repository, plain_name, read_yaml
from .. import Problem, gate


@gate(
    "pins",
    "cards pin what requirements.txt pins",
    why="a chapter that ran here with one version and in Colab or in a race with another has not been tried there",
    mend="requirements.txt is right: write its version into the card; a pin of `peers` is exact, `name==1.0`, "
    "and another version than the book's says why: `- numpy==1.26.4  # what needs it`",
)
def pins(repository: Repository) -> Iterator[Problem]:
    """Requirements of a card's `packages` and `peers` without an exact version, or with another than the book's."""
    for chapter in repository.chapters:
        rows = chapter.card_path.read_text(encoding="utf-8").splitlines() if chapter.card_path.exists() else []
        for kind, requirement in _required(chapter) if rows else ():
            line = next((number for number, row in enumerate(rows, 1) if requirement in row), None)
            where, match = repository.relative(chapter.card_path), REQUIREMENT.match(requirement)
            own = match and repository.pins.get(plain_name(match.group(1)), match.group(2))
            if not match:
                yield Problem(where, f"{kind}: {requirement!r} has no exact version; `name==1.0` is allowed", line=line)
            elif match.group(2) != own and not (kind == "peers" and line and "  # " in rows[line - 1]):
                yield Problem(where, f"{kind}: {requirement}; requirements.txt pins {own}, which is allowed", line=line)


def _required(chapter: Chapter) -> Iterator[tuple[str, str]]:
    for kind in ("packages", "peers"):
        listed = chapter.card.get(kind)
        yield from ((kind, each) for each in listed or [] if isinstance(listed, list) and isinstance(each, str))


@gate(
    "release",
    "the version stands in helpers/__init__.py, and nothing contradicts it",
    why="buttons, setup cells, receipts and citations have to name one release",
    mend="`__version__` in helpers/__init__.py is right; CITATION.cff repeats it, nothing else does",
)
def release(repository: Repository) -> Iterator[Problem]:
    """Versions that contradict `__version__`, or repeat it where it is derived."""
    version = repository.version
    citation = repository.root / "CITATION.cff"
    cited = (read_yaml(citation) or {}).get("version") if citation.is_file() else version
    if str(cited) != version:
        yield Problem("CITATION.cff", f"version: {cited}; helpers/__init__.py says {version}")
    if "release" in (repository.config.get("rebuilt") or {}):
        yield Problem("_config.yml", f"rebuilt.release is written; it is derived, and is v{version}")
    project = repository.root / "pyproject.toml"
    text = project.read_text(encoding="utf-8") if project.is_file() else ""
    for match in re.finditer(r"^version\s*=\s*[\"'].*", text, re.MULTILINE):
        line = text.count("\n", 0, match.start()) + 1
        yield Problem("pyproject.toml", f"{match.group()}: it is read from helpers, as `dynamic` says", line=line)
