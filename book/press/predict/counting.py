"""Counting the parts of a chapter at each tier's sizes, in a process with the pretended device."""

import ast
import json
import uuid
from pathlib import Path

from helpers.cards import executed

from ..errors import PressError
from ..files import read_json, remove, sha256, write_json, write_text
from ..rehearse import run_module
from ..repository import Chapter, Repository
from ..reuse.packages import reached
from .limits import impossible

TIERS = ("cpu", "gpu", "big")
CHECKED = "check"  # sizes that the suite counts again: those of tier cpu, nothing above LARGEST
LARGEST = 100_000
SECONDS = 1800.0


def source_of(chapter: Chapter) -> Path | None:
    """The module `rehearsed_<stem>.py` of a chapter, wherever in its slice; None where it has none."""
    return next(iter(sorted(chapter.home.rglob(f"rehearsed_{chapter.stem}.py"))), None)


def path_of(chapter: Chapter) -> Path:
    """Where a chapter's counts are kept."""
    return chapter.root / "data" / "predictions" / f"{chapter.stem}.json"


def sizes_of(chapter: Chapter) -> dict[str, dict]:
    """The sizes that the notebook picks, by tier: those that stand under a name, as in `x = tier.pick(…)`."""
    found: dict[str, dict] = {tier: {} for tier in TIERS}
    for cell in chapter.cells:
        if cell.cell_type == "code":
            for name, call in _picks(cell.source):
                for keyword in call.keywords:
                    found[keyword.arg].setdefault(name, _value(keyword.value, found[keyword.arg]))
    checked = {name: min(size, LARGEST) if isinstance(size, int) else size for name, size in found["cpu"].items()}
    return {CHECKED: checked, "gpu": found["gpu"], "big": found["big"]}


def _picks(source: str):
    """(name, call) of each `tier.pick(…)` in a cell that stands under a name."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # a cell with a magic
        return
    for node in ast.walk(tree):
        pairs = []
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            pairs = [(node.targets[0].id, node.value)]
        elif isinstance(node, ast.Dict):
            pairs = [(key.value, value) for key, value in zip(node.keys, node.values, strict=True) if _text(key)]
        elif isinstance(node, ast.Call):
            pairs = [(keyword.arg, keyword.value) for keyword in node.keywords]
        for name, value in pairs:
            if isinstance(value, ast.Call) and ast.unparse(value.func) == "tier.pick":
                yield name, value


def _text(node) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _value(node: ast.AST, known: dict):
    """A size as the notebook writes it; None where it needs more than numbers and other sizes."""
    try:
        return eval(compile(ast.Expression(node), "sizes", "eval"), {"__builtins__": {}}, dict(known))  # noqa: S307
    except Exception:  # a name of the notebook's: no size to count at
        return None


def sentences(source: Path) -> dict[str, dict[str, str]]:
    """`ahead`, `left_out` and `too_much`: a module's constants of these names, a sentence by part; empty without."""
    found = {"ahead": {}, "left_out": {}, "too_much": {}}
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name.isupper() and name.lower() in found:
                found[name.lower()] = ast.literal_eval(node.value)
    return found


def code_of(source: Path, home: Path) -> str:
    """The SHA-256 of the module and all of its slice that it reaches, as they run: no comments, no docstrings."""
    name = ".".join(source.relative_to(home).with_suffix("").parts)
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(reached([name], home))}
    return sha256(json.dumps([(path.relative_to(home).as_posix(), executed(text)) for path, text in texts.items()]))


def counted(
    repository: Repository, chapters: list[Chapter], tiers: tuple[str, ...] = (), parts: tuple[str, ...] = ()
) -> dict[str, dict]:
    """What each chapter's parts do, by stem, all in one process; `tiers` and `parts`: those alone, else all.

    PressError says what went wrong.
    """
    scratch = repository.build / "running" / f"predict-{uuid.uuid4().hex[:12]}"
    scratch.mkdir(parents=True)
    tasks = []
    for chapter in chapters:
        source, sizes = source_of(chapter), sizes_of(chapter)
        module = ".".join(source.relative_to(chapter.home).with_suffix("").parts)
        chosen = {tier: sizes[tier] for tier in sizes if not tiers or tier in tiers}
        tasks.append(
            {"stem": chapter.stem, "home": str(chapter.home), "module": module, "sizes": chosen, "parts": parts}
        )
    report = scratch / "report.json"
    write_json(scratch / "task.json", {"tasks": tasks, "report": str(report)})
    try:
        problem = run_module(repository, repository.root, scratch, "rehearsal.parts", SECONDS)
        if problem:
            raise PressError(f"counting {', '.join(map(str, chapters))}: {problem}")
        return read_json(report) or {}
    finally:
        remove(scratch)


def count(repository: Repository, names: list[str] | None) -> int:
    """Write `data/predictions/<stem>.json` of the chosen chapters that have parts; the exit status."""
    for chapter in repository.select(names):
        source = source_of(chapter)
        if source is None:
            print(f"{chapter}: has no rehearsed_{chapter.stem}.py", flush=True)
            continue
        found = counted(repository, [chapter])[chapter.stem]
        odd = sorted(set(found["metrics"]) - {claim["metric"] for claim in chapter.card.get("claims") or []})
        if odd:
            raise PressError(
                f"{source.name} predicts {', '.join(odd)}; no claim of {chapter.stem}.yml has such a metric"
            )
        head = {"schema": 1, "notebook": chapter.stem, "source": source.relative_to(chapter.root).as_posix()}
        head |= {"code": code_of(source, chapter.home), "sizes": sizes_of(chapter)} | sentences(source)
        wrong = next(impossible(found), None)
        if wrong:
            raise PressError(f"{source.name}: {wrong}")
        path = path_of(chapter)
        write_text(path, written(head | found))
        print(f"{chapter}: {path.relative_to(chapter.root)}, {path.stat().st_size / 1e3:.0f} kB", flush=True)
    return 0


def written(content: dict) -> str:
    """The counts as JSON: a line for each part and tier, so that a change shows where it is."""
    parts, lines = content["parts"], []
    for name, part in parts.items():
        tiers = [f"   {json.dumps(tier)}: {json.dumps(entry)}" for tier, entry in part["tiers"].items()]
        own = json.dumps({key: value for key, value in part.items() if key != "tiers"})[1:-1]
        lines.append(f'  {json.dumps(name)}: {{{own}, "tiers": {{\n' + ",\n".join(tiers) + "\n  }}")
    rest = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in content.items() if key != "parts"]
    return "{\n" + ",\n".join([*rest, ' "parts": {\n' + ",\n".join(lines) + "\n }"]) + "\n}\n"
