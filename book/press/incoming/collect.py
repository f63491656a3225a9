"""`press receipt`: a reader's card measures, and what to send is laid out and checked."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .. import race, run
from ..errors import PressError
from ..files import read_json, write_json
from ..repository import Chapter, Repository
from .rules import problems

FORM = "receipt.yml"  # in .github/ISSUE_TEMPLATE
LOOK = "import json; from helpers import device; print(json.dumps(device.machine()))"


@dataclass(frozen=True)
class Options:
    """What the command line says; `page`: the notebook alone, without the races and their peers; the rest is theirs."""

    page: bool = False
    rounds: int | None = None
    loaded: bool = False
    threads: int | None = None
    bench: str | None = None


def receipt(repository: Repository, names: list[str] | None, options: Options = Options()) -> int:  # noqa: B008
    """Measure the chosen chapters on this machine's GPU and say what to send; 0 where all of it may be sent."""
    machine = machine_here(repository)
    if not machine.get("gpu"):
        print(
            "torch sees no GPU here, and receipts are wanted from machines with one. What needs none: `make rehearse`"
        )
        return 2
    print(f"{machine['gpu']}: notebooks{'' if options.page else ', then races'}", flush=True)
    anew = run.Options(force=True)  # a kept run is older, or was beside other work
    status = run.report(run.run(repository, names, anew))
    status |= 0 if options.page else raced(repository, names, options)
    files = [path for chapter in repository.select(names) for path in laid_out(chapter, machine["slug"])]
    return tell(repository, files) or status


def raced(repository: Repository, names: list[str] | None, options: Options) -> int:
    """The races' exit status; where they cannot be run the notebooks' receipts are there all the same.

    A machine that is busy is no failure, for nothing is wrong with it; a peer that cannot be installed is one.
    """
    own = race.Options(options.rounds, options.threads, options.loaded, bench=options.bench)
    try:
        return race.race(repository, names, own)
    except race.Busy as error:
        print(f"no race: {error}", flush=True)
        return 0
    except PressError as error:
        print(f"the races failed: {error}", flush=True)
        return 1


def machine_here(repository: Repository) -> dict:
    """What helpers say of this machine, asked in a process of its own; PressError where they cannot."""
    asked = [sys.executable, "-c", LOOK]
    done = subprocess.run(asked, cwd=repository.root, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise PressError(f"this machine could not be looked at: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def laid_out(chapter: Chapter, slug: str) -> list[Path]:
    """The receipts of this GPU in `data/receipts/<stem>/`; the notebook's own is put there first."""
    folder = chapter.root / "data" / "receipts" / chapter.stem
    for content in ((read_json(chapter.run_record) or {}).get("receipts") or {}).values():
        if content["tier"] != "cpu" and content["machine"].get("slug") == slug:
            write_json(folder / f"{content['tier']}-{slug}.json", content)
    return sorted(path for tier in ("gpu", "big") for path in folder.glob(f"{tier}-{slug}*.json"))


def tell(repository: Repository, files: list[Path]) -> int:
    """Say which files to send and how, and what is wrong with them; 1 where something is, or there are none."""
    found = {path: problems(repository, path) for path in files}
    for path, wrong in found.items():
        print(f"{repository.relative(path)}: {'may be sent' if not wrong else '; '.join(wrong)}", flush=True)
    good = [path for path, wrong in found.items() if not wrong]
    if good:
        address = f"{repository.url}/issues/new?template={FORM}"
        print(f"\nThank you. Send {'it' if len(good) == 1 else 'them'} in one of two ways; look inside first:")
        print(f"  a pull request that adds {', '.join(repository.relative(path) for path in good)}")
        print(f"  or paste {'it' if len(good) == 1 else 'each'} into the form at {address}")
    return int(not good or len(good) < len(files))
