"""A step with its average as a GPU would run it, the naive way, and a broken one.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import torch
from averaging import WeightAverage
from bench_averaging import training_step
from fashion_task import scaled
from small_resnet import SmallResNet

METRICS = {}  # no claim of the article is a rate or a time of a step


def ours(sizes, device):
    """One training step, and an average in fused calls (writes in place are not counted)"""
    model, step = _step(sizes, device)
    return _averaging(model, step, WeightAverage(model, 0.99, check=False))


def plain(sizes, device):
    """The same training step without an average"""
    return _step(sizes, device)[1]


def naive(sizes, device):
    """The same with one operation after another for each tensor of weights"""
    model, step = _step(sizes, device)
    average = [parameter.detach().clone() for parameter in model.parameters()]

    def call():
        step()
        for own, new in zip(average, model.parameters(), strict=True):
            own.copy_(0.99 * own + 0.01 * new.detach())
        return average

    return call


def broken(sizes, device):
    """The same, but the average lies on the host and the weights come down in each step"""
    model, step = _step(sizes, device)
    return _averaging(model, step, WeightAverage(SmallResNet(sizes["width"]), 0.99))


def _averaging(model, step, average):
    """A function that takes a step and gives the averaged weights."""

    def call():
        step()
        average.update(model)
        return list(average.model.parameters())

    return call


def _step(sizes, device):
    """(the network, one step of SGD on a batch of bytes that lies on the device)."""
    model, shape = SmallResNet(sizes["width"]).to(device), (sizes["batch"], 1, 28, 28)
    pixels = torch.randint(0, 256, shape, dtype=torch.uint8, device=device)
    labels = torch.arange(sizes["batch"], device=device) % 10
    return model, training_step(model, scaled(pixels, labels), sizes["batch"])
