"""Gates on what was run, recorded or predicted: times, receipts, what pages show of them, studies, predictions. Where
the calibration before and after a run differ, or others were at work, the processor's time is judged, by the faster of
both, and that is said. What has not run here, or without a calibration, is told, and a problem only where
`REBUILT_CALIBRATED=1` says that all has just been run."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import mean

from helpers import _records
from helpers import receipts as recorded
from helpers.verdicts import BUSY_CORES, busiest, slownesses, unseen

from ...files import breaches, read_json
from ...incoming import problems
from ...predict import kept as predicted
from ...race import ROUNDS
from ...repository import Chapter, Repository, read_yaml
from ...run.suite import record_of
from .. import gate
from ..python import calls, imports, parse, parse_file
from .code import chapter_files

NOTEBOOK_SECONDS, TESTS_SECONDS = 60.0, 20.0
SLACK = 1.15  # a machine has phases that a second's calibration before and after does not see
UNEVEN = 1.3  # times between the calibration before and after
RECEIPTS = Path("data/receipts")
WAITING = RECEIPTS / "stale.yml"
SCRIPTED = {"argparse": "options of its own", "papermill": "a run of its own"}
LEFT_OUT = 3  # chapters without a broken version, at most


@gate
def budgets(repository: Repository) -> Iterator[tuple]:
    """A notebook takes {NOTEBOOK_SECONDS:.0f} s, a chapter's tests {TESTS_SECONDS:.0f} s, on the unit's machine."""
    runs = {}
    for chapter in repository.chapters:
        notebook = newest(chapter, lambda one: one.get("tier") == "cpu" and one.get("seconds"))
        tests = read_json(record_of(repository, chapter.home)) or {}
        runs[str(chapter)] = (chapter, notebook, NOTEBOOK_SECONDS)
        runs[f"tests of {chapter.part}/{chapter.folder}"] = (chapter, tests, TESTS_SECONDS)
    untold = []
    for name, (chapter, run, allowed) in runs.items():
        if not slownesses(run.get("calibration")):
            untold.append(name)
        elif what := _too_slow(name, run, allowed):
            what = f"{name}: {what}; allowed are {allowed:.0f} s and {SLACK - 1:.0%}"
            if os.environ.get("REBUILT_BUDGETS") == "told":  # until the last notebooks are below on every processor
                print(f"budgets: too slow: {what}", flush=True)
            else:
                yield chapter.notebook, what
    if untold and os.environ.get("REBUILT_CALIBRATED") == "1":
        yield "_build", f"no calibrated run on this machine of {', '.join(untold)}"
    elif untold:
        print(f"budgets: no calibrated run on this machine of {len(untold)} notebooks and chapters", flush=True)


def newest(chapter: Chapter, fits: Callable[[dict], object]) -> dict:
    """The newest fitting receipt of the chapter's executed copy; empty where there is none."""
    found = ((read_json(chapter.run_record) or {}).get("receipts") or {}).values()
    return max(filter(fits, found), key=lambda one: str(one.get("date")), default={})


def _too_slow(name: str, run: dict, allowed: float) -> str:
    """How long a run took that took too long; empty where it did not, and where that cannot be said, which is told."""
    seconds, slow, told = run["seconds"], mean(slownesses(run["calibration"])), f"{run['seconds']:.0f} s"
    if disturbed := _disturbed(run):
        taken = run.get("processor_seconds")
        if taken is None:
            print(f"budgets: {name}: {disturbed}, and no processor time is known: not judged", flush=True)
            return ""
        seconds, slow = taken / (run.get("threads") or 1), min(slownesses(run["calibration"]))
        print(f"budgets: {name}: {disturbed}, so not its {told} are judged but the processor's time", flush=True)
        told = f"{seconds:.0f} s of processor on each thread,"
    measured = f"{seconds / slow:.0f} s ({told} where the calibration took {slow:.2f} of its unit)"
    return measured if seconds / slow > allowed * SLACK else ""


