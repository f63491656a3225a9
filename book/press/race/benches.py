"""`press race`: the benches of a slice beside their peers, on a quiet machine; their receipts are recorded.

Each `bench_*.py` runs as a module from the slice's folder, with the environment of its peers. What it writes comes to
`data/receipts/<stem>/<tier>-<machine>-<name>.json`, with what the machine was like before, after and meanwhile. A race
of two threads on a machine whose second core is not there measures nothing: it is refused before, and what was measured
goes to `_build/races/` with the reason where that shows afterwards.
"""

import re
import subprocess
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from helpers import cards

from ..errors import PressError
from ..files import lock, read_json, remove, write_json
from ..repository import Chapter, Repository
from ..reuse import store
from ..run import child, conditions
from ..run.processes import environment
from ..run.suite import slices_of
from . import peers

ROUNDS = 20  # of a race, by the house rules; a bench has them as its default
QUIET_CORES = 0.3  # the part of one core that may be busy before a race
MOST_STEAL = 0.05  # the share of the cores' time that the host may take while it runs
LEAST_GAIN = 1.5  # of the calibration's own work on two threads over one: else the second core is not ours
TIMEOUT_SECONDS = 3600.0
CHANGED = "the code was changed while it ran, and a receipt names the code that made it"


class Busy(PressError):
    """The machine, or a core of it, is busy with other work, so there is no race now."""


@dataclass(frozen=True)
class Options:
    """What the command line says: `rounds` and `threads` None are the bench's own choice, `bench` None races all."""

    rounds: int | None = None
    threads: int | None = None
    loaded: bool = False
    timeout: float = TIMEOUT_SECONDS
    bench: str | None = None


def race(repository: Repository, names: list[str] | None, options: Options = Options()) -> int:  # noqa: B008
    """Race the slices of the chosen notebooks; the exit status: 1 when a bench failed."""
    chosen = {chapter.home for chapter in repository.select(names)}
    slices = {home: chapters for home, chapters in slices_of(repository).items() if home in chosen}
    failed = []
    alone = lock(store.folder() / "recording.lock", "press race")  # one race or study at a time on a machine
    with lock(repository.build / ".press.lock", "press race"), alone:
        for home, chapters in slices.items():
            found = [name for name in benches(home) if options.bench in (None, short(name))]
            if not found:
                there = ", ".join(map(short, benches(home)))
                what = f"no bench {options.bench}; there are {there}" if there else "no bench_*.py"
                print(f"{repository.relative(home)}: has {what}", flush=True)
                failed += [options.bench] if there else []
                continue
            python = peers.python(peers.pins(chapters))
            failed += [name for name in found if not _one(repository, chapters, python, name, options)]
    print(f"failed: {', '.join(failed)}" if failed else "every race came to its end", flush=True)
    return int(bool(failed))


def short(name: str) -> str:
    """`ctc` of `ctc.bench_ctc`."""
    return name.rpartition(".")[2].removeprefix("bench_")


def benches(home: Path) -> list[str]:
    """The benches of a slice as modules, such as `ctc.bench_ctc`, sorted."""
    found = (path.relative_to(home).with_suffix("") for path in home.rglob("bench_*.py"))
    return sorted(".".join(path.parts) for path in found if not any(part[0] in "._" for part in path.parts[:-1]))


