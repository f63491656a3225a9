"""The queue for the page's sliders: clerks, load, patience, and what a machine answers."""

import json
from pathlib import Path

SCRIPT = Path(__file__).with_name("wait_sliders.js")
CALL_MIN = 5


def sliders(words: str, call_min: float = CALL_MIN) -> str:
    """HTML of the sliders with their script, for calls of so many minutes. `words` stand there
    until a browser has run it.
    """
    data = json.dumps({"call_min": call_min})
    return (
        f"<div class=\"wait-sliders\" data-queue='{data}'><p>{words}</p></div>"
        f"<script>{SCRIPT.read_text(encoding='utf-8')}</script>"
    )
