"""`press race`: the benches of a slice beside their peers, on a quiet machine; their receipts are recorded.

Each `bench_*.py` runs as a module from the slice's folder, with the environment of its peers. What it writes comes to
`data/receipts/<stem>/<tier>-<machine>-<name>.json`, with the load of the machine before and after.
"""

import os
import re
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import psutil

from ..errors import PressError
from ..files import lock, read_json, remove, write_json
from ..repository import Chapter, Repository
from ..run import processes
from ..run.suite import slices_of
from ..run.threads import ASLEEP
from . import peers

ROUNDS = 20  # of a race, unless somebody asks for fewer
QUIET_CORES = 0.3  # the part of one core that may be busy before a race
LOOK_SECONDS = 3.0
TIMEOUT_SECONDS = 3600.0


class Busy(PressError):
    """Other work runs on the machine, so there is no race now."""


@dataclass(frozen=True)
class Options:
    """What the command line says: `threads` None leaves the choice to the bench, `bench` None races all of a slice."""

    rounds: int = ROUNDS
    threads: int | None = None
    loaded: bool = False
    timeout: float = TIMEOUT_SECONDS
    bench: str | None = None


def race(repository: Repository, names: list[str] | None, options: Options = Options()) -> int:  # noqa: B008
    """Race the slices of the chosen notebooks; the exit status: 1 when a bench failed."""
    chosen = {chapter.home for chapter in repository.select(names)}
    slices = {home: chapters for home, chapters in slices_of(repository).items() if home in chosen}
    failed = []
    with lock(repository.build / ".press.lock", "press race"):
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


def busy_cores(seconds: float = LOOK_SECONDS) -> float:
    """How many of the cores that this process may use are busy, over some seconds."""
    shares = psutil.cpu_percent(interval=seconds, percpu=True)
    own = psutil.Process().cpu_affinity() if hasattr(psutil.Process, "cpu_affinity") else range(len(shares))
    return sum(shares[core] for core in own if core < len(shares)) / 100


def _one(repository: Repository, chapters: list[Chapter], python: Path, name: str, options: Options) -> bool:
    """Whether one bench came to its end and left a receipt."""
    before = busy_cores()
    if before > QUIET_CORES and not options.loaded:
        raise Busy(
            f"{before:.1f} cores are busy before {name}, at most {QUIET_CORES} may be: a race beside other work "
            f"measures that work. Wait until it is over, or say --loaded, and the receipt will say so"
        )
    scratch = repository.build / "running" / f"race-{uuid.uuid4().hex[:12]}"
    scratch.mkdir(parents=True)
    began = time.monotonic()
    try:
        problem = _run(repository, chapters[0].home, python, name, scratch, options)
        after = busy_cores()
        busy = {"before": round(before, 2), "after": round(after, 2)}
        kept = [] if problem else _keep(repository, name, scratch, busy)
    finally:
        remove(scratch)
    if not problem and not kept:
        problem = "it wrote no receipt"
    print(f"{name}: {problem or 'done'} after {time.monotonic() - began:.0f} s", flush=True)
    for path in kept:
        print(f"  {repository.relative(path)}", flush=True)
    if after > QUIET_CORES:
        print(f"  {after:.1f} cores were busy afterwards: was the machine quiet all along?", flush=True)
    return not problem


def _run(repository: Repository, home: Path, python: Path, name: str, scratch: Path, options: Options) -> str:
    """What went wrong with a bench, empty if nothing; it and all that it started are gone afterwards."""
    command = [str(python), "-m", name, "--rounds", str(options.rounds)]
    command += ["--threads", str(options.threads)] if options.threads else []
    marker = ("REBUILT_RUN", scratch.name)
    own = {"PYTHONPATH": str(repository.root), "REBUILT_RECEIPTS": str(scratch), marker[0]: marker[1]}
    print(f"{name}: {' '.join([Path(command[0]).name, *command[1:]])}", flush=True)
    process = subprocess.Popen(
        command,
        cwd=home,
        env={**ASLEEP, **os.environ, **own},
        stdin=subprocess.DEVNULL,
        start_new_session=sys.platform != "win32",
    )
    try:
        status = process.wait(options.timeout)
    except subprocess.TimeoutExpired:
        return f"not finished after {options.timeout:.0f} s"
    finally:
        left = processes.end_tree(process.pid, marker)
        process.wait()
    if left:
        print(f"{name}: ended what it left running: {', '.join(left)}", flush=True)
    return f"ended with status {status}" if status else ""


def _keep(repository: Repository, name: str, scratch: Path, busy: dict[str, float]) -> list[Path]:
    """The committed places of the receipts that a bench left; they hold how busy the machine was."""
    kept = []
    for path in sorted(scratch.glob("*.json")):
        content = read_json(path)
        if isinstance(content, dict) and "metrics" in content:
            where = place(repository, path, content, name)
            write_json(where, {**content, "busy_cores": busy})
            kept.append(where)
    return kept


def place(repository: Repository, path: Path, content: dict, bench: str) -> Path:
    """Where a receipt `<stem>.<tier>[.<name>].json` is committed; without a name the bench's is taken."""
    stem, tier, *own = path.name.removesuffix(".json").split(".")
    name = own[0] if own else short(bench)
    machine = content.get("machine") or {}
    model = machine.get("slug") or machine.get("gpu" if tier != "cpu" else "cpu") or "unknown"
    slug = re.sub(r"[^a-z0-9]+", "-", str(model).lower()).strip("-")
    name = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return repository.root / "data" / "receipts" / stem / f"{tier}-{slug}-{name}.json"
