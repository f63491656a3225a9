"""Receipts from a reader's card: `receipt` makes and gathers them (`press receipt`), `problems` judges what comes in.
No rule looks at how a claim came out; a value is refused only where the datasheet of its card does not allow it."""

import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from helpers import device, receipts, verdicts
from rehearsal.predict import CARDS

from .. import race, run
from ..errors import PressError, finished, git
from ..files import breaches, read_json, write_json
from ..predict import kept
from ..predict.counting import sizes_of
from ..predict.pages import model
from ..repository import Chapter, Repository

FORM = "receipt.yml"  # in .github/ISSUE_TEMPLATE
LOOK = "import json; from helpers import device; print(json.dumps(device.machine()))"
SCHEMA = Path(__file__).with_name("receipt.schema.json")
LARGEST_BYTES = 200_000
BIG_BYTES = 39e9  # of the memory of a card at tier big: one with 40 GB shows a little less
BEYOND = 3.0  # times what a datasheet allows: cards with more memory and faster clocks share its name
NETWORK = "an address of the network"
PRIVATE = {  # /content/ and /kaggle/ are the same for everybody there, and public
    "a path of somebody's machine": r"(?<![\w.])(/home/|/Users/|/root/|/mnt/|/tmp/|/workspace/|[A-Za-z]:\\)",
    "an address of mail": r"[\w.+-]+@[\w-]+\.[a-z]{2,}",
    NETWORK: r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b",
}


def receipt(repository: Repository, names: list[str] | None, races: race.Options | None) -> int:
    """Measure the chosen chapters on this machine's GPU, with their `races` if given; 0 where all of it may be sent."""
    machine = machine_here(repository)
    if not machine.get("gpu"):
        print("torch sees no GPU here, and receipts are wanted from machines with one; `make rehearse` needs none")
        return 2
    print(f"{machine['gpu']}: notebooks{', then races' if races else ''}", flush=True)
    tier = "gpu" if machine["gpu_memory_bytes"] < device.BIG_BYTES else "big"  # "auto" asks for a receipt first
    options = run.Options(tier=tier, force=True)  # a kept run may be beside other work
    status = run.report(run.run(repository, names, options))
    status |= raced(repository, names, races) if races else 0
    files = [path for chapter in repository.select(names) for path in laid_out(chapter, machine["slug"])]
    return tell(repository, files) or status


def raced(repository: Repository, names: list[str] | None, options: race.Options) -> int:
    """The exit status of the races, 0 on a busy machine; the notebooks' receipts are there without them."""
    try:
        return race.race(repository, names, options)
    except PressError as error:
        busy = isinstance(error, race.Busy)
        print(f"{'no race' if busy else 'the races failed'}: {error}", flush=True)
        return int(not busy)


def machine_here(repository: Repository) -> dict:
    """What helpers say of this machine, asked in a process of its own; PressError where they cannot."""
    problem = "this machine could not be looked at"
    said = finished(problem, sys.executable, "-c", LOOK, cwd=repository.root, timeout=120)
    return json.loads(said.splitlines()[-1])


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


def problems(repository: Repository, path: Path) -> list[str]:
    """What is wrong with a receipt in `data/receipts/<stem>/`; empty where nothing is."""
    chapters = {chapter.stem: chapter for chapter in repository.chapters}
    if path.parent.name not in chapters:
        return [f"its folder is {path.parent.name}; there are notebooks {', '.join(sorted(chapters))}"]
    if path.stat().st_size > LARGEST_BYTES:
        return [f"{path.stat().st_size:,} bytes; at most {LARGEST_BYTES:,} are allowed"]
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(content, allow_nan=False)  # ValueError for what JSON has no word for, and Python reads all the same
        if wrong := breaches(SCHEMA, content, "the receipt"):
            return wrong
        receipts.read(path)
    except RecursionError:
        return ["it is nested deeper than a receipt ever is"]
    except ValueError as error:
        return [str(error).replace(f"{path}", path.name)]
    return list(_of_content(chapters[path.parent.name], path.name, content))


def _of_content(chapter: Chapter, name: str, content: dict) -> Iterator[str]:
    """What is wrong with a receipt of the right form."""
    slug, tier, own = content["machine"]["slug"], content["tier"], f"{chapter.part}/{chapter.folder}"
    if (content["chapter"], content["notebook"]) != (own, chapter.stem):
        yield f"it is of {content['chapter']}, notebook {content['notebook']}, and lies with {chapter.stem}"
    if not re.fullmatch(rf"{tier}-{re.escape(slug)}(-[a-z0-9-]+)?\.json", name):
        yield f"it is called {name}; allowed is {tier}-{slug}.json, for a race or a study {tier}-{slug}-NAME.json"
    try:  # one to come within a day is a clock of another zone
        if datetime.fromisoformat(content["date"]) > datetime.now(UTC) + timedelta(days=1):
            yield f"its date is {content['date']}, which is to come"
    except ValueError:
        yield f"its date is {content['date']}, which is no date"
    versions = {"versions": {}, "peers": {}, "machine": content["machine"] | {"os": ""}}  # look like addresses
    for what, pattern in PRIVATE.items():
        told = json.dumps(content | versions if what == NETWORK else content)
        texts = map(json.loads, re.findall(r'"(?:[^"\\]|\\.)*"', told))  # names, too
        yield from (f"{what}: {text!r}" for text in texts if re.search(pattern, text))
    yield from _device(chapter, content)
    yield from _metrics(chapter, content)
    if tier != "cpu":
        yield from _code(chapter, content)
        yield from () if content.get("script") else _page(chapter, content)


