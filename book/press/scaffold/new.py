"""`press new`: a part, or a chapter whose slice passes every gate from its first minute."""

import json
import re
import shutil
import uuid
from pathlib import Path

import nbformat
import yaml

from ..colab import setup_cell
from ..errors import PressError
from ..files import remove, write_text
from ..gates.code import clash, importable
from ..repository import Chapter, Repository

SCAFFOLD = Path(__file__).resolve().parent
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
ROLES = ("exercise", "hint", "stub", "checker", "solution", "wrong")
CELL = re.compile(r"^=== (markdown|code)([^|\n]*)(?:\| (.*))?\n", re.MULTILINE)


def new_part(repository: Repository, name: str) -> list[Path]:
    """The paths made or changed for a new, empty part: its folder and its caption in `_toc.yml`."""
    _check_name(name, "part")
    folder = repository.root / "notebooks" / name
    if folder.exists():
        raise PressError(f"the part {name} is there already: {repository.relative(folder)}")
    contents = _with_part(repository, name)
    keep = write_text(folder / ".gitkeep", "")
    return [keep, write_text(repository.root / "_toc.yml", contents)]


def new_chapter(repository: Repository, name: str) -> list[Path]:
    """The paths made or changed for a new chapter PART/NAME; nothing is made when anything is in the way."""
    part, slash, stem = name.partition("/")
    if not slash:
        raise PressError(f"{name!r} is no chapter; PART/NAME is allowed, such as signals/rolling_distance")
    _check_name(part, "part")
    _check_name(stem, "chapter")
    chapter = Chapter(repository.root, part, stem, stem)
    if not chapter.home.parent.is_dir():
        raise PressError(f"there is no part {part}; `new part {part}` makes it")
    if chapter.home.exists():
        raise PressError(f"the chapter {name} is there already: {repository.relative(chapter.home)}")
    reason = clash(repository, stem) or _taken(repository, stem)
    if reason:
        raise PressError(f"the module {stem} {reason}; choose another name")
    contents = _with_chapter(repository, chapter)
    made = _write_slice(repository, chapter)
    references = repository.root / "book" / "references.bib"
    known = references.read_text(encoding="utf-8") if references.exists() else ""
    write_text(references, f"{known.rstrip()}\n\n{_bib_entry(chapter)}".lstrip())
    (chapter.home.parent / ".gitkeep").unlink(missing_ok=True)
    return [*made, references, write_text(repository.root / "_toc.yml", contents)]


def _check_name(name: str, what: str) -> None:
    if not NAME.fullmatch(name):
        raise PressError(f"{name!r} is no name for a {what}: lower-case letters, digits and single _ are allowed")


def _taken(repository: Repository, stem: str) -> str | None:
    """Why a module, test or benchmark of the chapter would meet one of the same name."""
    wanted = {stem, f"test_{stem}", f"bench_{stem}"}
    taken = [path for path, name in importable(repository) if name in wanted]
    return f"has the name of {repository.relative(taken[0])}" if taken else None


def _write_slice(repository: Repository, chapter: Chapter) -> list[Path]:
    """Write the five files beside their place, then move the folder there."""
    stem, folder = chapter.stem, chapter.home.with_name(f".{chapter.stem}.{uuid.uuid4().hex[:8]}.part")
    files = {"module.py": f"{stem}.py", "test.py": f"test_{stem}.py", "bench.py": f"bench_{stem}.py"}
    files["card.yml"] = f"{stem}.yml"
    try:
        folder.mkdir()
        for template, file in files.items():
            write_text(folder / file, _filled(f"{template}.txt", chapter))
        nbformat.write(_notebook(repository, chapter), folder / f"{stem}.ipynb")
        shutil.move(folder, chapter.home)
    finally:
        remove(folder)
    return sorted(chapter.home.iterdir())


def _filled(template: str, chapter: Chapter) -> str:
    text = (SCAFFOLD / template).read_text(encoding="utf-8")
    title = f"Rebuild {chapter.stem.replace('_', ' ')}"
    for mark, value in (("NAME", chapter.stem), ("PART", chapter.part), ("KEY", _key(chapter)), ("TITLE", title)):
        text = text.replace(f"@{mark}@", value)
    return text


