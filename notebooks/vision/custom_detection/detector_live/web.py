"""The detector in the reader's browser: the network as an ONNX file, some photos to begin with,
numbers to check.

What the network says and how it is read (`network.decode`) is done in the page by
`detector_live.js`; so is resizing. A reader's own photo is opened there, and never leaves.
"""

import base64
import hashlib
import io
import json
import warnings
from pathlib import Path

import numpy as np
import torch
from cell_detector import CLASSES, SIDE, network, samples

MIME = "application/vnd.rebuilt.live+json"
FLOOR, SHOWN, OVERLAP = (
    0.05,
    0.4,
    0.5,
)  # scores that are looked at, and drawn; overlap that is suppressed


class LivePage:
    """The live model of a page: displayed, it shows `words` and hands its `files`, bytes by
    name, to the press. In Jupyter and Colab only the words appear.
    """

    def __init__(self, name: str, files: dict[str, bytes], words: str):
        self.name, self.files, self.words = name, files, words

    def _repr_mimebundle_(self, include=None, exclude=None):
        files = {}
        for name, content in self.files.items():
            text = base64.b64encode(content).decode()
            files[name] = {"sha256": hashlib.sha256(content).hexdigest(), "base64": text}
        html = f'<p class="rebuilt-live-fallback">{self.words}</p>'
        return {
            "text/html": html,
            "text/plain": self.words,
            MIME: {"name": self.name, "files": files},
        }


def to_onnx(net: torch.nn.Module) -> bytes:
    """The network as an ONNX file: `photo` (1, 3, H, W) of any size in steps of 16, to
    `heat` and `sides`.
    """
    with io.BytesIO() as made, warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # the exporter that is quick says that another is coming
        torch.onnx.export(
            net.eval(),
            (torch.zeros(1, 3, 144, SIDE),),
            made,
            input_names=["photo"],
            output_names=["heat", "sides"],
            dynamic_axes={name: {2: "h", 3: "w"} for name in ("photo", "heat", "sides")},
            dynamo=False,
        )
        return made.getvalue()


def export(net, photos, words: str) -> LivePage:
    """The `LivePage` of a network with the first photos that a reader sees, annotated, of
    JPEG files.
    """
    files, first = {"detector.onnx": to_onnx(net)}, []
    for at, one in enumerate(photos):
        file = f"sample{at}.jpg"
        files[file] = Path(one.file).read_bytes()
        labels = [CLASSES.index(label) for label in one.labels]
        first.append(
            {
                "name": f"Smear {at + 1}",
                "file": file,
                "boxes": one.boxes.tolist(),
                "labels": labels,
            }
        )
    checked = samples(photos[:1])[0].pixels
    with torch.no_grad():
        numbers = net(checked[None].float() / 255)
    files["check.u8"] = checked.permute(1, 2, 0).contiguous().numpy().tobytes()
    files["check.f32"] = (
        np.concatenate([one.numpy().ravel() for one in numbers]).astype("<f4").tobytes()
    )
    meta = {
        "side": SIDE,
        "stride": network.STRIDE,
        "classes": CLASSES,
        "floor": FLOOR,
        "shown": SHOWN,
    }
    meta |= {
        "overlap": OVERLAP,
        "most": network.MOST,
        "samples": first,
        "check": [checked.shape[2], checked.shape[1]],
    }
    files["meta.json"] = json.dumps(meta).encode()
    return LivePage("cells", files, words)