def _one(repository: Repository, chapters: list[Chapter], python: Path, name: str, options: Options) -> bool:
    """Whether one bench came to its end and left a receipt that may be kept."""
    before = conditions.look(repository.root)
    if not options.loaded:
        _refuse(name, before, options)
    scratch = repository.build / "running" / f"race-{uuid.uuid4().hex[:12]}"
    scratch.mkdir(parents=True)
    code, began = state(chapters[0], name), time.monotonic()
    try:
        problem, busiest = _run(repository, chapters[0].home, python, name, scratch, options)
        took = round(time.monotonic() - began, 3)  # of the whole process: a bench may open its receipt late
        during = {} if busiest is None else {"busy_cores": busiest}
        seen = {"seconds": took} | conditions.joined(before, conditions.look(repository.root), during)
        changed = CHANGED if state(chapters[0], name) != code else ""
        kept, why = ([], "") if problem else _keep(repository, name, scratch, seen, options, changed)
    finally:
        remove(scratch)
    problem = problem or why or ("" if kept else "it wrote no receipt")
    print(f"{name}: {problem or 'done'} after {time.monotonic() - began:.0f} s", flush=True)
    for path in kept:
        print(f"  {repository.relative(path)}", flush=True)
    _tell(seen)
    return not problem


def _refuse(name: str, before: dict, options: Options) -> None:
    """Raise Busy where a race would measure other work, or two threads that share one core."""
    cure = "Wait until it is over, or say --loaded, and the receipt will say so"
    busy, gain = before["busy_cores"], conditions.gain(before["calibration"])
    if busy is None or busy > QUIET_CORES:
        told = "nobody knows how many" if busy is None else f"{busy:.1f}"
        raise Busy(
            f"{told} cores are busy before {name}, at most {QUIET_CORES} may be: a race beside other work "
            f"measures that work. {cure}"
        )
    if (options.threads or conditions.cores()) > 1 and (gain is None or gain < LEAST_GAIN):
        raise Busy(f"{lonely('before', gain)}. {cure}; --threads 1 needs one core only")


def state(chapter: Chapter, name: str) -> tuple[str, str]:
    """The committed helpers, and the hash of the code that a bench or a study runs: other at its end, other code.

    What else is committed meanwhile (another receipt, another chapter) changes nothing of it.
    """
    told = ["git", "rev-parse", "HEAD:helpers"]
    done = subprocess.run(told, cwd=chapter.root, capture_output=True, text=True, timeout=60)
    return done.stdout.strip(), cards.code_hash(chapter.notebook, name.replace(".", "/") + ".py")


def lonely(when: str, gain: float | None) -> str:
    """That a second core was not there, `when` before or after a race; None: nobody knows."""
    if gain is None:
        return f"nobody knows what a second thread gained {when} the race"
    return (
        f"two threads did the calibration's work {gain:.2f} times as fast as one {when} the race, at least "
        f"{LEAST_GAIN} is needed: a race of several threads measures who else has the second core"
    )


def _tell(seen: dict) -> None:
    """Say what was not quiet, and what nobody knows: that is not the same."""
    busy, stolen = seen["busy_cores"]["after"], seen["steal"]["during"]
    if busy is not None and busy > QUIET_CORES:
        print(f"  {busy:.1f} cores were busy afterwards: was the machine quiet all along?", flush=True)
    if stolen:
        print(f"  the host took {stolen:.1%} of the cores' time meanwhile", flush=True)
    gains = [seen["calibration"][f"gain_{when}"] for when in ("before", "after")]
    known = {
        "busy cores": seen["busy_cores"].values(),
        "steal": seen["steal"].values(),
        "a second thread's gain": gains,
    }
    missing = [what for what, values in known.items() if None in values]
    if missing:
        print(f"  not known here: {', '.join(missing)}", flush=True)


def _run(
    repository: Repository, home: Path, python: Path, name: str, scratch: Path, options: Options
) -> tuple[str, float | None]:
    """What went wrong with a bench, empty if nothing, and how many cores others took at the most meanwhile.

    It and all that it started are gone afterwards.
    """
    command = [str(python), "-m", name]
    command += ["--rounds", str(options.rounds)] if options.rounds else []
    command += ["--threads", str(options.threads)] if options.threads else []
    print(f"{name}: {' '.join([Path(command[0]).name, *command[1:]])}", flush=True)
    own = environment(options.threads or conditions.cores())  # the shell's threads are not the race's
    ended = child.run(command, home, own | {"PYTHONPATH": str(repository.root)}, scratch, options.timeout)
    if ended.status is None:
        return f"not finished after {options.timeout:.0f} s", ended.busiest
    if ended.left:
        print(f"{name}: ended what it left running: {', '.join(ended.left)}", flush=True)
    return (f"ended with status {ended.status}" if ended.status else ""), ended.busiest


