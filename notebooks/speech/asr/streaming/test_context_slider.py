"""The slider: every way's words and times, the errors marked."""

import html
import json
import re

import torch

from .context_slider import right_context_slider
from .stream_state import transcribe
from .windows import StreamOptions


def test_the_slider_holds_what_the_stream_hears(loud_model):
    torch.manual_seed(1)
    signal_N = 0.3 * torch.randn(24_000) * torch.rand(15).repeat_interleave(1600)
    options = StreamOptions(right_ms=180, endpoint_ms=None)
    (wanted,) = transcribe(loud_model, [signal_N], options)
    page = right_context_slider(loud_model, signal_N, f"{wanted} missing", [0, 180]).data
    given = json.loads(re.search(r"ways } = (\{.*\});\n", page)[1])
    none, some = given["ways"]
    assert (none["right"], some["right"], some["errors"]) == (0, 180, 1)
    words = [word for word, kind in some["words"] if kind == "right"]
    assert words == wanted.split() and some["words"][-1] == ["missing", "lost"]
    assert " ".join(some["steps"][-1][1].split()) == wanted
    times = [at for at, _ in some["steps"]]
    assert times == sorted(times) and times[0] >= 240, "no word before chunk and right context"
    assert f"<td>{wanted}" in html.unescape(page) and len(page) < 300_000