def _disturbed(run: dict) -> str:
    """What makes a run's seconds no measure of it; empty where nothing does."""
    sides = slownesses(run["calibration"])
    if (busy := busiest(run) or 0) >= BUSY_CORES:
        return f"others took {busy:.1f} cores meanwhile"
    if max(sides) > UNEVEN * min(sides):
        return f"the calibration took {sides[0]:.2f} of its unit before and {sides[-1]:.2f} after"
    return ""


def _files(repository: Repository) -> list[Path]:
    return sorted((repository.root / RECEIPTS).rglob("*.json"))


@gate
def receipts(repository: Repository) -> Iterator[tuple]:
    """Receipts are whole, of a notebook, of known code, of the device they say."""
    chapters = {chapter.stem: chapter for chapter in repository.chapters}
    told = []
    for path in _files(repository):
        wrong = problems(repository, path)
        yield from ((path, what) for what in wrong)
        weak = "" if wrong else weakness(chapters[path.parent.name], path)
        told += [f"{path.parent.name}/{path.name} ({weak})"] if weak else []
    if told:
        print(f"receipts: races with fewer than {ROUNDS} rounds or beside other work: {', '.join(told)}", flush=True)


@gate
def stale(repository: Repository) -> Iterator[tuple]:
    """No receipt is dirty, of older code, or without calibration and load, but those in {WAITING.name}."""
    chapters = {chapter.stem: chapter for chapter in repository.chapters}
    files = {path.relative_to(repository.root / RECEIPTS).as_posix(): path for path in _files(repository)}
    lacking = {name: lacks(chapters, path) for name, path in files.items()}
    waiting = (repository.root / WAITING).is_file() and read_yaml(repository.root / WAITING) or {}
    if wrong := breaches(Path(__file__).with_name("stale.schema.json"), waiting, "it"):
        yield from ((WAITING, what) for what in wrong)
        return
    for name in waiting:
        if name not in lacking:
            yield WAITING, f"{name}: no such receipt; remove the entry"
        elif not lacking[name]:
            yield WAITING, f"{name}: lacks nothing any more; remove the entry"
    for name, what in lacking.items():
        if what and name not in waiting:
            yield RECEIPTS / name, ", ".join(what)
    count = Counter(name.partition("/")[0] for name, what in lacking.items() if what and name in waiting)
    if count:
        told = ", ".join(f"{stem} {many}" for stem, many in count.items())
        print(f"stale: {count.total()} receipts wait to be recorded again: {told}", flush=True)


def lacks(chapters: dict[str, Chapter], path: Path) -> list[str]:
    """What a receipt lacks to decide anything; nothing for a GPU's (see the ledger), and for no notebook's here."""
    content, chapter = read_json(path), chapters.get(path.parent.name)
    if chapter is None or not isinstance(content, dict) or content.get("tier") != "cpu" or "code" not in content:
        return []
    found = ["older code"] if recorded.stale(content, chapter.notebook) else []
    found += ["uncommitted code"] * (content.get("dirty") is not False) + unseen(content)
    return found + ["beside other work"] * ((busiest(content) or 0) >= BUSY_CORES)


def weakness(chapter: Chapter, path: Path) -> str:
    """How a race falls short of the house rules; empty where it does not, and for what is no bench of the chapter."""
    content = read_json(path)
    script = content.get("script") or ""
    if not Path(script).name.startswith("bench_") or not (chapter.home / script).is_file():
        return ""
    said = re.search(r"--rounds[ =](\d+)", content.get("command") or "")
    repeats = max((metric.get("repeats") or 0 for metric in content["metrics"].values()), default=0)
    rounds, busy = int(said[1]) if said else repeats, busiest(content) or 0
    found = [f"{rounds} rounds"] * (rounds < ROUNDS) + [f"{busy:.1f} busy cores"] * (busy >= BUSY_CORES)
    return ", ".join(found + (unseen(content) if content["tier"] != "cpu" else []))  # of ours `stale` tells it


