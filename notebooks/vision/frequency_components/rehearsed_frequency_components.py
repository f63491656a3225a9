"""One attack through the filter as a GPU would run it, the naive way, and a broken one.

`make predict` counts them. They call `ascend`: `pgd` looks at the pixels, for which it waits.
"""

import torch
from frequency_split import mask, split
from gradient_attacks import Filtered, ascend
from small_cnn import SmallCNN

EPSILON, STEPS, RADIUS = 0.05, 12, 8
METRICS = {}  # the article claims no speed
AHEAD = {"naive": "the filter makes its waves anew each time: launches that a mask spares"}


def ours(sizes, device):
    """Twelve PGD steps through the filter, whose gradient is one more filtering"""
    model, images, labels = _ready(sizes, device)
    through = Filtered(model, RADIUS)
    return lambda: ascend(through, images, labels, EPSILON, EPSILON / 4, STEPS)


def splitting(sizes, device):
    """The split of the attacked images at one radius"""
    _, images, _ = _ready(sizes, device)
    return lambda: split(images, RADIUS)


def naive(sizes, device):
    """The same attack, its gradient by the tape of whole complex transforms"""
    model, images, labels = _ready(sizes, device)

    def through(x_BCHW):
        kept = mask(28, 28, RADIUS, device=x_BCHW.device)
        return model(torch.fft.ifft2(torch.fft.fft2(x_BCHW) * kept).real)

    return lambda: ascend(through, images, labels, EPSILON, EPSILON / 4, STEPS)


def broken(sizes, device):
    """The same attack, but the host asks of each image on its own how far it went"""
    model, images, labels = _ready(sizes, device)
    through = Filtered(model, RADIUS)

    def attack():
        found = ascend(through, images, labels, EPSILON, EPSILON / 4, STEPS)
        gone = [(new - old).abs().max().item() for new, old in zip(found, images, strict=True)]
        return found if max(gone) else images

    return attack


def _ready(sizes, device):
    torch.manual_seed(0)
    images = torch.rand(sizes["attacked"], 1, 28, 28)
    labels = torch.arange(sizes["attacked"]) % 10
    return SmallCNN(sizes["width"]).to(device).eval(), images.to(device), labels.to(device)
