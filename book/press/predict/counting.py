"""Counting the parts of a chapter at each tier's sizes, in a process with the pretended device."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

from helpers.cards import executed
from rehearsal.predict import real

from ..errors import PressError
from ..files import read_json, sha256, write_json, write_text
from ..gates.python import parse, parse_file
from ..rehearse import run_module
from ..repository import Chapter, Repository
from ..reuse.packages import reached
from ..run.child import scratch

CHECKED = "check"  # sizes that the suite counts again: those of tier cpu, nothing above LARGEST
LARGEST = 100_000
SECONDS = 1800.0
SENTENCES = ("ahead", "left_out", "too_much")
BYTES = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int16": 2, "bool": 1, "uint8": 1, "int8": 1}
WINDOW = 27  # places of a dense convolution's window: 3 × 3 × 3


def source_of(chapter: Chapter) -> Path | None:
    """The module `rehearsed_<stem>.py` of a chapter, wherever in its folder; None where it has none."""
    return next(iter(sorted(chapter.home.rglob(f"rehearsed_{chapter.stem}.py"))), None)


def path_of(chapter: Chapter) -> Path:
    """Where a chapter's counts are kept."""
    return chapter.root / "data" / "predictions" / f"{chapter.stem}.json"


def sizes_of(chapter: Chapter) -> dict[str, dict]:
    """The sizes that the notebook picks, by tier: those that stand under a name, as in `x = tier.pick(…)`."""
    found: dict[str, dict] = {"cpu": {}, "gpu": {}, "big": {}}
    for tree in [parse(cell.source) for cell in chapter.cells if cell.cell_type == "code"]:
        for name, value in _named(tree):
            if isinstance(value, ast.Call) and ast.unparse(value.func) == "tier.pick":
                for keyword in value.keywords:
                    found[keyword.arg].setdefault(name, _value(keyword.value, found[keyword.arg]))
    checked = {name: min(size, LARGEST) if isinstance(size, int) else size for name, size in found["cpu"].items()}
    return {CHECKED: checked, "gpu": found["gpu"], "big": found["big"]}


def _named(tree: ast.Module) -> list[tuple[str, ast.AST]]:
    """(name, value) of what is bound, kept in a dict, or handed on by keyword."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            found.append((getattr(node.targets[0], "id", None), node.value))
        elif isinstance(node, ast.Dict):
            found += [(getattr(key, "value", None), node.values[at]) for at, key in enumerate(node.keys)]
        elif isinstance(node, ast.Call):
            found += [(keyword.arg, keyword.value) for keyword in node.keywords]
    return [(name, value) for name, value in found if isinstance(name, str)]


def _value(node: ast.AST, known: dict):
    """A size as the notebook writes it; None where it needs more than numbers and other sizes."""
    try:
        return eval(compile(ast.Expression(node), "sizes", "eval"), {"__builtins__": {}}, dict(known))  # noqa: S307
    except Exception:  # a name of the notebook's: no size to count at
        return None


def sentences(source: Path) -> dict[str, dict[str, str]]:
    """`ahead`, `left_out` and `too_much`: a module's constants of these names, a sentence by part; empty without."""
    named = [(name.lower(), value) for name, value in _named(parse_file(source)) if name.isupper()]
    return dict.fromkeys(SENTENCES, {}) | {name: ast.literal_eval(value) for name, value in named if name in SENTENCES}


