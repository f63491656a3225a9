"""One attack through the filter as a GPU would run it, the naive way, and a broken one.

`make predict` counts them without a GPU, at the sizes of each tier. They call `ascend`, `pgd`
without its look at the pixels, which needs their values once for each attack.
"""

import torch
from frequency_split import low_pass, mask, split
from gradient_attacks import Filtered, ascend
from small_cnn import SmallCNN
from torch.nn import functional as F

EPSILON, STEPS, RADIUS = 0.05, 12, 8
METRICS = {}  # the article claims no speed


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
    """The same attack, but the images go up and come down in each step, and the loss is read"""
    model, images, labels = _ready(sizes, device)
    there = images.cpu()

    def attack():
        found = there
        for _ in range(STEPS):
            seen, step = found.to(device), EPSILON / 4
            on_card = ascend(Filtered(model, RADIUS), seen, labels, step, step, 1)
            F.cross_entropy(model(low_pass(on_card, RADIUS)), labels).item()
            found = (there + (on_card.cpu() - there).clamp(-EPSILON, EPSILON)).clamp(0, 1)
        return found

    return attack


def _ready(sizes, device):
    torch.manual_seed(0)
    images = torch.rand(sizes["attacked"], 1, 28, 28)
    labels = torch.arange(sizes["attacked"]) % 10
    return SmallCNN(sizes["width"]).to(device).eval(), images.to(device), labels.to(device)