@gate
def shown(repository: Repository) -> Iterator[tuple]:
    """What is recorded is read by a page, a claim's, or kept by the card for a reason."""
    runs = {chapter.stem: newest(chapter, lambda one: "read" in one) for chapter in repository.chapters}
    files = [pair for run in runs.values() for pair in run.get("read", {}).items()]
    read = {(file, kind, name) for file, kinds in files for kind, names in kinds.items() for name in names}
    for chapter in repository.chapters:
        kept, run, recorded_names = chapter.card.get("kept") or {}, runs[chapter.stem], set()
        claimed = {claim.get("metric") for claim in chapter.card.get("claims") or ()}
        for path in sorted((repository.root / RECEIPTS / chapter.stem).glob("*.json")):
            content = read_json(path) or {}
            own = {(kind, name) for kind in ("metrics", "curves") for name in content.get(kind) or ()}
            of = f"{_records.run_name(path, content)}/"  # `kept` may name the run, too
            recorded_names |= {start + name for _, name in own for start in ("", of)}
            if not run or content["tier"] != "cpu" or content["date"] > run["date"]:
                continue  # a GPU's run shows its own numbers; what is newer than the page waits for its next run
            own = {name for kind, name in own if (f"{chapter.stem}/{path.name}", kind, name) not in read} - claimed
            unread = [one for one in own if not any(fnmatchcase(name, k) for k in kept for name in (one, of + one))]
            if unread:
                yield path, f"read by no page ({len(unread)}): {', '.join(sorted(unread))}"
        for one in kept if recorded_names else ():  # nothing recorded yet: nothing is known of what is kept
            if not any(fnmatchcase(name, one) for name in recorded_names):
                yield chapter.card_path, f"kept: no receipt holds {one}"


@gate
def studies(repository: Repository) -> Iterator[tuple]:
    """Studies are declared, and a test holds each declaration and each race."""
    declared = set()
    for path in chapter_files(repository):
        if path.name.startswith("study_"):
            declared.add(path.relative_to(repository.root / "notebooks").as_posix())
            yield from ((path, what, None, line) for line, what in _study(path))
        tests = path.parent.glob("test_*.py") if path.name.startswith("bench_") else ()
        if tests and not any(re.search(rf"\b{path.stem}\b", test.read_text(encoding="utf-8")) for test in tests):
            yield path, "no test beside it names it, so nothing holds which way its ratios point"
    for path in _files(repository):
        content = read_json(path) or {}
        script = f"{content.get('chapter')}/{content.get('script')}"
        if content.get("study") and script not in declared:
            yield path, f"is of {script}, which declares no study"


def _study(path: Path) -> Iterator[tuple[int | None, str]]:
    if not calls(parse_file(path), "Study"):
        yield None, "declares no Study"
    for line, name in imports(parse_file(path)):
        if name in SCRIPTED:
            yield line, f"imports {name}: a study has no {SCRIPTED[name]}, it is run as declared"
    test = path.with_name(f"test_{path.name}")
    tree = parse_file(test) if test.is_file() else parse("")
    beside = [test.with_name(f"{name}.py") for _, name in imports(tree) if name.startswith("test_study_")]
    if not any(calls(one, "hold") for one in (tree, *map(parse_file, filter(Path.is_file, beside)))):
        yield None, f"has no {test.name} that calls hold, so nothing holds what its arms are handed"


@gate
def predictions(repository: Repository) -> Iterator[tuple]:
    """Predictions compare equal work, say why ours is behind, and count what can be."""
    without = []
    for chapter in repository.chapters:
        if found := predicted.read(chapter):
            yield from ((predicted.path_of(chapter), what) for what in predicted.problems(found))
            if found.stale:
                yield predicted.path_of(chapter), "its code has changed since it was counted"
            without += [chapter.stem] if "broken" in found.content["left_out"] else []
    if len(without) > LEFT_OUT:
        what = f"{len(without)} chapters leave the broken version out ({', '.join(without)}); {LEFT_OUT} may"
        yield "data/predictions", what