def _keep(
    repository: Repository, name: str, scratch: Path, seen: dict, options: Options, changed: str
) -> tuple[list[Path], str]:
    """Where the receipts went that a bench left, with what the machine was like, and why some are not recorded."""
    kept, reasons = [], []
    for path in sorted(scratch.glob("*.json")):
        content = read_json(path)
        if isinstance(content, dict) and "metrics" in content:
            where, content = place(repository, path, content, name), {**content, **seen}
            if why := changed or _why_not(content, options):
                where = repository.build / "races" / where.relative_to(repository.root / "data" / "receipts")
                content["not_recorded"] = why
                reasons.append(why)
            write_json(where, content)
            kept.append(where)
    return kept, f"not recorded: {'; '.join(dict.fromkeys(reasons))}" if reasons else ""


def _why_not(content: dict, options: Options) -> str:
    """Why a receipt must not be recorded: a core that went, or a bench that did not do what it was told; or empty."""
    threads, gain = content.get("threads"), content["calibration"]["gain_after"]
    if not options.loaded and (threads or 1) > 1 and (gain is None or gain < LEAST_GAIN):
        return lonely("after", gain)
    busy, stolen = content["busy_cores"], content["steal"]["during"]
    if not options.loaded and (busy["after"] is None or busy["after"] > QUIET_CORES):
        told = "nobody knows how many" if busy["after"] is None else f"{busy['after']:.1f}"
        return f"{told} cores were busy right after it, at most {QUIET_CORES} may be: other work had come meanwhile"
    if not options.loaded and busy.get("during", 0.0) > QUIET_CORES:
        return f"{busy['during']:.1f} cores were busy with other work while it ran, at most {QUIET_CORES} may be"
    if not options.loaded and stolen is None:
        return "nobody knows what the host took of the cores' time; say --loaded, and the receipt will say so"
    if not options.loaded and stolen > MOST_STEAL:
        return f"the host took {stolen:.1%} of the cores' time while it ran, at most {MOST_STEAL:.0%} may be"
    if options.threads and threads != options.threads:
        return f"--threads {options.threads} was asked for, the receipt says {threads}"
    took = content.get("threads_by_library") or {}
    if threads and took.get("torch", threads) != threads:
        return f"the receipt says {threads} threads, and torch took {took['torch']} at its end"
    if threads and (more := {name: count for name, count in took.items() if (count or 0) > threads}):
        others = ", ".join(f"{name} {count}" for name, count in more.items())
        return f"the receipt says {threads} threads, and others had more ({others}): say --threads {threads}"
    repeats = {metric.get("repeats") for metric in content["metrics"].values()} - {None}
    if options.rounds and options.rounds not in repeats:
        found = ", ".join(map(str, sorted(repeats))) or "none"
        return f"--rounds {options.rounds} was asked for, the repeats of its metrics are: {found}"
    return ""


def place(repository: Repository, path: Path, content: dict, bench: str) -> Path:
    """Where a receipt `<stem>.<tier>[.<name>].json` is committed; without a name the bench's is taken."""
    stem, tier, *own = path.name.removesuffix(".json").split(".")
    name = own[0] if own else short(bench)
    machine = content.get("machine") or {}
    model = machine.get("slug") or machine.get("gpu" if tier != "cpu" else "cpu") or "unknown"
    slug = re.sub(r"[^a-z0-9]+", "-", str(model).lower()).strip("-")
    name = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return repository.root / "data" / "receipts" / stem / f"{tier}-{slug}-{name}.json"
