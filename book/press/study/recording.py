"""`press study`: records what a chapter's `study_*.py` declare, alone on the machine, in pieces that survive a kill:
processes of at most an hour (`worker`). What they have measured lies in the cache under the hash of code, declaration
and versions. The receipt comes to its place as a race's does, with what the machine was like in every piece."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from helpers import cards

from ..errors import PressError, finished, git
from ..files import lock, read_json, remove, sha256, write_json
from ..race import Busy, peers
from ..race.benches import CHANGED, disturbed, place, scripts, state
from ..repository import Chapter, Repository
from ..reuse import packages, store
from ..run import child, conditions
from ..run.processes import environment
from ..run.suite import by_folder

PIECE_SECONDS = 3600.0  # of one process; what it had not finished is begun again by the next
MOST_SECONDS = 3 * 3600.0  # of one study, resumptions included
LEAST_SECONDS = 60.0  # of a process near that end
PIECES = "conditions.json"  # of each piece, beside its results
PRESS = Path(__file__).resolve().parent.parent


class Options(NamedTuple):
    """What the command line says: `study` None takes all of a chapter; a `trial` runs small and records nothing."""

    study: str | None = None
    trial: bool = False
    loaded: bool = False


def study(repository: Repository, names: list[str] | None, options: Options = Options()) -> int:  # noqa: B008
    """Record the studies of the chosen notebooks' chapters; the exit status: 1 when one failed."""
    chosen = {chapter.stem: chapter for chapter in repository.select(names)}
    problems = {}
    with lock(store.folder() / "recording.lock", "press study"):
        for one in _studies(repository, chosen, options.study):
            problems[one.name] = one.record(options)
            print(f"{one.name}: {problems[one.name] or 'done'}", flush=True)
    if not problems:
        raise PressError(f"no study {options.study or ''} in the chapters of {', '.join(map(str, chosen.values()))}")
    failed = [name for name, problem in problems.items() if problem]
    print(f"failed: {', '.join(failed)}" if failed else "every study came to its end", flush=True)
    return int(bool(failed))


def _studies(repository: Repository, chosen: dict[str, Chapter], wanted: str | None) -> Iterator["One"]:
    for home, chapters in by_folder(repository).items():
        for module in scripts(home, "study_") if set(chapters) & set(chosen.values()) else ():
            python = peers.python(peers.pins(chapters))
            own, command = {**os.environ, "PYTHONPATH": str(repository.root)}, _command(python, module=module)
            said = finished(f"{module} cannot be imported", *command, cwd=home, env=own, timeout=300)
            for name, (stem, threads) in json.loads(said.splitlines()[-1]).items():
                if stem in chosen and wanted in (None, name):
                    yield One(repository, chosen[stem], python, module, name, threads)


def _command(python: Path, **task: object) -> list[str]:
    return [str(python), str(PRESS), "study-worker", json.dumps(task)]


