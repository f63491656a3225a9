"""The phone in the page: an index and its retriever for a reader's browser, and their script.

Only texts that may be passed on are packed: CDC's, FDA's, and ECDC's with its credit. The
script builds the index of words itself, and answers by BM25 and the run's confidence, with the
piece of the answer that has most of the question's words.
"""

import html
import json
from collections.abc import Sequence
from pathlib import Path

from bm25.postings import K1, B

from .confidence import Confidence
from .gov_faq import SHIPPED, Faq
from .passages import pieces

SCRIPT = Path(__file__).with_name("phone.js")
CREDIT = {"ECDC": "© European Centre for Disease Prevention and Control, 2020"}


def packed(rows: Sequence[Faq], confidence: Confidence, owners: Sequence[str]) -> dict:
    """What the script needs. ValueError for a source whose text may not be passed on."""
    if odd := {row.source for row in rows} - set(SHIPPED):
        raise ValueError(f"sources {sorted(odd)}; only {SHIPPED} may be passed on")
    told = [row for row in rows if row.answer.strip()]
    return {
        "k1": K1,
        "b": B,
        "weights": list(confidence.weights),
        "limit": confidence.limit,
        "credit": CREDIT,
        "asked": list(owners),
        "rows": [[r.question, pieces(r.answer), r.source, r.link, r.date] for r in told],
    }


def phone(words: str, given: dict) -> str:
    """HTML of the phone with its script. `words` stand there until a browser has run it."""
    data = html.escape(json.dumps(given, ensure_ascii=False, separators=(",", ":")))
    return (
        f'<div class="city-phone" data-index="{data}"><p>{words}</p></div>'
        f"<script>{SCRIPT.read_text(encoding='utf-8')}</script>"
    )
