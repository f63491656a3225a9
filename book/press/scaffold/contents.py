"""`_toc.yml` with a part or a notebook more: edited as text, because its comments and order are its author's."""

import re

import yaml

from ..errors import PressError
from ..repository import Chapter, Repository, documents


def with_part(repository: Repository, name: str) -> str:
    """`_toc.yml` with the part after the last part that holds notebooks."""
    rows = (repository.root / "_toc.yml").read_text(encoding="utf-8").rstrip("\n").split("\n")
    blocks = _blocks(rows)
    if not blocks:
        raise PressError("_toc.yml has no `- caption:` of a part to put the new one after; add the part by hand")
    if caption_of(name) in [caption for *_, caption in blocks]:
        raise PressError(f"_toc.yml has a part {caption_of(name)} already")
    with_notebooks = [block for block in blocks if any("notebooks/" in row for row in rows[block[0] : block[1]])]
    start, end, _ = (with_notebooks or blocks)[-1]
    indent = re.match(r"\s*", rows[start]).group()
    rows[end:end] = [f"{indent}- caption: {caption_of(name)}", f"{indent}  chapters: []"]
    return "\n".join(rows) + "\n"


def with_chapter(repository: Repository, chapter: Chapter) -> str:
    """`_toc.yml` with the chapter as the last of its slice or part; PressError when that place cannot be found."""
    rows = (repository.root / "_toc.yml").read_text(encoding="utf-8").rstrip("\n").split("\n")
    for start, end, caption in _blocks(rows):
        entries = [number for number in range(start, end) if re.match(r"\s*- file:", rows[number])]
        folders = f"notebooks/{chapter.part}/{chapter.folder}/", f"notebooks/{chapter.part}/"
        own = next(filter(None, ([n for n in entries if folder in rows[n]] for folder in folders)), None)
        if own:
            indent = re.match(r"\s*", rows[own[-1]]).group()
            rows.insert(own[-1] + 1, f"{indent}- file: {chapter.document}")
        elif caption == caption_of(chapter.part) and not entries:
            indent = re.match(r"\s*", rows[start]).group()
            own = [f"{indent}    - file: {name}" for name in (landing(chapter.part), chapter.document)]
            rows[start + 1 : end] = [f"{indent}  chapters:", *own]
        else:
            continue
        text = "\n".join(rows) + "\n"
        if _same_but_for(repository, text, chapter.document):
            return text
    raise PressError(f"_toc.yml has no part for {chapter.part}; add `- file: {chapter.document}` to it by hand first")


def _same_but_for(repository: Repository, text: str, document: str) -> bool:
    """Whether the edited contents are the old ones with one document more, and its part's page."""
    try:
        new = documents(yaml.safe_load(text))
    except yaml.YAMLError:
        return False
    known = repository.toc_files
    added = {document, landing(document.split("/")[1])} - set(known)
    return document in new and [name for name in new if name not in added] == known


def landing(part: str) -> str:
    """The page of a part, with the cards of its chapters; it is written with the part's first chapter."""
    return f"book/part_{part}"


def _blocks(rows: list[str]) -> list[tuple[int, int, str]]:
    """(first row, row after the last, caption) of each part."""
    found = [(number, re.match(r"\s*- caption:\s*(.*?)\s*$", row)) for number, row in enumerate(rows)]
    starts = [(number, match.group(1).strip("\"'")) for number, match in found if match]
    ends = [number for number, _ in starts[1:]] + [len(rows)]
    return [(number, end, caption) for (number, caption), end in zip(starts, ends, strict=True)]


def caption_of(part: str) -> str:
    """The caption of a new part: its words, the first with a capital."""
    return part.replace("_", " ").capitalize()