def _notebook(repository: Repository, chapter: Chapter) -> nbformat.NotebookNode:
    """The notebook of the scaffold: `=== kind tag | message` starts a cell."""
    pieces = CELL.split(_filled("notebook.txt", chapter))[1:]
    (exercise,) = yaml.safe_load(_filled("card.yml.txt", chapter))["exercises"]
    cells = []
    for kind, tags, message, source in zip(*[iter(pieces)] * 4, strict=True):
        make = nbformat.v4.new_markdown_cell if kind == "markdown" else nbformat.v4.new_code_cell
        named = tags.split()
        text = setup_cell.text(repository, chapter) if named == ["setup"] else source.strip("\n")
        cell = make(text, metadata={"tags": named} if named else {})
        if set(named) & set(ROLES):
            cell.metadata["exercise"] = {key: exercise[key] for key in ("id", "kind", "minutes")}
        if message:
            cell.metadata["exercise"]["message"] = message
        cell.id = f"{chapter.stem[:40]}-{len(cells):02d}".replace("_", "-")
        cells.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def _key(chapter: Chapter) -> str:
    return f"{chapter.stem}_article"


def _bib_entry(chapter: Chapter) -> str:
    return (
        f"@misc{{{_key(chapter)},\n  author = {{The author}},\n  title  = {{The article behind {chapter.part}/"
        f"{chapter.folder}}},\n  year   = {{2020}}\n}}\n"
    )


# _toc.yml is edited as text: its comments and order are its author's.


def _with_part(repository: Repository, name: str) -> str:
    """`_toc.yml` with the part after the last part that holds notebooks."""
    rows = (repository.root / "_toc.yml").read_text(encoding="utf-8").rstrip("\n").split("\n")
    blocks = _blocks(rows)
    if not blocks:
        raise PressError("_toc.yml has no `- caption:` of a part to put the new one after; add the part by hand")
    if _caption(name) in [caption for *_, caption in blocks]:
        raise PressError(f"_toc.yml has a part {_caption(name)} already")
    with_notebooks = [block for block in blocks if any("notebooks/" in row for row in rows[block[0] : block[1]])]
    start, end, _ = (with_notebooks or blocks)[-1]
    indent = re.match(r"\s*", rows[start]).group()
    rows[end:end] = [f"{indent}- caption: {_caption(name)}", f"{indent}  chapters: []"]
    return "\n".join(rows) + "\n"


def _with_chapter(repository: Repository, chapter: Chapter) -> str:
    """`_toc.yml` with the chapter as the last of its part; PressError when that place cannot be found."""
    rows = (repository.root / "_toc.yml").read_text(encoding="utf-8").rstrip("\n").split("\n")
    for start, end, caption in _blocks(rows):
        entries = [number for number in range(start, end) if re.match(r"\s*- file:", rows[number])]
        own = [number for number in entries if f"notebooks/{chapter.part}/" in rows[number]]
        if own:
            indent = re.match(r"\s*", rows[own[-1]]).group()
            rows.insert(own[-1] + 1, f"{indent}- file: {chapter.document}")
        elif caption == _caption(chapter.part) and not entries:
            indent = re.match(r"\s*", rows[start]).group()
            rows[start + 1 : end] = [f"{indent}  chapters:", f"{indent}    - file: {chapter.document}"]
        else:
            continue
        text = "\n".join(rows) + "\n"
        if _same_but_for(repository, text, chapter.document):
            return text
    raise PressError(f"_toc.yml has no part for {chapter.part}; add `- file: {chapter.document}` to it by hand first")


def _same_but_for(repository: Repository, text: str, document: str) -> bool:
    """Whether the edited contents are the old ones with one document more."""
    try:
        new = json.dumps(yaml.safe_load(text))
    except yaml.YAMLError:
        return False
    before = json.dumps(repository.toc)
    return new.count(document) == 1 and all(new.count(name) == before.count(name) for name in repository.toc_files)


def _blocks(rows: list[str]) -> list[tuple[int, int, str]]:
    """(first row, row after the last, caption) of each part."""
    found = [(number, re.match(r"\s*- caption:\s*(.*?)\s*$", row)) for number, row in enumerate(rows)]
    starts = [(number, match.group(1).strip("\"'")) for number, match in found if match]
    ends = [number for number, _ in starts[1:]] + [len(rows)]
    return [(number, end, caption) for (number, caption), end in zip(starts, ends, strict=True)]


def _caption(part: str) -> str:
    return part.replace("_", " ").capitalize()
