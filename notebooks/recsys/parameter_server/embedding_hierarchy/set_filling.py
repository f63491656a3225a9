"""Sets that fill, to touch: the same requests at several thresholds, one slider for each.

Every value is of a real table; the script `set_filling.js` only draws. All lies in the cell's
output, so it works in the page, from a folder, and in a notebook.
"""

import json
from pathlib import Path

import torch
from device_cache import SLAB

STYLE = """<style>.set-filling{margin:1rem 0;padding:.6rem .9rem;border:1px solid #8888;
border-radius:.6rem}.set-filling label{display:block;font-weight:600;font-size:.95rem}
.set-filling input{box-sizing:border-box;width:100%;min-height:2.2rem;font:inherit;margin:0}
.set-filling p{margin:.4rem 0;min-height:4.5em}.set-filling canvas{width:100%;height:250px;
display:block}.set-filling :focus-visible{outline:3px solid #c60}</style>"""
PARTS = """<div data-part="controls" hidden>
<label>Threshold: <output data-part="limit"></output>
<input data-part="threshold" type="range" min="0" max="{most}" value="{first}"></label>
<label>Request: <output data-part="number"></output>
<input data-part="request" type="range" min="0" max="{last}" value="{last}"></label></div>
<canvas data-part="grid" role="img" hidden></canvas>
<p data-part="told" aria-live="polite">{words}</p>
<p style="min-height:0">Orange squares are requests that waited for their vectors; blue
circles went on at once, with the default where a vector was missing.</p>"""
WORDS = "With JavaScript you move the threshold and the requests here, and see the sets fill. "


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
        lacking = round((1 - rate) * len(torch.unique(keys)))
        told["rates"].append(round(rate, 4))
        told["waited"].append(waited)
        told["defaults"].append(0 if waited else lacking)
        held = (table.cache.counters_S[:-1] >= 0).view(table.cache.sets, -1).sum(1)
        told["fill"].append(held.tolist())
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
        words = WORDS + "; ".join(lines) + "."
        parts = PARTS.format(most=len(limits) - 1, first=first, last=last, words=words)
        facts = {"thresholds": limits, "slots": self.slots}
        facts["runs"] = [self.runs[limit] for limit in limits]
        script = Path(__file__).with_name("set_filling.js").read_text(encoding="utf-8")
        script = script[script.index("(root, facts) =>") :].replace("\n\n", "\n").strip()
        return (
            f'{STYLE}<div class="set-filling" id="set-filling">{parts}'
            f"<script>({script})(document.getElementById('set-filling'),"
            f"{json.dumps(facts)});</script></div>"
        )
