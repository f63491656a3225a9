"""`press race`: the benches of a chapter beside their peers, on a quiet machine; their receipts are recorded. Each
`bench_*.py` runs as a module from the chapter's folder, in the environment of its peers. A race beside other work, or
of two threads on one core, is refused, or its receipts go to `_build/races/` with the reason."""

import time
from collections import namedtuple
from pathlib import Path

from helpers import cards

from ..errors import PressError, git
from ..files import lock, read_json, write_json
from ..ledger.tables import plain
from ..repository import Chapter, Repository
from ..reuse import store
from ..run import child, conditions
from ..run.processes import environment
from ..run.suite import by_folder
from . import peers

ROUNDS = 20  # of a race, by the house rules; a bench has them as its default
QUIET_CORES = 0.3  # the part of one core that may be busy before a race
MOST_STEAL = 0.05  # the share of the cores' time that the host may take while it runs
LEAST_GAIN = 1.5  # of the calibration's own work on two threads over one: else the second core is not ours
CHANGED = "the code was changed while it ran, and a receipt names the code that made it"


class Busy(PressError):
    """The machine, or a core of it, is busy with other work, so there is no race now."""


# What the command line says: `rounds` and `threads` None are the bench's own choice, `bench` None races all.
Options = namedtuple("Options", "rounds threads loaded timeout bench", defaults=(None, None, False, 3600.0, None))


def race(repository: Repository, names: list[str] | None, options: Options) -> int:
    """Race the chapters of the chosen notebooks; the exit status: 1 when a bench failed."""
    chosen = {chapter.home for chapter in repository.select(names)}
    failed = []
    alone = lock(store.folder() / "recording.lock", "press race")  # one race or study at a time on a machine
    with lock(repository.build / ".press.lock", "press race"), alone:
        for home, chapters in by_folder(repository).items():
            if home not in chosen:
                continue
            there = {name: name.rpartition(".")[2].removeprefix("bench_") for name in scripts(home, "bench_")}
            found = [name for name, short in there.items() if options.bench in (None, short)]
            if not found:
                known = f"no bench {options.bench}; there are {', '.join(there.values())}"
                print(f"{repository.relative(home)}: has {known if there else 'no bench_*.py'}", flush=True)
                failed += [options.bench] if there else []
                continue
            python = peers.python(peers.pins(chapters))
            failed += [name for name in found if not _one(repository, chapters[0], python, name, options)]
    print(f"failed: {', '.join(failed)}" if failed else "every race came to its end", flush=True)
    return int(bool(failed))


def scripts(home: Path, start: str) -> list[str]:
    """The benches or studies of a chapter as modules: `ctc.bench_ctc` for the `start` "bench_"; sorted."""
    found = (path.relative_to(home).with_suffix("") for path in home.rglob(f"{start}*.py"))
    return sorted(".".join(path.parts) for path in found if not any(part[0] in "._" for part in path.parts[:-1]))


def _one(repository: Repository, chapter: Chapter, python: Path, name: str, options: Options) -> bool:
    """Whether one bench came to its end and left receipts that may be kept."""
    before, code = conditions.look(repository.root), state(chapter, name)
    threads, gain = options.threads or conditions.cores(), conditions.gain(before["calibration"])
    if not options.loaded and (why := disturbed("before", gain, threads, {"before": before["busy_cores"]})):
        raise Busy(f"{name}: {why}. Wait until it is over, or say --loaded, and the receipt will say so")
    command = [str(python), "-m", name]
    command += ["--rounds", str(options.rounds)] if options.rounds else []
    command += ["--threads", str(options.threads)] if options.threads else []
    print(f"{name}: {' '.join([python.name, *command[1:]])}", flush=True)
    own = environment(threads) | {"PYTHONPATH": str(repository.root)}  # the shell's threads are not the race's
    began = time.monotonic()
    with child.scratch(repository, "race") as scratch:
        ended = child.run(command, chapter.home, own, scratch, options.timeout)
        took = round(time.monotonic() - began, 3)  # of the whole process: a bench may open its receipt late
        during = {} if ended.busiest is None else {"busy_cores": ended.busiest}
        seen = {"seconds": took} | conditions.joined(before, conditions.look(repository.root), during)
        changed = CHANGED if state(chapter, name) != code else ""
        kept = _kept(repository, name, scratch, seen, options, changed) if ended.status == 0 else {}
    reasons = "; ".join(dict.fromkeys(filter(None, kept.values())))
    problem = f"not recorded: {reasons}" if reasons else "" if kept else "it wrote no receipt"
    if ended.status != 0:
        late = f"not finished after {options.timeout:.0f} s"
        problem = late if ended.status is None else f"ended with status {ended.status}"
    told = [*map(repository.relative, kept), *(f"ended what it left running: {one}" for one in ended.left)]
    told.append(plain({name: seen[name] for name in ("busy_cores", "steal", "calibration")}))
    print(f"{name}: {problem or 'done'} after {took:.0f} s", *told, sep="\n  ", flush=True)
    return not problem


