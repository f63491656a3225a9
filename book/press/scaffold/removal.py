"""`press remove`: a chapter, or one notebook of it, with what the book keeps of it; what still speaks of it is told."""

import re
from collections.abc import Iterator
from pathlib import Path

from ..errors import PressError, git
from ..files import remove, write_text
from ..predict.counting import path_of, source_of
from ..repository import REQUIREMENT, Chapter, Repository, plain_name, read_notebook
from ..reuse.packages import imported, providers
from .new import landing

CODE = ("book", "helpers", "notebooks", "rehearsal")
WIDTH = 150  # of a line that is shown


def remove_chapter(repository: Repository, name: str, force: bool = False) -> Iterator[str]:
    """What is removed for PART/CHAPTER or PART/CHAPTER/NOTEBOOK, then what remains and speaks of it, a line each.
    PressError for a name that is none and, without `force`, where git lacks something of what would go."""
    gone = [one for one in repository.chapters if name in (one.name, f"{one.part}/{one.folder}")]
    left = [one for one in repository.chapters if one not in gone]
    if not gone:
        raise PressError(f"{name!r} is no chapter and no notebook; there are: {', '.join(one.name for one in left)}")
    whole = gone[0].home not in {one.home for one in left}
    paths = [gone[0].home] if whole else [gone[0].notebook, gone[0].card_path, source_of(gone[0])]
    paths += [path for one in gone for path in (repository.root / "data" / "receipts" / one.stem, path_of(one))]
    paths = [path for path in paths if path and path.exists()]
    lost = git(repository.root, "status", "--porcelain", "--", *map(repository.relative, paths))
    if not force and lost != "":
        told = "not all of it is committed; `--force` removes all the same what would be lost"
        raise PressError(f"{told}:\n{lost.rstrip() if lost else 'this is not a git repository'}")
    data = {one for chapter in gone for one in chapter.card.get("data") or []}
    data -= {one for chapter in left for one in chapter.card.get("data") or []}
    words, alone = _words(gone, data, whole), _alone(repository, paths)
    for path in paths:
        remove(path)
        yield f"removed {repository.relative(path)}"
    entries = {"_toc.yml": (r"[ \t]*- file: ({})(\.ipynb)?[ \t]*\n", [one.document for one in gone])}
    entries["data/receipts/stale.yml"] = (r"({})/.+:\n(?:[ \t].*\n)*", [one.stem for one in gone])
    entries["data/registry.tsv"] = (r"({})\t.*\n", sorted(data))
    for name, (pattern, which) in entries.items():
        entry = rf"^{pattern.format('|'.join(which))}" if which else r"(?!)"
        text, many = re.subn(entry, "", repository.text(name), flags=re.MULTILINE)
        if many:
            write_text(repository.root / name, text)
            yield f"removed {many} entr{'y' if many == 1 else 'ies'} of {name}"
    for number, row in enumerate(repository.text("requirements.txt").splitlines(), start=1):
        match = REQUIREMENT.match(row.strip())
        if match and plain_name(match.group(1)) in alone:
            yield f"remains requirements.txt:{number}: {match.group()}, which nothing else imports"
    if gone[0].part not in {one.part for one in left}:
        yield f"remains {landing(gone[0].part)}.md, and its entry in _toc.yml: a part without a chapter"
    found = git(repository.root, "grep", "--no-index", "--exclude-standard", "-nIE", words, "--", ".") or ""
    yield from (f"remains {line[:WIDTH]}" for line in found.splitlines())


def _alone(repository: Repository, paths: list[Path]) -> set[str]:
    """The packages that code at these paths imports and no other code of the repository."""
    here, elsewhere = set(), set()
    for path in sorted(path for folder in CODE for path in (repository.root / folder).rglob("*.*")):
        names = here if any(path.is_relative_to(one) for one in paths) else elsewhere
        if path.suffix == ".py":
            names |= imported(path.read_text(encoding="utf-8"))
        elif path.suffix == ".ipynb":
            names.update(*(imported(one.source) for one in read_notebook(path).cells if one.cell_type == "code"))
    tops = {name.partition(".")[0] for name in here} - {name.partition(".")[0] for name in elsewhere}
    return {package for top in tops for package in providers(top)}


def _words(gone: list[Chapter], data: set[str], whole: bool) -> str:
    """The expression of git that finds what speaks of these notebooks, their article and their data."""
    found = [f"{one.part}/{one.folder}{'' if whole else f'/{one.stem}'}([^a-z0-9_]|$)" for one in gone]
    found += [f"[\"'`/=]{one.stem}([\"'`/. ]|$)" for one in gone]
    keys = {str((one.card.get("article") or {}).get("key", one.stem)) for one in gone}
    found += [f"(^|[^A-Za-z0-9_]){key}([^A-Za-z0-9_]|$)" for key in sorted(keys)]
    return "|".join([*dict.fromkeys(found), *(f"^#+ (.*[^a-z0-9_-])?{name}([^a-z0-9_-]|$)" for name in sorted(data))])
