"""One frame of many cameras through the background model as a GPU would do it, camera by
camera, and with the host in the way.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import torch
from camera_scenes import HEIGHT, WIDTH
from frame_gates import Background

METRICS = {}  # no claim of the card is a rate or a time of a GPU


def ours(sizes, device):
    """One frame of all cameras in one update; model and frames are on the card"""
    frame = _frames(sizes).to(device)
    model = Background(frame)
    return lambda: model.update(frame)


def naive(sizes, device):
    """The same update, a camera at a time"""
    frame = _frames(sizes).to(device)
    models = [Background(one[None]) for one in frame]

    def call():
        moved = [model.update(one[None]) for model, one in zip(models, frame, strict=True)]
        return torch.cat(moved)

    return call


def broken(sizes, device):
    """As ours, but frames come from the host, and the host reads how much has moved"""
    frame = _frames(sizes)
    model = Background(frame.to(device))

    def call():
        moved = model.update(frame.to(device))
        assert int(moved.sum()) >= 0
        return moved

    return call


def _frames(sizes):
    torch.manual_seed(0)
    return torch.randint(0, 256, (sizes["cameras"], HEIGHT, WIDTH), dtype=torch.uint8)
