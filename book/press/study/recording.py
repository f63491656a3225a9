"""`press study`: records what a slice's `study_*.py` declare, alone on the machine, in pieces that survive a kill.

Each study runs in processes of at most an hour (`worker`). What it has measured lies in the cache, outside the clone,
under the hash of code, declaration and versions: a study that is started again goes on. The receipt comes to
`data/receipts/<stem>/<tier>-<machine>-<name>.json` as a race's does, with what the machine was like in every piece.
"""

import json
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

from helpers import cards

from ..errors import PressError
from ..files import lock, read_json, remove, sha256, write_json
from ..race import Busy, peers
from ..race.benches import CHANGED, LEAST_GAIN, QUIET_CORES, lonely, place, state
from ..repository import Repository
from ..reuse import store
from ..reuse.packages import pinned
from ..run import child, conditions
from ..run.suite import slices_of
from ..run.threads import environment
from .worker import LATER

PIECE_SECONDS = 3600.0  # of one process; it begins no new arm in its second half
MOST_SECONDS = 3 * 3600.0  # of one study, resumptions included
LEAST_SECONDS = 60.0  # of a process near that end
PIECES = "conditions.json"  # of each piece, beside its results
PRESS = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Options:
    """What the command line says: `study` None takes all of a slice; a `trial` runs small and records nothing."""

    study: str | None = None
    trial: bool = False
    loaded: bool = False


def study(repository: Repository, names: list[str] | None, options: Options = Options()) -> int:  # noqa: B008
    """Record the studies of the chosen notebooks' slices; the exit status: 1 when one failed."""
    chosen = repository.select(names)
    failed, found = [], []
    with lock(store.folder() / "recording.lock", "press study"):
        for home, chapters in slices_of(repository).items():
            if home not in {chapter.home for chapter in chosen}:
                continue
            python = peers.python(peers.pins(chapters))
            stems = {chapter.stem for chapter in chosen}
            for module in modules(home):
                declared = _declared(repository, home, python, module)
                own = [name for name, (stem, _) in declared.items() if stem in stems and options.study in (None, name)]
                found += own
                for name in own:
                    one = One(repository, home, python, module, name, *declared[name])
                    if problem := one.record(options):
                        print(f"{name}: {problem}", flush=True)
                        failed.append(name)
    if not found:
        raise PressError(f"no study {options.study or ''} in the slices of {', '.join(map(str, chosen))}")
    print(f"failed: {', '.join(failed)}" if failed else "every study came to its end", flush=True)
    return int(bool(failed))


def modules(home: Path) -> list[str]:
    """The modules of a slice that declare studies, such as `fine_tuning.study_accents`, sorted."""
    found = (path.relative_to(home).with_suffix("") for path in home.rglob("study_*.py"))
    return sorted(".".join(path.parts) for path in found if not any(part[0] in "._" for part in path.parts[:-1]))


