"""The cut that readers move in the page: one stream, one rule, every cut in two, asked before.

All verdicts come from the matcher; the script shows them and computes none.
"""

import html
import json
from pathlib import Path

from .matcher import Matcher

SCRIPT = Path(__file__).with_name("packet_cut.js")


def every_cut(matcher: Matcher, file: bytes) -> list[dict]:
    """For each cut in two what was found: each packet alone, and with the state carried over.

    `at` is how many bytes of the file had come when the verdict was known, 0 for none; `state`
    the bytes that crossed the cut.
    """
    made = []
    for cut in range(1, len(file)):
        alone = []
        for packet in (file[:cut], file[cut:]):
            alone += matcher.feed(packet) + matcher.finish()
        spoke = 0
        for byte in range(len(file)):
            if matcher.feed(file[byte : byte + 1]):
                spoke = byte + 1
            if byte == cut - 1:
                state = matcher.state_bytes()
        matcher.finish()
        made.append({"alone": bool(alone), "at": spoke, "state": state})
    return made


def slider(words: str, matcher: Matcher, file: bytes, signature: bytes) -> str:
    """HTML of the slider with its script. `words` stand there until a browser has run it."""
    begin = file.index(signature)
    given = {
        "text": file.decode("ascii"),
        "signature": [begin, begin + len(signature)],
        "cuts": every_cut(matcher, file),
    }
    return (
        f'<div class="packet-cut" data-cuts="{html.escape(json.dumps(given))}"><p>{words}</p>'
        f"</div><script>{SCRIPT.read_text(encoding='utf-8')}</script>"
    )
