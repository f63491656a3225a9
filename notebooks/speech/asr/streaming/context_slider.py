"""Something to touch: what a stream hears of one recording with less or more right context.
Everything was computed by the run; the browser only shows it."""

import base64
import html
import io
import json
from itertools import pairwise
from pathlib import Path

import jiwer
import soundfile
from IPython.display import HTML

from .stream_state import events_of
from .windows import StreamOptions

__all__ = ["right_context_slider"]

KINDS = {"equal": "right", "substitute": "wrong", "insert": "wrong", "delete": "lost"}


def right_context_slider(model, signal_N, said, rights_ms, prior=None, budget_ms=300):
    """An HTML output: a slider over `rights_ms`, the recording, and the words as they come.

    Without a script, and on paper, a table of the texts stands in its place.
    """
    ways, rows = [], ""
    for right_ms in rights_ms:
        options = StreamOptions(right_ms=right_ms, endpoint_ms=None)
        events = events_of(model, [signal_N], options, prior)[0]
        found = jiwer.process_words(said, events[-1].text)
        errors = found.substitutions + found.deletions + found.insertions
        steps = [(one.heard_ms, one.text) for one in events if one.kind == "partial"]
        steps = [now for was, now in pairwise([(0, ""), *steps]) if was[1] != now[1]]
        words = [word for part in found.alignments[0] for word in _words(found, part)]
        ways.append({"right": right_ms, "errors": errors, "steps": steps, "words": words})
        text = html.escape(events[-1].text)
        rows += f"<tr><th scope=row>{right_ms} ms</th><td>{text}</td></tr>"
    packed = io.BytesIO()
    soundfile.write(packed, signal_N.numpy(), 16_000, format="MP3")
    given = {"said": len(said.split()), "chunk": StreamOptions.chunk_ms, "budget": budget_ms}
    given |= {"sound": base64.b64encode(packed.getvalue()).decode(), "ways": ways}
    page = Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
    return HTML(page.replace("FALLBACK", rows).replace("DATA", json.dumps(given)))


def _words(found, part):
    """(word, kind) of a stretch of the alignment; a lost word is the reference's."""
    words = found.hypotheses[0][part.hyp_start_idx : part.hyp_end_idx]
    if part.type == "delete":
        words = found.references[0][part.ref_start_idx : part.ref_end_idx]
    return [(word, KINDS[part.type]) for word in words]
