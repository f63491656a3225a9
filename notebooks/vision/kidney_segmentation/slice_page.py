"""Slices of a scan, its labels and two predictions, packed for the page's viewer.

Figures made from KiTS19's labels carry CC BY-NC-SA 4.0 and the names of those who made them;
the viewer says so.
"""

import base64
import html
import json
import zlib
from pathlib import Path

import torch

SCRIPT = Path(__file__).with_name("slice_viewer.js")
CREDIT = (
    "Labels: KiTS19, Heller and others, CC BY-NC-SA 4.0; the scan around them is drawn. "
    "What is made of them carries the same licence."
)


def packed(values_DHW: torch.Tensor) -> str:
    """Bytes of 0 to 255 as zlib in base64; ValueError for others."""
    if (
        values_DHW.numel()
        and not 0 <= float(values_DHW.min()) <= float(values_DHW.max()) <= 255
    ):
        raise ValueError("a slice holds bytes of 0 to 255")
    return base64.b64encode(
        zlib.compress(values_DHW.to(torch.uint8).numpy().tobytes(), 9)
    ).decode()


def cropped(labels_DHW: torch.Tensor, margin: int = 10) -> tuple[slice, slice, slice]:
    """The box of all organs with a margin in the plane, all slices that have one and one
    more."""
    places = (labels_DHW > 0).nonzero()
    if not len(places):
        raise ValueError("labels without an organ: nothing to look at")
    low, high = places.amin(0).tolist(), places.amax(0).tolist()
    return tuple(
        slice(max(0, a - (margin if axis else 1)), min(size, b + 1 + (margin if axis else 1)))
        for axis, (a, b, size) in enumerate(zip(low, high, labels_DHW.shape, strict=True))
    )


def viewer(scan_DHW, truth_DHW, layers: dict[str, torch.Tensor], words: str) -> str:
    """HTML of the viewer with its script: slices to go through, `layers` {name: classes} to lay
    over, each with its truth. `words` stand there until a browser has run the script.
    """
    box = cropped(truth_DHW)
    grey = (255 * (scan_DHW[box] + 2.34) / 4.98).clamp(0, 255).round()
    data = {
        "shape": json.dumps(list(grey.shape)),
        "names": json.dumps(list(layers)),
        "scan": packed(grey),
        "truth": packed(truth_DHW[box]),
        "layers": packed(torch.stack([one[box] for one in layers.values()])),
        "credit": CREDIT,
    }
    about = " ".join(f'data-{name}="{html.escape(value)}"' for name, value in data.items())
    script = SCRIPT.read_text(encoding="utf-8")
    return f'<div class="slice-viewer" {about}><p>{words}</p></div><script>{script}</script>'
