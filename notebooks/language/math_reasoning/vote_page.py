"""The page's slider: k samples of a problem vote, and lie open beneath the count."""

import json
from html import escape
from pathlib import Path

SCRIPT = Path(__file__).with_name("vote_slider.js")


def content(problems, right, curves) -> dict:
    """What the script gets: for each problem its question, reference, answers, verdicts and
    solutions; and for all problems together `curves`, {name: percent by k}.
    """
    keys = ("number", "question", "reference", "answers", "solutions")
    told = [
        {key: getattr(one, key) for key in keys} | {"right": hits}
        for one, hits in zip(problems, right, strict=True)
    ]
    return {"problems": told, "curves": curves}


def slider(words: str, data: dict) -> str:
    """HTML of the slider with its script. `words` stand there until a browser has run it."""
    inside = json.dumps(data).replace("<", "\\u003c")  # a solution may hold a tag's beginning
    return (
        f'<div class="vote-slider"><p>{escape(words)}</p>'
        f'<script type="application/json">{inside}</script></div>'
        f"<script>{SCRIPT.read_text(encoding='utf-8')}</script>"
    )