class One:
    """One study on its way to a receipt."""

    def __init__(self, repository: Repository, chapter: Chapter, python: Path, module: str, name: str, threads: int):
        self.repository, self.chapter, self.python = repository, chapter, python
        self.module, self.name, self.threads = module, name, threads

    def record(self, options: Options) -> str:
        """What went wrong; empty when the receipt lies in its place, or the trial came to its end."""
        alone = not (options.trial or options.loaded)
        if not options.trial and (changed := _changed(self.repository)):
            return f"not begun: {changed}; commit first, since a receipt names the code that made it"
        folder = self.folder(options.trial)
        if options.trial:
            remove(folder)
        pieces, code = read_json(folder / PIECES) or [], state(self.chapter, self.module)
        while _seconds(folder) <= MOST_SECONDS:
            before, begun = conditions.look(self.repository.root), _results(folder)
            gain, busy = conditions.gain(before["calibration"]), {"before": before["busy_cores"]}
            if alone and (why := disturbed("before", gain, self.threads, busy)):
                raise Busy(f"{self.name}: {why}. Wait until it is over, or say --loaded, and the receipt will say so")
            pieces.append(conditions.joined(before, conditions.NOT_KNOWN))
            write_json(folder / PIECES, pieces)  # so that a piece that is killed leaves what it began with
            status, receipt, busiest = self._piece(folder, options)
            during = {} if busiest is None else {"busy_cores": busiest}
            pieces[-1] = piece = conditions.joined(before, conditions.look(self.repository.root), during)
            write_json(folder / PIECES, pieces)
            gain, busy = piece["calibration"]["gain_after"], piece["busy_cores"]
            if state(self.chapter, self.module) != code and not options.trial:
                return f"not recorded: {CHANGED}"
            if alone and (why := disturbed("after", gain, self.threads, busy)):
                for path in _results(folder) - begun:
                    remove(path)
                write_json(folder / PIECES, pieces[:-1])
                return f"not recorded: {why}; what was measured before this piece is kept"
            if status == 0 and receipt and _seconds(folder) <= MOST_SECONDS:
                self._keep(folder, receipt, pieces, options.trial)
                return ""
            if status is not None and not (status == 0 and receipt):
                return f"ended with status {status}; what it has measured is kept"
            if status is None and begun == _results(folder):
                return f"nothing came to its end within {PIECE_SECONDS / 60:.0f} minutes: take smaller sizes"
        return f"{_seconds(folder) / 3600:.1f} hours, and 3 are allowed: take smaller sizes or fewer arms"

    def folder(self, trial: bool) -> Path:
        """Where this study's pieces lie: another code, another version of a package, another machine begin anew."""
        own = [*sorted((PRESS / "study").glob("*.py")), self.repository.root / "helpers" / "study.py"]
        texts = [cards.executed(path.read_text(encoding="utf-8")) for path in own]
        code = cards.code_hash(self.chapter.notebook, self.module.replace(".", "/") + ".py")
        installed = {name: packages.version(name) for name in self.repository.pins}
        made_of = json.dumps([code, installed, sys.version, trial, texts])
        name = f"{self.chapter.stem}-{self.name}{'-trial' * trial}-{sha256(made_of)[:12]}"
        return store.folder() / "studies" / name

    def _piece(self, folder: Path, options: Options) -> tuple[int | None, dict | None, float | None]:
        """(exit status, the receipt if it wrote one, cores that others took); None where the hour was over."""
        told = f"make study CHAPTERS={self.chapter.part}/{self.chapter.folder} STUDY={self.name}"
        task = {"module": self.module, "study": self.name, "trial": options.trial, "command": told}
        command = _command(self.python, **task, folder=str(folder))
        own = environment(self.threads) | {"PYTHONPATH": str(self.repository.root)}
        left = max(LEAST_SECONDS, min(PIECE_SECONDS, MOST_SECONDS - _seconds(folder)))
        with child.scratch(self.repository, "study") as scratch:
            ended = child.run(command, self.chapter.home, own, scratch, left)
            found = [read_json(path) for path in sorted(scratch.glob("*.json"))]
        return ended.status, found[0] if found else None, ended.busiest

    def _keep(self, folder: Path, receipt: dict, pieces: list[dict], trial: bool) -> None:
        """Put the receipt into its place, with all pieces' seconds and what the machine was like; not a trial's."""
        seconds, name = _seconds(folder), f"{self.chapter.stem}.{receipt['tier']}.{self.name}.json"
        if trial:
            print(f"{self.name}-trial: {seconds:.0f} s, nothing recorded", flush=True)
        else:
            about = {"study": {**receipt["study"], "pieces": len(pieces)}, "seconds": round(seconds, 1)}
            where = place(self.repository, Path(name), receipt, self.name)
            write_json(where, {**receipt, **_spanned(pieces), **about})
            print(f"{self.name}: {seconds / 60:.0f} minutes\n  {self.repository.relative(where)}", flush=True)
        remove(folder)


def _results(folder: Path) -> set[Path]:
    return {path for path in folder.glob("*.json") if path.name != PIECES}


def _seconds(folder: Path) -> float:
    """The seconds that all of it took, whenever it was measured."""
    return sum(read_json(path)["seconds"] for path in _results(folder))


def _spanned(pieces: list[dict]) -> dict:
    """The conditions of all pieces in one: before the first, after the last, and the worst in between."""
    first, last = pieces[0], pieces[-1]
    found = {"calibration": first["calibration"] | {one: last["calibration"][one] for one in ("after_s", "gain_after")}}
    for name in ("busy_cores", "steal", "load"):
        between = [value for piece in pieces for value in piece[name].values() if value is not None]
        found[name] = first[name] | {"after": last[name]["after"], "during": max(between, default=None)}
    return found


def _changed(repository: Repository) -> str:
    """Which files differ from the last commit or are not in it, receipts and predictions apart; empty when none."""
    apart = ("--untracked-files=all", "--", ".", ":!data/receipts", ":!data/predictions")
    rows = git(repository.root, "status", "--porcelain", *apart)
    changed = ["no git repository"] if rows is None else [row[3:] for row in rows.splitlines()]
    verb = "differ" if len(changed) > 1 else "differs"
    return f"{', '.join(changed[:3])} {verb} from the last commit" if changed else ""
