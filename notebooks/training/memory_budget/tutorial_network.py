"""The network of the article's question: the tutorial's classifier of flower photos.

Three convolutions of 3 by 3 with 16, 32 and 64 channels, each with a ReLU and a maximum pool,
a dense layer of 128 and one of five classes, on 180 by 180 pixels: 3,989,285 parameters. The
pixels' scaling to 0 to 1 keeps nothing for backward and is left to the data. A normalisation
or none can follow each convolution: the ladder's rung that small batches need.

Its photos can lie in one file of bytes that is mapped, not read: a batch is copied out of it,
and the pages of the rest belong to the system, which takes them back when memory is short.
"""

import numpy as np
import torch
from torch import nn

NORMS = {
    "none": lambda channels: [],
    "batch": lambda channels: [nn.BatchNorm2d(channels)],
    "group": lambda channels: [nn.GroupNorm(8, channels)],
}


def classifier(side=180, channels=3, classes=5, norm="none", inplace=False):
    """The classifier for images (B, channels, side, side) with logits (B, classes).

    norm: 'none' as in the tutorial, 'batch' or 'group' (8 groups). inplace: ReLUs write over
    their inputs. Raises ValueError for another norm or a side that three pools leave nothing
    of.
    """
    if norm not in NORMS:
        raise ValueError(
            f"norm is {norm!r}: allowed are {', '.join(NORMS)}, which are built here"
        )
    if side < 8:
        raise ValueError(
            f"side is {side}: allowed is 8 or more, since three pools halve it thrice"
        )
    layers = []
    for wide in (16, 32, 64):
        layers += [nn.Conv2d(channels, wide, 3, padding=1), *NORMS[norm](wide)]
        layers += [nn.ReLU(inplace), nn.MaxPool2d(2)]
        channels = wide
    dense = nn.Linear(64 * (side // 8) ** 2, 128)
    return nn.Sequential(
        *layers, nn.Flatten(), dense, nn.ReLU(inplace), nn.Linear(128, classes)
    )


def write_photos(path, count, side, seed=0):
    """None; a file of `count` random photos, uint8 (count, side, side, 3), of one shape."""
    random = np.random.default_rng(seed)
    photos = np.lib.format.open_memmap(path, "w+", np.uint8, (count, side, side, 3))
    for at in range(count):
        photos[at] = random.integers(0, 256, (side, side, 3), dtype=np.uint8)
    photos.flush()


def mapped(path):
    """The photos of a file as an array on its pages: nothing is read until it is asked for."""
    return np.load(path, mmap_mode="r")


def batch_of(photos, numbers):
    """Images (B, 3, side, side), float32 from 0 to 1, of these photos: the only copy."""
    chosen = torch.from_numpy(np.array(photos[numbers]))
    return chosen.permute(0, 3, 1, 2).contiguous().float() / 255
