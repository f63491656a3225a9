"""The meshes of a fit for the page's viewer: turn them, and scrub from the sphere to what was
fitted.
"""

import base64
import json
from pathlib import Path

import numpy as np
import torch
from mesh_fitting import Fit

SCRIPT = Path(__file__).with_name("mesh_viewer.js")
SCALE = (
    8192  # of the 16-bit numbers that hold a coordinate: steps of a ten-thousandth of the car
)


def packed(values: torch.Tensor, scale: float, kind: str) -> str:
    """The numbers times `scale` as `kind` in base64; ValueError where one does not fit."""
    whole, limits = (values * scale).round(), np.iinfo(kind)
    if whole.min() < limits.min or whole.max() > limits.max:
        raise ValueError(
            f"values from {values.min():g} to {values.max():g} times {scale:g} "
            f"do not fit into {kind}"
        )
    return base64.b64encode(whole.numpy().astype(kind).tobytes()).decode()


def viewer(
    found: Fit, wanted: tuple[torch.Tensor, torch.Tensor, torch.Tensor], words: str
) -> str:
    """HTML of the viewer with its script: the looks of the fit, its end, and the mesh `wanted`
    (vertices, faces, colours). `words` stand there until a browser has run the script.
    """
    steps = [*sorted(found.looks), len(found.losses["colour"])]
    looks = [found.looks[step] for step in sorted(found.looks)] + [
        (found.vertices, found.colours)
    ]
    data = {
        "steps": json.dumps(steps),
        "scale": SCALE,
        "faces": packed(found.faces, 1, "<u2"),
        "vertices": packed(torch.stack([one for one, _ in looks]), SCALE, "<i2"),
        "colours": packed(torch.stack([one.clamp(0, 1) for _, one in looks]), 255, "<u1"),
        "wanted-faces": packed(wanted[1], 1, "<u2"),
        "wanted-vertices": packed(wanted[0], SCALE, "<i2"),
        "wanted-colours": packed(wanted[2], 255, "<u1"),
    }
    about = " ".join(f"data-{name}='{value}'" for name, value in data.items())
    script = SCRIPT.read_text(encoding="utf-8")
    return f'<div class="mesh-viewer" {about}><p>{words}</p></div><script>{script}</script>'
