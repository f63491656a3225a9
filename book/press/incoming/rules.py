"""What has to hold for a receipt before it is committed, wherever it was measured.

No rule looks at how a claim came out. A value is refused only where the datasheet of its card does not allow it.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import jsonschema

from helpers import receipts
from rehearsal.predict import CARDS

from ..ledger.ledger import TIMING
from ..predict import kept
from ..predict.counting import sizes_of
from ..predict.pages import model
from ..repository import Chapter, Repository

SCHEMA = Path(__file__).resolve().parent / "receipt.schema.json"
LARGEST_BYTES = 200_000
BIG_BYTES = 39e9  # of the memory of a card at tier big: one with 40 GB shows a little less
BEYOND = 3.0  # times what a datasheet allows: cards with more memory and faster clocks share its name
NETWORK = "an address of the network"
PRIVATE = {  # /content/ and /kaggle/ are the same for everybody there, and public
    "a path of somebody's machine": r"(?<![\w.])(/home/|/Users/|/root/|/mnt/|/tmp/|/workspace/|[A-Za-z]:\\)",
    "an address of mail": r"[\w.+-]+@[\w-]+\.[a-z]{2,}",
    NETWORK: r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b",
}


@cache
def validator() -> jsonschema.Draft202012Validator:
    """The validator of a receipt."""
    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def problems(repository: Repository, path: Path) -> list[str]:
    """What is wrong with a receipt in `data/receipts/<stem>/`; empty where nothing is."""
    chapters = {chapter.stem: chapter for chapter in repository.chapters}
    chapter = chapters.get(path.parent.name)
    if chapter is None:
        return [f"its folder is {path.parent.name}; there are notebooks {', '.join(sorted(chapters))}"]
    if path.stat().st_size > LARGEST_BYTES:
        return [f"{path.stat().st_size:,} bytes; at most {LARGEST_BYTES:,} are allowed"]
    try:
        content = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refused)
        found = [f"{_place(error)}: {error.message}" for error in validator().iter_errors(content)]
        if not found:
            receipts.read(path)
    except RecursionError:
        return ["it is nested deeper than a receipt ever is"]
    except ValueError as error:
        return [str(error).replace(f"{path}", path.name)]
    return found or list(_of_content(chapter, path.name, content))


def _refused(constant: str):
    """What JSON has no word for, and Python writes all the same."""
    raise ValueError(f"it holds {constant}; a receipt's numbers are finite")


def _place(error: jsonschema.ValidationError) -> str:
    return ".".join(map(str, error.absolute_path)) or "the receipt"


def _of_content(chapter: Chapter, name: str, content: dict) -> Iterator[str]:
    """What is wrong with a receipt of the right form."""
    slug, tier = content["machine"].get("slug"), content["tier"]
    if content["notebook"] != chapter.stem or content["chapter"] != f"{chapter.part}/{chapter.folder}":
        yield f"it is of {content['chapter']}, notebook {content['notebook']}, and lies with {chapter.stem}"
    if not re.fullmatch(rf"{tier}-{re.escape(slug or '')}(-[a-z0-9-]+)?\.json", name):
        yield f"it is called {name}; allowed is {tier}-{slug}.json, for a race or a study {tier}-{slug}-NAME.json"
    yield from _date(content["date"])
    for what, pattern in PRIVATE.items():
        texts = _texts(content, versions=what != NETWORK)
        yield from (f"{what}: {text!r}" for text in texts if re.search(pattern, text))
    yield from _code(chapter, content)
    yield from _device(chapter, content)
    yield from _sizes(chapter, content)
    yield from _metrics(chapter, content)


def _date(text: str) -> Iterator[str]:
    """A day that has been; one to come within a day is a clock of another zone."""
    try:
        when = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        yield f"its date is {text}, which is no date"
        return
    if when > datetime.now(UTC) + timedelta(days=1):
        yield f"its date is {text}, which is to come"


def _texts(value, versions: bool) -> Iterator[str]:
    """All texts in a receipt, names too; `versions` of programs and systems look like addresses of the network."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one, versions)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from _texts(one, versions) if versions or key not in ("versions", "peers", "os") else ()


def _code(chapter: Chapter, content: dict) -> Iterator[str]:
    """A GPU's run is of today's code, or names a commit of this history and says that nothing was changed in it.

    Nobody computes the hash of an older commit's code, so that word is believed; in the ledger the run decides nothing.
    """
    if content["tier"] == "cpu" or not receipts.stale(content, chapter.notebook):
        return
    if content.get("dirty"):
        yield "its code was changed and not committed, so nobody can know it; run what a commit holds"
    elif not content.get("commit") or not _has(chapter.root, content["commit"]):
        yield f"its code is neither today's nor that of a commit here ({content.get('commit')})"


