"""The gate on what is recorded: it is shown where its question is asked, or the card says why it is kept."""

from collections.abc import Iterator
from fnmatch import fnmatchcase

from ...files import read_json
from ...repository import Chapter, Repository
from .. import Problem, gate

KINDS = ("metrics", "curves")


@gate(
    "shown",
    "what is recorded is read by a page, a claim's, or kept by the card for a reason",
    why="a number that was recorded and is shown nowhere is one that nobody can hold against the text",
    mend="show it where its question is asked, record it no more, or say why in the card: `kept: {name_*: why}`",
)
def shown(repository: Repository) -> Iterator[Problem]:
    """Metrics and curves of receipts that no page's newest run on this machine read; says nothing of pages not run."""
    runs = {chapter.stem: _newest(chapter) for chapter in repository.chapters}
    read = {
        (file, kind, name)
        for run in runs.values()
        for file, kinds in (run or {}).get("read", {}).items()
        for kind, names in kinds.items()
        for name in names
    }
    for chapter in repository.chapters:
        kept = chapter.card.get("kept") or {}
        names = {claim.get("metric") for claim in chapter.card.get("claims") or ()}
        recorded = set()
        for path in sorted((repository.root / "data" / "receipts" / chapter.stem).glob("*.json")):
            content = read_json(path)
            own = {(kind, name) for kind in KINDS for name in content.get(kind) or ()} if content else set()
            recorded |= {name for _, name in own}
            run = runs[chapter.stem]
            if not run or content["tier"] != "cpu" or content["date"] > run["date"]:
                continue  # a GPU's run shows its own numbers; what is newer than the page waits for its next run
            unread = {name for kind, name in own if (f"{chapter.stem}/{path.name}", kind, name) not in read} - names
            unread = sorted(name for name in unread if not any(fnmatchcase(name, one) for one in kept))
            if unread:
                yield Problem(repository.relative(path), f"read by no page ({len(unread)}): {', '.join(unread)}")
        for one in kept:
            if not any(fnmatchcase(name, one) for name in recorded):
                yield Problem(repository.relative(chapter.card_path), f"kept: no receipt holds {one}")


def _newest(chapter: Chapter) -> dict | None:
    """The newest receipt of the chapter's executed copy that says what it read; None where it has not run here."""
    record = read_json(chapter.run_record)
    found = (record.get("receipts") or {}).values() if isinstance(record, dict) else ()
    fitting = [content for content in found if isinstance(content, dict) and "read" in content]
    return max(fitting, key=lambda content: content["date"], default=None)