def code_of(source: Path, home: Path) -> str:
    """The SHA-256 of the module and all of its chapter that it reaches, as they run: no comments, no docstrings."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(reached([_module(source, home)], home))}
    return sha256(json.dumps([(path.relative_to(home).as_posix(), executed(text)) for path, text in texts.items()]))


def _module(source: Path, home: Path) -> str:
    return ".".join(source.relative_to(home).with_suffix("").parts)


def counted(
    repository: Repository, chapters: list[Chapter], tiers: tuple[str, ...] = (), parts: tuple[str, ...] = ()
) -> dict[str, dict]:
    """What each chapter's parts do, by stem, all in one process; `tiers` and `parts`: those alone, else all."""
    tasks = []
    for chapter in chapters:
        sizes = {tier: sizes for tier, sizes in sizes_of(chapter).items() if not tiers or tier in tiers}
        task = {"stem": chapter.stem, "home": str(chapter.home), "module": _module(source_of(chapter), chapter.home)}
        tasks.append(task | {"sizes": sizes, "parts": parts})
    with scratch(repository, "predict") as folder:
        report = folder / "report.json"
        write_json(folder / "task.json", {"tasks": tasks, "report": str(report)})
        problem = run_module(repository, repository.root, folder, "rehearsal.parts", SECONDS)
        if problem:
            raise PressError(f"counting {', '.join(map(str, chapters))}: {problem}")
        return read_json(report) or {}


def count(repository: Repository, names: list[str] | None) -> int:
    """Write `data/predictions/<stem>.json` of the chosen chapters that have parts; the exit status."""
    for chapter in repository.select(names):
        source, path = source_of(chapter), path_of(chapter)
        if source is None:
            print(f"{chapter}: has no rehearsed_{chapter.stem}.py", flush=True)
            continue
        found = counted(repository, [chapter])[chapter.stem]
        odd = sorted(set(found["metrics"]) - {claim["metric"] for claim in chapter.card.get("claims") or []})
        if odd:
            raise PressError(f"{source.name} predicts {', '.join(odd)}; {chapter.stem}.yml claims no such metric")
        for wrong in impossible(found):
            raise PressError(f"{source.name}: {wrong}")
        head = {"schema": 1, "notebook": chapter.stem, "source": source.relative_to(chapter.root).as_posix()}
        head |= {"code": code_of(source, chapter.home), "sizes": sizes_of(chapter)} | sentences(source)
        write_text(path, written(head | found))
        print(f"{chapter}: {path.relative_to(chapter.root)}, {path.stat().st_size / 1e3:.0f} kB", flush=True)
    return 0


def written(content: dict) -> str:
    """The counts as JSON: a line for each part and tier, so that a change shows where it is."""
    lines = []
    for name, part in content["parts"].items():
        tiers = [f"   {json.dumps(tier)}: {json.dumps(entry)}" for tier, entry in part["tiers"].items()]
        own = json.dumps({key: value for key, value in part.items() if key != "tiers"})[1:-1]
        lines.append(f'  {json.dumps(name)}: {{{own}, "tiers": {{\n' + ",\n".join(tiers) + "\n  }}")
    rest = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in content.items() if key != "parts"]
    return "{\n" + ",\n".join([*rest, ' "parts": {\n' + ",\n".join(lines) + "\n }"]) + "\n}\n"


def impossible(content: dict) -> Iterator[str]:
    """Rows with more FLOPs than products of what they read and wrote can have: a mistake, whatever made them."""
    tiers = [(name, *pair) for name, part in content["parts"].items() for pair in part["tiers"].items()]
    rows = [(name, tier, *row) for name, tier, entry in tiers for row in entry["work"]]
    for name, tier, kind, size, flops, _ in rows:
        if flops > (most := most_flops(kind, size)):
            what = f"{name}, tier {tier}: an operation on {kind} has {flops:,} FLOPs with {size:,} bytes, which allow"
            yield f"{what} {most:,.0f}: its formula is wrong, or it counts zeros that nobody multiplies"


def most_flops(kind: str, size: int) -> float:
    """The most FLOPs of an operation with so many bytes of operands and results. A product takes 2 for each triple
    of entries of its factors and result: of S numbers at most (S / 3)^1.5 (Loomis and Whitney 1949). A convolution
    uses a number of its input up to √window times more often, backward it is two products."""
    numbers = size / BYTES.get(real(kind), 4)
    return 2 * 2 * WINDOW**0.5 * (numbers / 3) ** 1.5
