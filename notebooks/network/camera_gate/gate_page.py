"""The gate that readers move in the page: three clips, four gates, every share of frames.

For each frame stands the share, in thousandths, from which on it passes; the script compares
with it and computes no score.
"""

import html
import json
from pathlib import Path

import torch
from gate_curves import passes

SCRIPT = Path(__file__).with_name("gate_page.js")
STEPS = (5, 10, 20, 30, 50, 75, 100, 150, 200, 300, 400, 600, 800, 1000)  # thousandths


def passing_from(scores_BT: torch.Tensor) -> list[list[int]]:
    """For each clip and frame the first of `STEPS` at which it passes; all clips count."""
    made = torch.full(scores_BT.shape, STEPS[-1])
    for step in reversed(STEPS):
        made[passes(scores_BT, step / 1000)] = step
    return made.tolist()


def player(words: str, scores: dict, seen_BT, truth_BT, clips: dict[str, int]) -> str:
    """HTML of the gates with their script. `clips` are {name: number of the clip shown};
    `words` stand there until a browser has run it."""
    given = {
        "steps": STEPS,
        "clips": list(clips),
        "plate": [truth_BT[at].int().tolist() for at in clips.values()],
        "seen": [(truth_BT[at] & seen_BT[at]).int().tolist() for at in clips.values()],
        "gates": {
            name: [passing_from(one)[at] for at in clips.values()]
            for name, one in scores.items()
        },
    }
    data = html.escape(json.dumps(given, separators=(",", ":")))
    script = SCRIPT.read_text(encoding="utf-8")
    still = f'<div class="gate-page" data-gates="{data}"><p>{words}</p></div>'
    return f"{still}<script>{script}</script>"
