"""Sets that fill, to touch: the same requests at several thresholds, one slider for each.

Every value is of a real table; the script `set_filling.js` only draws. All lies in the cell's
output, so it works in the page, from a folder, and in a notebook.
"""

import json
import string
from pathlib import Path

import torch
from device_cache import SLAB


def filled_by(table, requests):
    """What one table does with the requests: rates, waited, defaults, fill, one entry each.

    The worker may finish between two requests.
    """
    told = {"rates": [], "waited": [], "defaults": [], "fill": []}
    for keys in requests:
        before = table.counts["waited"]
        _, rate = table.answer(keys)
        table.drain()
        waited = table.counts["waited"] - before
        lacking = 0 if waited else round((1 - rate) * len(torch.unique(keys)))
        held = (table.cache.counters_S[:-1] >= 0).view(table.cache.sets, -1).sum(1)
        row = round(rate, 4), waited, lacking, held.tolist()
        for name, value in zip(told, row, strict=True):
            told[name].append(value)
    return told


class SetFilling:
    """An output that shows itself: `SetFilling({0.8: filled_by(table, requests), …})`."""

    def __init__(self, runs, slots=2 * SLAB, start=0.8):
        if len({len(run["rates"]) for run in runs.values()}) != 1:
            raise ValueError("runs of different lengths came; each has one entry a request")
        self.runs, self.slots, self.start = runs, slots, start

    def _repr_html_(self):
        limits = sorted(self.runs)
        first = limits.index(self.start) if self.start in limits else 0
        last = len(self.runs[limits[0]]["rates"]) - 1
        kinds = ("waited", "defaults")
        sums = [[sum(self.runs[limit][kind]) for kind in kinds] for limit in limits]
        lines = [
            f"threshold {limit:.0%}: {waited} of {last + 1} requests waited, {lacking} defaults"
            for limit, (waited, lacking) in zip(limits, sums, strict=True)
        ]
        script = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
        script = script[script.index("(root, facts) =>") :].replace("\n\n", "\n").strip()
        facts = {"thresholds": limits, "slots": self.slots}
        facts["runs"] = [self.runs[limit] for limit in limits]
        page = Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
        places = {"most": len(limits) - 1, "first": first, "last": last, "script": script}
        words = "; ".join(lines) + "."
        return string.Template(page).substitute(places, words=words, facts=json.dumps(facts))
