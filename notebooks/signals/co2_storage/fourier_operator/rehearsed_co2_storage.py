"""The published network on a GPU, the naive way, and a broken one."""

import torch

from fourier_operator import UFNO
from fourier_operator.networks import INPUTS

METRICS = {"seconds_per_published_case": ("ours", None)}  # the page times a smaller network


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
    """The same field, but the network's weights go up from the host for each case"""
    net, field = _ready(sizes, device)
    there = {name: value.cpu() for name, value in net.state_dict().items()}

    @torch.inference_mode()
    def answer():
        here = {name: value.to(device) for name, value in there.items()}
        return torch.func.functional_call(net, here, field)

    return answer


def _ready(sizes, device):
    net = UFNO(**sizes["shape"]) if sizes["shape"] else UFNO.published()
    return net.to(device).eval(), torch.zeros(1, INPUTS, *sizes["cells"]).to(device)