def _has(root: Path, commit: str) -> bool:
    """Whether the repository's history holds a commit; a clone without its history cannot tell, and believes it."""
    if not re.fullmatch(r"[0-9a-f]{7,40}", commit):
        return False
    git = ["git", "-C", str(root)]
    shallow = subprocess.run(
        [*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True, check=False
    )
    if shallow.returncode or shallow.stdout.strip() == "true":
        return True
    return not subprocess.run(
        [*git, "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True, check=False
    ).returncode


def _device(chapter: Chapter, content: dict) -> Iterator[str]:
    """A GPU's tier ran on one, a real one; and so did what a claim about GPUs is judged by."""
    machine, tier = content["machine"], content["tier"]
    gpu = machine.get("gpu")
    if gpu and "pretended" in gpu.lower():
        yield "its GPU is the pretended one, on which nothing can be measured"
    if not machine.get("slug"):
        yield "its machine has no slug"
    elif gpu and machine["slug"] != named(gpu):
        yield f"its machine is called {machine['slug']}, and its GPU is {gpu}: {named(gpu)} is allowed"
    if tier != "cpu" and not gpu:
        yield f"it is of tier {tier}, and its machine has no GPU"
    if tier == "big" and gpu and (machine.get("gpu_memory_bytes") or 0) < BIG_BYTES:
        yield f"it is of tier big, and its GPU has {machine.get('gpu_memory_bytes')} bytes; 40 GB are asked for"
    for name, metric in content["metrics"].items():
        if (metric.get("device") or "").startswith("cuda") and not gpu:
            yield f"metric {name} says {metric['device']}, and the machine has no GPU"
    for claim in chapter.card.get("claims") or []:
        metric = content["metrics"].get(claim["metric"])
        if tier != "cpu" and metric and claim.get("runs_on") == "gpu" and metric.get("device") == "cpu":
            yield f"metric {claim['metric']} was measured on the CPU, and claim {claim['id']} wants a GPU"


def named(gpu: str) -> str:
    """A card's name in the names of files, as `helpers.device` makes it."""
    return re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")


def _sizes(chapter: Chapter, content: dict) -> Iterator[str]:
    """The sizes that a notebook's run at a GPU's tier names are that tier's."""
    if content["tier"] != "cpu" and not content.get("script"):
        wanted = sizes_of(chapter)[content["tier"]]
        for name, size in content.get("sizes", {}).items():
            if isinstance(wanted.get(name), int | float) and wanted[name] != size:
                yield f"size {name} is {size}; tier {content['tier']} has {wanted[name]}"


def _metrics(chapter: Chapter, content: dict) -> Iterator[str]:
    """Units are the card's, times and rates are above zero, and within what the card's datasheet allows."""
    claims = chapter.card.get("claims") or []
    named = {claim["metric"] for claim in claims}
    if content["tier"] != "cpu" and not content.get("script") and named and not named & content["metrics"].keys():
        yield "no claim of the card is measured by it"
    for name, metric in content["metrics"].items():
        if TIMING.fullmatch(metric["unit"]) and metric["value"] <= 0:
            yield f"metric {name} is {metric['value']} {metric['unit']}; a time or a rate is above zero"
    counts = kept.read(chapter)
    for claim in claims:
        metric = content["metrics"].get(claim["metric"])
        if metric and metric["unit"] != claim["unit"]:
            yield f"metric {claim['metric']} is in {metric['unit']!r}; its claim is in {claim['unit']!r}"
        elif metric and counts and content["tier"] in CARDS:
            yield from _beyond(counts, claim, metric, content)


def _beyond(counts: kept.Kept, claim: dict, metric: dict, content: dict) -> Iterator[str]:
    """A value that the datasheet of its card does not allow: it was not waited for, or another thing was measured."""
    words = (content["machine"].get("gpu") or "").upper().replace("-", " ").split()
    for one, bound in counts.metric(claim["metric"], claim["unit"], content["tier"]):
        times = metric["value"] / bound if claim["better"] == "higher" else bound / metric["value"]
        if model(one.card) in words and times > BEYOND:
            yield (
                f"metric {claim['metric']} is {times:.1f} times as good as was predicted for {one.card} ({bound:.3g} "
                f"{claim['unit']}); was the GPU waited for?"
            )
