"""The published network on a GPU, the naive way, and a broken one.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import torch

from fourier_operator import UFNO
from fourier_operator.networks import INPUTS

METRICS = {}  # the page times the shipped network, which is smaller than this one


def ours(sizes, device):
    """One field of one case by the article's U-FNO, at the grid of the tier"""
    net, field = _ready(sizes, device)
    return torch.inference_mode()(lambda: net(field))


def training_step(sizes, device):
    """One step forward and back with one case"""
    net, field = _ready(sizes, device)

    def step():
        net.zero_grad()
        net(field).square().mean().backward()

    return step


def naive(sizes, device):
    """The same field asked for anew at each of its times, of which one is kept"""
    net, field = _ready(sizes, device)

    @torch.inference_mode()
    def answer():
        times = range(field.shape[-1])
        return torch.stack([net(field)[..., t] for t in times], -1)

    return answer


def broken(sizes, device):
    """The same field, from the host and back, each time's largest value read on the way"""
    net, field = _ready(sizes, device)
    there = field.cpu()

    @torch.inference_mode()
    def answer():
        found = net(there.to(device))
        highest = [found[..., t].max().item() for t in range(found.shape[-1])]
        return found.cpu(), highest

    return answer


def _ready(sizes, device):
    net = UFNO(**sizes["shape"]) if sizes["shape"] else UFNO.published()
    return net.to(device).eval(), torch.zeros(1, INPUTS, *sizes["cells"]).to(device)
