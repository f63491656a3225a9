"""From photo files to what the network is given, and back to boxes in pixels of the file.

`Loading()` is what most code does: open, take the bytes, scale the longer side to a fixed
length. Each of its fields is the mend of one fault.
"""

import io
from dataclasses import dataclass, replace
from types import SimpleNamespace

import annotations
import numpy as np
import torch
from PIL import ImageCms, ImageOps

from . import training
from .tiling import tiled

SRGB = ImageCms.createProfile("sRGB")


@dataclass(frozen=True)
class Loading:
    """upright: turn a photo as its EXIF tag says. srgb: convert its colours from its own
    profile. enlarge: how many times larger than `SIDE` the longer side is made; above 1 the
    photo is cut into tiles. side: of the network.
    """

    upright: bool = False
    srgb: bool = False
    enlarge: float = 1.0
    side: int = training.SIDE

    def but(self, **changes) -> "Loading":
        """A copy with some fields changed."""
        return replace(self, **changes)


def pixels(file, loading: Loading = Loading()) -> np.ndarray:  # noqa: B008
    """The (H, W, 3) bytes of a photo's file."""
    with annotations.opened(file) as photo:
        shown = ImageOps.exif_transpose(photo) if loading.upright else photo
        if loading.srgb and (profile := photo.info.get("icc_profile")):
            source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            shown = ImageCms.profileToProfile(shown, source, SRGB, outputMode="RGB")
        return np.asarray(shown.convert("RGB"))


def samples(photos, loading: Loading = Loading(), classes=training.CLASSES):  # noqa: B008
    """Photos as what `training.train` learns from."""
    side = round(loading.side * loading.enlarge)
    return [
        training.sample(pixels(one.file, loading), one.boxes, one.labels, side, classes)
        for one in photos
    ]


def answers(net, photos, loading: Loading = Loading(), classes=training.CLASSES, floor=0.05):  # noqa: B008
    """What the network finds in each photo: objects with `boxes` in pixels as loaded,
    `scores`, `labels` as texts.
    """
    found = []
    for one in samples(photos, loading, classes):
        if loading.enlarge > 1:
            answer = tiled(net, one, loading.side, floor=floor)
        else:
            (answer,) = training.detect(net, [one], floor)
        labels = [classes[at] for at in answer.labels.tolist()]
        boxes, scores = (value.cpu().numpy().astype(np.float64) for value in answer[:2])
        found.append(SimpleNamespace(boxes=boxes, scores=scores, labels=labels))
    return found


def to_torch(state: dict) -> dict:
    """Weights of half precision as the network's own."""
    return {
        name: value.float() if value.is_floating_point() else value
        for name, value in state.items()
    }


def opened(path, width: int = 16, classes=training.CLASSES) -> torch.nn.Module:
    """The trained network of a weights file."""
    from safetensors.torch import load_file

    from .network import Detector

    net = Detector(len(classes), width)
    net.load_state_dict(to_torch(load_file(path)))
    return net.eval()