def _code(chapter: Chapter, content: dict) -> Iterator[str]:
    """A GPU's run is of today's code, or names a commit of this history and says that nothing was changed in it: that
    is believed, and in a clone without history the commit, too. In the ledger such a run decides nothing."""
    commit = content.get("commit")
    if not receipts.stale(content, chapter.notebook):
        return
    whole = git(chapter.root, "rev-parse", "--is-shallow-repository") == "false\n"
    if content.get("dirty"):
        yield "its code was changed and not committed, so nobody can know it; run what a commit holds"
    elif not commit or whole and git(chapter.root, "cat-file", "-t", commit) != "commit\n":
        yield f"its code is neither today's nor that of a commit here ({commit})"


def _device(chapter: Chapter, content: dict) -> Iterator[str]:
    """A GPU's tier ran on one, a real one; and so did what a claim about GPUs is judged by."""
    machine, tier, metrics = content["machine"], content["tier"], content["metrics"]
    gpu, slug, memory = machine.get("gpu") or "", machine["slug"], machine.get("gpu_memory_bytes") or 0
    named = re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")  # as `helpers.device` does
    wrong = {
        "its GPU is the pretended one, on which nothing can be measured": "pretended" in named,
        f"its machine is called {slug}, and its GPU is {gpu}: {named} is allowed": gpu and slug != named,
        f"it is of tier {tier}, and its machine has no GPU": tier != "cpu" and not gpu,
        f"it is of tier big, and its GPU has {memory} bytes; 40 GB are asked for": tier == "big" and memory < BIG_BYTES,
    }
    for name, metric in metrics.items():
        on_gpu = (metric.get("device") or "").startswith("cuda")
        wrong[f"metric {name} says {metric.get('device')}, and the machine has no GPU"] = on_gpu and not gpu
    for claim in chapter.card.get("claims") or []:
        on_cpu = tier != "cpu" and metrics.get(claim["metric"], {}).get("device") == "cpu"
        told = f"metric {claim['metric']} was measured on the CPU, and claim {claim['id']} wants a GPU"
        wrong[told] = on_cpu and claim.get("runs_on") == "gpu"
    yield from (told for told, holds in wrong.items() if holds)


def _page(chapter: Chapter, content: dict) -> Iterator[str]:
    """A notebook's run on a GPU has the tier's sizes where it names them, and measures a claim of the card."""
    wanted = sizes_of(chapter)[content["tier"]]
    for name, size in content.get("sizes", {}).items():
        if isinstance(wanted.get(name), int | float) and wanted[name] != size:
            yield f"size {name} is {size}; tier {content['tier']} has {wanted[name]}"
    asked = {claim["metric"] for claim in chapter.card.get("claims") or []}
    if asked and not asked & content["metrics"].keys():
        yield "no claim of the card is measured by it"


def _metrics(chapter: Chapter, content: dict) -> Iterator[str]:
    """Units are the card's, times and rates are above zero, and within what the card's datasheet allows."""
    for name, metric in content["metrics"].items():
        if verdicts.timing(metric) and metric["value"] <= 0 and not content.get("study"):  # its minutes may be a loss
            yield f"metric {name} is {metric['value']} {metric['unit']}; a time or a rate is above zero"
    counts, gpu = kept.read(chapter), (content["machine"].get("gpu") or "").upper().replace("-", " ").split()
    for claim in chapter.card.get("claims") or []:
        name, unit, metric = claim["metric"], claim["unit"], content["metrics"].get(claim["metric"])
        if metric and metric["unit"] != unit:
            yield f"metric {name} is in {metric['unit']!r}; its claim is in {unit!r}"
        elif metric and counts and content["tier"] in CARDS:
            for one, bound in counts.metric(name, unit, content["tier"]):
                times = metric["value"] / bound if claim["better"] == "higher" else bound / metric["value"]
                if model(one.card) in gpu and times > BEYOND:  # not waited for, or another thing was measured
                    told = f"{times:.1f} times as good as was predicted for {one.card} ({bound:.3g} {unit})"
                    yield f"metric {name} is {told}; was the GPU waited for?"
