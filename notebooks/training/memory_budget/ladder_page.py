"""The ladder for the page's sliders: card, batch and resolution, and which rungs fit.

A rung's bytes at each moment of its step are a number and another one an image. So for each
rung and resolution the page gets a few straight lines in the batch, and the largest of them is
the peak: nothing but sums is left to the browser.
"""

import json
from pathlib import Path

from memory_ladder import predicted

SCRIPT = Path(__file__).with_name("ladder_sliders.js")
SIDES = (64, 128, 180, 256, 512, 1024)
RUNGS = ("plain", "in place", "group norm", "8-bit Adam", "mixed precision", "checkpointing")
RUNGS += ("4 parts", "half the side")


def lines(name, side):
    """[(bytes, bytes an image)]: the rung's peak at a batch is their largest there.

    Exact for a batch of a multiple of 4; the lines of moments that are never the peak are left
    out.
    """
    low, high = (predicted(name, batch, side) for batch in (4, 8))
    found = set()
    for a, b in zip(low, high, strict=True):
        each = (b.held - a.held) // 4
        found.add((a.held - 4 * each, each))
    best, kept = sorted(found, key=lambda one: (-one[1], -one[0])), []
    for fixed, each in best:  # from the steepest: a flatter one must begin higher
        if not kept or fixed > kept[-1][0]:
            kept.append((fixed, each))
    return kept


def sliders(words, sides=SIDES, rungs=RUNGS):
    """HTML of the sliders with their script. `words` stand there until a browser has run it."""
    data = {"sides": sides, "rungs": {n: [lines(n, side) for side in sides] for n in rungs}}
    return (
        f"<div class=\"ladder-sliders\" data-ladder='{json.dumps(data)}'><p>{words}</p></div>"
        f"<script>{SCRIPT.read_text(encoding='utf-8')}</script>"
    )
