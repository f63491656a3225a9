"""A step's gradient by accumulation as a GPU would make it, in many more parts than are needed,
and with the host in the way.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import torch
from accumulation import step
from torch.nn.functional import cross_entropy
from tutorial_network import classifier

METRICS = {}  # no claim of the card is a rate or a time of a GPU


def ours(sizes, device):
    """The batch in four parts, each weighted by its share; all photos are on the card"""
    model, x, y = _made(sizes, device)
    return lambda: _learned(model, x, y, -(-len(x) // 4))


def naive(sizes, device):
    """The same in sixteen parts, where four would fit"""
    model, x, y = _made(sizes, device)
    return lambda: _learned(model, x, y, -(-len(x) // 16))


def broken(sizes, device):
    """As ours, but each part's photos come from the host when their turn is there, and the
    gradients so far are looked at by the host after each part"""
    model, x, y = _made(sizes, device)
    x, y = x.cpu(), y.cpu()

    def call():
        size = -(-len(x) // 4)
        found = [torch.zeros_like(p) for p in model.parameters()]
        for images, kinds in zip(x.split(size), y.split(size), strict=True):
            part = [(images.to(device), kinds.to(device))]
            step(model, part, cross_entropy)
            for total, p in zip(found, model.parameters(), strict=True):
                total += p.grad * (len(images) / len(x))
                assert total.cpu().isfinite().all()
        return found

    return call


def _made(sizes, device):
    torch.manual_seed(0)
    model = classifier(sizes["side"]).to(device)
    x = torch.rand(sizes["batch"], 3, sizes["side"], sizes["side"]).to(device)
    return model, x, torch.arange(sizes["batch"]).to(device) % 5


def _learned(model, x, y, size):
    step(model, zip(x.split(size), y.split(size), strict=True), cross_entropy)
    return [p.grad for p in model.parameters()]
