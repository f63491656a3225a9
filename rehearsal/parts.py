"""A chapter's `rehearsed_<stem>.py` counted at each tier's sizes: `python -m rehearsal.parts task.json`.

Each public function of that module takes the notebook's sizes (a dict) and a device, makes ready, and returns what is
to be counted: a function without arguments. It runs once unseen, then once counted. Tensors have shapes and no values,
so a card's sizes cost nothing; where a branch needs values, as a loop that repairs what rounding spoilt, it runs once
more with real ones, and the entry says so. The module may say `METRICS` (a metric of the card: the part that it times,
and how many things of its unit one call does, or None for seconds) and `BY_VALUES` (parts that are nothing without
values: the tiers at which a CPU can do them).
"""

import gc
import importlib
import inspect
import json
import os
import sys
from collections import Counter
from pathlib import Path

from . import device
from .counts import Counts, ledger

CAPABILITY = {"gpu": (7, 5), "big": (8, 0)}  # of each tier's cards: a T4 has no bfloat16 units, and code asks for them
MOST = 8  # places of waits and copies that an entry names


def main(path: str) -> int:
    """Count what the tasks say: `stem`, `home`, `module`, `sizes` of each tier; all into one `report`."""
    asked = json.loads(Path(path).read_text(encoding="utf-8"))
    device.install()
    found = {}
    for task in asked["tasks"]:
        os.chdir(task["home"])
        sys.path[:0] = [task["home"]]
        found[task["stem"]] = of_module(importlib.import_module(task["module"]), task["sizes"], task["parts"])
    Path(asked["report"]).write_text(json.dumps(found), encoding="utf-8")
    return 0


def of_module(module, sizes: dict[str, dict], names: list[str]) -> dict:
    """`parts` with what each does at each tier, and `metrics` with what they are a measure of; `names`: those alone."""
    gc.collect()
    before = ledger.live  # what another module keeps
    found, limited = {}, getattr(module, "BY_VALUES", {})
    for name, part in functions(module).items():
        if names and name not in names:
            continue
        tiers = {tier: own for tier, own in sizes.items() if tier in limited.get(name, sizes)}
        entries = {}
        for tier, own in tiers.items():
            with device.as_capable_as(*CAPABILITY.get(tier, CAPABILITY["big"])):
                entries[tier] = counted(part, own, name in limited)
        for entry in entries.values():
            entry["peak_bytes"] -= before
        text = inspect.getsource(part)
        found[name] = {
            "what": " ".join(inspect.getdoc(part).partition("\n\n")[0].split()),
            "code": text,
            "tiers": entries,
        }
    metrics = getattr(module, "METRICS", {})
    rates = {name: {tier: per and per(own) for tier, own in sizes.items()} for name, (_, per) in metrics.items()}
    return {"parts": found, "metrics": {name: {"part": metrics[name][0], "per": rates[name]} for name in metrics}}


def functions(module) -> dict:
    """The public functions that a module defines, in its order."""
    own = {
        name: one for name, one in vars(module).items() if inspect.isfunction(one) and one.__module__ == module.__name__
    }
    return {name: one for name, one in own.items() if not name.startswith("_")}


def counted(part, sizes: dict, exact: bool = False) -> dict:
    """What one call of a part does at these sizes, as it is kept; `exact`: try no shapes alone."""
    if exact:
        return {"by": "values"} | told(_run(part, sizes, False))
    try:
        return {"by": "shapes"} | told(_run(part, sizes, True))
    except Exception:  # whatever a missing value leads to; a mistake of the part's own raises again below
        return {"by": "values"} | told(_run(part, sizes, False))


def _run(part, sizes: dict, shapes: bool) -> Counts:
    import torch

    torch.manual_seed(0)
    gc.collect()  # rings that others left hold bytes until the collector comes, at no fixed time: here, not below
    gc.disable()
    try:
        with device.by_shapes(shapes):
            call = part(dict(sizes), torch.device("cuda"))
            call()
            gc.collect()
            with device.counted() as counts:
                call()
    finally:
        gc.enable()
    return counts


def told(counts: Counts) -> dict:
    """Counts as they are kept: sums, rows that the formula needs, and where the host waited."""
    work = Counter()
    for (_, kind, size, flops), calls in counts.work.items():
        work[kind, size, flops] += calls
    waits = Counter({f"{place}: {reason}": 0 for reason, place in counts.waits})
    for (reason, place), many in counts.waits.items():
        waits[f"{place}: {reason}"] += many
    found = counts.summary() | {"copies": sum(counts.links.values())}
    found |= {"waits": dict(waits.most_common(MOST)), "findings": counts.findings()[:MOST]}
    found |= {"links": sorted([*key, copies] for key, copies in counts.links.items())}
    return found | {"work": sorted([*key, calls] for key, calls in work.items())}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