def _declared(repository: Repository, home: Path, python: Path, module: str) -> dict[str, list]:
    """{name: [notebook, threads]} of the studies in a module."""
    done = subprocess.run(
        [str(python), str(PRESS), "study-worker", module],
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(repository.root)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        raise PressError(f"{module} cannot be imported: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


class One:
    """One study on its way to a receipt."""

    def __init__(
        self, repository: Repository, home: Path, python: Path, module: str, name: str, stem: str, threads: int
    ):
        self.repository, self.home, self.python = repository, home, python
        self.module, self.name, self.stem, self.threads = module, name, stem, threads
        self.script = module.replace(".", "/") + ".py"
        slice_name = home.relative_to(repository.root / "notebooks").as_posix()
        self.command = f"make study CHAPTERS={slice_name} STUDY={name}"

    def record(self, options: Options) -> str:
        """What went wrong; empty when the receipt lies in its place, or the trial came to its end."""
        self.name += "-trial" * options.trial
        if not options.trial and (changed := _changed(self.repository)):
            return (
                f"not begun: {changed} from the last commit; commit first, since a receipt names the code that made it"
            )
        folder = self.folder(options.trial)
        if options.trial:
            remove(folder)
        pieces, code = read_json(folder / PIECES) or [], self.state()
        while True:
            if _seconds(folder) > MOST_SECONDS:
                return f"{_seconds(folder) / 3600:.1f} hours, and 3 are allowed: take smaller sizes or fewer arms"
            before = conditions.look(self.repository.root)
            if not (options.trial or options.loaded):
                _quiet(before, self.name, self.threads)
            begun = _results(folder)
            pieces.append(conditions.joined(before, conditions.NOT_KNOWN))
            write_json(folder / PIECES, pieces)  # so that a piece that is killed leaves what it began with
            status, receipt, busiest = self._piece(folder, options)
            during = {} if busiest is None else {"busy_cores": busiest}
            pieces[-1] = conditions.joined(before, conditions.look(self.repository.root), during)
            write_json(folder / PIECES, pieces)
            if self.state() != code and not options.trial:
                return f"not recorded: {CHANGED}"
            if not (options.trial or options.loaded) and (why := _disturbed(pieces[-1], self.threads)):
                _forget(folder, begun, pieces[:-1])
                return f"not recorded: {why}; what was measured before this piece is kept"
            if status == 0 and receipt and _seconds(folder) <= MOST_SECONDS:
                break
            if status not in (LATER, None) and not (status == 0 and receipt):
                return f"ended with status {status}; what it has measured is kept"
            if status is None and len(begun) == len(_results(folder)):
                return f"nothing came to its end within {PIECE_SECONDS / 60:.0f} minutes: take smaller sizes"
        if options.trial:
            print(f"{self.name}: {_seconds(folder):.0f} s, nothing recorded", flush=True)
        else:
            self._keep(receipt, pieces, _seconds(folder))
        remove(folder)
        return ""

    def folder(self, trial: bool) -> Path:
        """Where this study's pieces lie: another code, another version of a package, another machine begin anew."""
        notebook = self.home / f"{self.stem}.ipynb"
        own = [cards.executed(path.read_text(encoding="utf-8")) for path in sorted((PRESS / "study").glob("*.py"))]
        own.append(cards.executed((self.repository.root / "helpers" / "study.py").read_text(encoding="utf-8")))
        made_of = [cards.code_hash(notebook, self.script), pinned(self.repository.root), sys.version, trial, own]
        return store.folder() / "studies" / f"{self.stem}-{self.name}-{sha256(json.dumps(made_of))[:12]}"

    def state(self) -> tuple[str, str]:
        """The helpers and the hash of the code: what they are at the begin they must be at the end."""
        return state(next(one for one in self.repository.chapters if one.stem == self.stem), self.module)

    def _piece(self, folder: Path, options: Options) -> tuple[int | None, dict | None, float | None]:
        """(exit status, the receipt if it wrote one, cores that others took); None where the hour was over."""
        scratch = self.repository.build / "running" / f"study-{uuid.uuid4().hex[:12]}"
        scratch.mkdir(parents=True)
        command = [str(self.python), str(PRESS), "study-worker", self.module]
        command += ["--study", self.name.removesuffix("-trial"), "--folder", str(folder), "--command", self.command]
        command += ["--seconds", str(PIECE_SECONDS / 2)] + ["--trial"] * options.trial
        own = environment(self.threads) | {"PYTHONPATH": str(self.repository.root)}
        try:
            left = max(LEAST_SECONDS, min(PIECE_SECONDS, MOST_SECONDS - _seconds(folder)))
            ended = child.run(command, self.home, own, scratch, left)
            found = [read_json(path) for path in sorted(scratch.glob("*.json"))]
        finally:
            remove(scratch)
        return ended.status, found[0] if found else None, ended.busiest

    def _keep(self, receipt: dict, pieces: list[dict], seconds: float) -> None:
        """Put the receipt into its place, with all pieces' seconds and what the machine was like at both ends."""
        about = {**receipt["study"], "pieces": len(pieces)}
        seen = _spanned(pieces)
        where = place(self.repository, Path(f"{self.stem}.{receipt['tier']}.{self.name}.json"), receipt, self.name)
        write_json(where, {**receipt, **seen, "study": about, "seconds": round(seconds, 1)})
        print(f"{self.name}: {seconds / 60:.0f} minutes\n  {self.repository.relative(where)}", flush=True)


def _results(folder: Path) -> list[Path]:
    """The files of what has been made or scored."""
    return [path for path in folder.glob("*.json") if path.name != PIECES]


def _forget(folder: Path, begun: list[Path], pieces: list[dict]) -> None:
    """None; what the last piece measured is gone: results are those of its begin, conditions those before it."""
    for path in set(_results(folder)).difference(begun):
        remove(path)
    write_json(folder / PIECES, pieces)


def _seconds(folder: Path) -> float:
    """The seconds that all of it took, whenever it was measured."""
    return sum(read_json(path)["seconds"] for path in _results(folder))


def _spanned(pieces: list[dict]) -> dict:
    """The conditions of all pieces in one: before the first, after the last, and the worst in between."""
    first, last = pieces[0], pieces[-1]
    found = {}
    for name in ("busy_cores", "steal", "load"):
        between = [value for piece in pieces for value in piece[name].values() if value is not None]
        found[name] = {"before": first[name]["before"], "after": last[name]["after"]}
        found[name] |= {"during": max(between) if between else None}
    calibration = {key: value for key, value in first["calibration"].items() if not key.endswith(("after", "after_s"))}
    calibration |= {key: last["calibration"][key] for key in ("after_s", "gain_after") if key in last["calibration"]}
    return {"calibration": calibration} | found


def _quiet(look: dict, name: str, threads: int) -> None:
    """None; Busy where other work runs, or several threads share a core, or nobody can tell."""
    gain = conditions.gain(look["calibration"])
    if threads > 1 and (gain is None or gain < LEAST_GAIN):
        raise Busy(f"{lonely('before', gain)}. Wait until it is there, or say --loaded, and the receipt will say so")
    if look["busy_cores"] is None or look["busy_cores"] > QUIET_CORES:
        told = "it is not known how many" if look["busy_cores"] is None else f"{look['busy_cores']:.1f}"
        raise Busy(
            f"{told} cores are busy before {name}, at most {QUIET_CORES} may be: a recording runs alone. Wait until "
            f"the other work is over, or say --loaded, and the receipt will say so"
        )


def _disturbed(piece: dict, threads: int) -> str:
    """Why what a piece has measured does not count: others worked while it ran, or the second core went; or empty."""
    gain, busy = piece["calibration"].get("gain_after"), piece["busy_cores"]
    if threads > 1 and (gain is None or gain < LEAST_GAIN):
        return lonely("after", gain)
    if busy["after"] is None or max(busy.values()) > QUIET_CORES:
        told = "nobody knows how many" if busy["after"] is None else f"{max(busy.values()):.1f}"
        return f"{told} cores were busy with other work while it ran, at most {QUIET_CORES} may be"
    return ""


def _changed(repository: Repository) -> str:
    """Which files differ from the last commit or are not in it, receipts and predictions apart; empty when none."""
    told = ["git", "status", "--porcelain", "--untracked-files=all", "--", ".", ":!data/receipts", ":!data/predictions"]
    done = subprocess.run(told, cwd=repository.root, capture_output=True, text=True, timeout=60)
    rows = done.stdout.split("\n") if done.returncode == 0 else ["   no git repository"]
    changed = [row[3:] for row in rows if row.strip()]
    return (
        f"{', '.join(changed[:3])} {'differ' if len(changed) > 1 else 'differs'} from the last commit"
        if changed
        else ""
    )
