"""The operator in the reader's browser: an ensemble as ONNX files, and the pack of its page.

`export` writes one ONNX file a member, and a runtime compiled to WebAssembly runs them in the
page. A file holds all that lies between the sliders and the pictures: the rock, the case
(`Scene`), the encoding, the networks. So what the browser does is what the tests compare, on
the small weights that `fourier_operator.as_matrices` keeps.

Legend: Z rows, R rings, T report times; k knobs of the page.
"""

import base64
import hashlib
import json

import numpy as np
import torch
from fourier_operator import as_matrices
from plume_surrogate import to_onnx
from storage_sites import BUILD_UP_SHARE
from torch import nn

from .scene import Scene, knobs, rocks

MIME = "application/vnd.rebuilt.live+json"
CHECK_EVERY = 17
NAMES = ("pattern", "knobs"), ("saturation", "pressure", "pressed")
PLUME = 0.05  # saturation above which a cell counts as plume
AXIS_FROM_M = 30.0  # the logarithmic axis of the pictures begins here
NARROWEST_ROWS = 2  # that the well stays open over, as in training
COLOURS = {"saturation": "viridis", "pressure": "inferno", "spread": "cividis"}


class WebMember(nn.Module):
    """One member as the page runs it: `WebMember(scene, predict)(pattern_2ZR, knobs_k)` gives
    saturation and build-up in bar, (T, Z, R) each, and the `pressed` of its scene, (1,)."""

    def __init__(self, scene, predict):
        super().__init__()
        self.scene, self.predict = scene, predict

    def forward(self, pattern_2ZR, knobs_k):
        """Saturation, pressure build-up, share."""
        case = self.scene(pattern_2ZR, knobs_k)
        saturation, pressure = self.predict(case)[:2]
        return saturation[0], pressure[0], self.scene.pressed(case)


def web_members(surrogates, grid, bits=8):
    """A list of `WebMember`s of trained `plume_surrogate.Surrogate`s, their weights rounded to
    `bits` and half precision."""
    scene, pattern = Scene(grid), rocks(grid)["even"]
    start = torch.tensor([knob.value for knob in knobs(grid)], dtype=torch.float32)
    case = scene(pattern, start)
    return [WebMember(scene, as_matrices(one, (case,), bits)).eval() for one in surrogates]


class LivePage:
    """The live model of a page: displayed, it shows `words` and hands its `files`, bytes by
    name, to the press. In Jupyter and Colab only the words appear."""

    def __init__(self, name, files, words):
        self.name, self.files, self.words = name, files, words

    def _repr_mimebundle_(self, include=None, exclude=None):
        files = {}
        for name, content in self.files.items():
            told = base64.b64encode(content).decode()
            files[name] = {"sha256": hashlib.sha256(content).hexdigest(), "base64": told}
        html = f'<p class="rebuilt-live-fallback">{self.words}</p>'
        pack = {"name": self.name, "files": files}
        return {"text/html": html, "text/plain": self.words, MIME: pack}


def export(members, grid, words):
    """The `LivePage` of an ensemble, with `words` for where no script runs.

    The pack holds the models and every 17th number that PyTorch computes for the first rock and
    the sliders' first values, so that the page can check itself. ValueError for no member.
    """
    if not members:
        raise ValueError("0 members: at least one is needed")
    patterns, sliders = rocks(grid), knobs(grid)
    stacked = torch.stack([*patterns.values()])
    start = torch.tensor([knob.value for knob in sliders], dtype=torch.float32)
    files, checks = {}, []
    for index, member in enumerate(members):
        files[f"member{index}.onnx"] = to_onnx(member.eval(), (stacked[0], start), *NAMES)
        with torch.no_grad():
            answers = member(stacked[0], start)[:2]
        checks += [answer.flatten()[::CHECK_EVERY] for answer in answers]
    told = [knob._asdict() for knob in sliders]
    meta = {"members": [*files], "rocks": [*patterns], "knobs": told}
    files["meta.json"] = json.dumps(meta | _drawing(grid)).encode()
    files["patterns.f32"] = stacked.numpy().astype("<f4").tobytes()
    files["check.f32"] = torch.cat(checks).numpy().astype("<f4").tobytes()
    return LivePage("storage", files, words)


def _drawing(grid):
    """What the page needs to know to draw."""
    from matplotlib import colormaps, colors

    steps = np.linspace(0, 1, 64)
    shades = {
        key: [*map(colors.to_hex, colormaps[name](steps))] for key, name in COLOURS.items()
    }
    place = {"edges_m": grid.edges_m, "rows": grid.rows, "row_m": grid.row_m}
    return {
        "grid": place | {"times_days": grid.times_days}, "colours": shades,
        "check_every": CHECK_EVERY, "threshold": PLUME, "axis_from_m": AXIS_FROM_M,
        "narrowest_rows": NARROWEST_ROWS, "most_pressed": BUILD_UP_SHARE,
    }  # fmt: skip


def ensemble(answers):
    """(mean, sample standard deviation) over members of saturation and of pressure, as the page
    has them, float64. answers: a list of (saturation, pressure, …), one for each member."""
    both = [np.stack([np.asarray(one[i], dtype=np.float64) for one in answers]) for i in (0, 1)]
    return [(field.mean(0), field.std(0, ddof=min(1, len(answers) - 1))) for field in both]
