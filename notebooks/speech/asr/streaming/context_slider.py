"""Something to touch: what a stream hears of one recording with less or more right context."""

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

KINDS = {"equal": "right", "substitute": "wrong", "insert": "wrong", "delete": "lost"}


def right_context_slider(model, signal_N, said, rights_ms, prior=None, budget_ms=300):
    """An HTML output: a slider over `rights_ms`, the recording, and the words as they come;
    without a script, and on paper, a table of the texts."""
    ways, rows = [], ""
    for right_ms in rights_ms:
        options = StreamOptions(right_ms=right_ms, endpoint_ms=None)
        events = events_of(model, [signal_N], options, prior)[0]
        found = jiwer.process_words(said, events[-1].text)
        errors = found.substitutions + found.deletions + found.insertions
        steps = [(one.heard_ms, one.text) for one in events if one.kind == "partial"]
        steps = [now for was, now in pairwise([(0, ""), *steps]) if was[1] != now[1]]
        words = []
        for one in found.alignments[0]:
            heard = found.hypotheses[0][one.hyp_start_idx : one.hyp_end_idx]
            lost = found.references[0][one.ref_start_idx : one.ref_end_idx]
            told = lost if one.type == "delete" else heard
            words += [(word, KINDS[one.type]) for word in told]
        ways.append({"right": right_ms, "errors": errors, "steps": steps, "words": words})
        text = html.escape(events[-1].text)
        rows += f"<tr><th scope=row>{right_ms} ms</th><td>{text}</td></tr>"
    packed = io.BytesIO()
    soundfile.write(packed, signal_N.numpy(), 16_000, format="MP3")
    given = {"said": len(said.split()), "chunk": StreamOptions.chunk_ms, "budget": budget_ms}
    given |= {"sound": base64.b64encode(packed.getvalue()).decode(), "ways": ways}
    page = Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
    return HTML(page.replace("FALLBACK", rows).replace("DATA", json.dumps(given)))