def disturbed(when: str, gain: float | None, threads: int, busy: dict[str, float | None]) -> str:
    """Why nothing can be measured, or what was does not count: no second core `when` several threads want it, or other
    work at one of the times that `busy` names; empty where neither, and where nobody knows it is told."""
    if threads > 1 and gain is None:
        return f"nobody knows what a second thread gained {when} the recording"
    if threads > 1 and gain < LEAST_GAIN:
        told = f"two threads did the calibration's work {gain:.2f} times as fast as one {when} the recording"
        return f"{told}, at least {LEAST_GAIN} is needed: several threads measure who else has the second core"
    for then, cores in busy.items():
        if cores is None or cores > QUIET_CORES:
            many = "nobody knows how many" if cores is None else f"{cores:.1f}"
            told = f"{many} cores were busy {then} the recording"
            return f"{told}, at most {QUIET_CORES} may be: beside other work, that work is measured"
    return ""


def state(chapter: Chapter, name: str) -> tuple[str, str]:
    """The committed helpers, and the hash of the code that a bench or a study runs: other at its end, other code."""
    committed = (git(chapter.root, "rev-parse", "HEAD:helpers") or "").strip()
    return committed, cards.code_hash(chapter.notebook, name.replace(".", "/") + ".py")


def _kept(
    repository: Repository, name: str, scratch: Path, seen: dict, options: Options, changed: str
) -> dict[Path, str]:
    """Where the receipts of a bench went, with what the machine was like, and why one is not recorded, or ""."""
    kept, recorded = {}, repository.root / "data" / "receipts"
    for path in sorted(scratch.glob("*.json")):
        content = read_json(path) | seen
        where = place(repository, path, content, name)
        if why := changed or _why_not(content, options):
            where = repository.build / "races" / where.relative_to(recorded)
            content["not_recorded"] = why
        kept[write_json(where, content)] = why
    return kept


def _why_not(content: dict, options: Options) -> str:
    """Why a receipt must not be recorded: a core that went, or a bench that did not do what it was told; or empty."""
    threads, busy, stolen = content.get("threads") or 0, content["busy_cores"], content["steal"]["during"]
    if not options.loaded:
        beside = {"right after": busy["after"], "during": busy.get("during", 0.0)}
        if why := disturbed("after", content["calibration"]["gain_after"], threads, beside):
            return why
        if stolen is None or stolen > MOST_STEAL:
            told = "nobody knows how much" if stolen is None else f"{stolen:.1%}"
            return f"{told} of the cores' time was the host's during the race, at most {MOST_STEAL:.0%} may be"
    if options.threads and threads != options.threads:
        return f"--threads {options.threads} was asked for, the receipt says {threads}"
    took = {name: count or 0 for name, count in (content.get("threads_by_library") or {}).items()}
    odd = [f"{name} {n}" for name, n in took.items() if n > threads or (name == "torch" and n != threads)]
    if threads and odd:
        return f"the receipt says {threads} threads, at its end there were: {', '.join(odd)}; say --threads {threads}"
    repeats = {metric.get("repeats") for metric in content["metrics"].values()} - {None}
    if options.rounds and options.rounds not in repeats:
        found = ", ".join(map(str, sorted(repeats))) or "none"
        return f"--rounds {options.rounds} was asked for, the repeats of its metrics are: {found}"
    return ""


def place(repository: Repository, path: Path, content: dict, bench: str) -> Path:
    """Where a receipt `<stem>.<tier>[.<name>].json` is committed; without a name the bench's is taken."""
    stem, tier, *own = path.name.removesuffix(".json").split(".")
    name = (own[0] if own else bench.rpartition(".")[2].removeprefix("bench_")).replace("_", "-").lower()
    return repository.root / "data" / "receipts" / stem / f"{tier}-{content['machine']['slug']}-{name}.json"
