"""`press receipt`: a reader's card measures, and what to send is laid out and checked."""

import json
import subprocess
import sys
from pathlib import Path

from .. import race, run
from ..errors import PressError
from ..files import read_json, write_json
from ..repository import Chapter, Repository
from .rules import problems

FORM = "receipt.yml"  # in .github/ISSUE_TEMPLATE
LOOK = "import json; from helpers import device; print(json.dumps(device.machine()))"


def receipt(repository: Repository, names: list[str] | None, races: race.Options | None) -> int:
    """Measure the chosen chapters on this machine's GPU and say what to send; 0 where all of it may be sent.

    `races` None measures the notebooks alone, without the races and their peers.
    """
    machine = machine_here(repository)
    if not machine.get("gpu"):
        print("torch sees no GPU here, and receipts are wanted from machines with one; `make rehearse` needs none")
        return 2
    print(f"{machine['gpu']}: notebooks{', then races' if races else ''}", flush=True)
    status = run.report(run.run(repository, names, run.Options(force=True)))  # a kept run may be beside other work
    status |= raced(repository, names, races) if races else 0
    files = [path for chapter in repository.select(names) for path in laid_out(chapter, machine["slug"])]
    return tell(repository, files) or status


def raced(repository: Repository, names: list[str] | None, options: race.Options) -> int:
    """The races' exit status; where they cannot be run the notebooks' receipts are there all the same.

    A machine that is busy is no failure, for nothing is wrong with it; a peer that cannot be installed is one.
    """
    try:
        return race.race(repository, names, options)
    except PressError as error:
        busy = isinstance(error, race.Busy)
        print(f"{'no race' if busy else 'the races failed'}: {error}", flush=True)
        return int(not busy)


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
    found = {repository.relative(path): problems(repository, path) for path in files}
    for name, wrong in found.items():
        print(f"{name}: {'; '.join(wrong) or 'may be sent'}", flush=True)
    good = [name for name, wrong in found.items() if not wrong]
    if good:
        print("\nThank you. Send what may be sent in one of two ways; look inside first:")
        print(f"  a pull request that adds {', '.join(good)}")
        print(f"  or paste each into the form at {repository.url}/issues/new?template={FORM}")
    return int(not good or len(good) < len(files))
