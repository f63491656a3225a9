"""A photo's tiles through the network as a GPU would take them, the naive way, and a broken
one.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import torch

from . import network, training

METRICS = {}  # no claim of the card is a rate or a time of a GPU


def ours(sizes, device):
    """All tiles in one batch"""
    net, tiles = _ready(sizes, device)
    return torch.inference_mode()(lambda: net(tiles))


def naive(sizes, device):
    """One tile after the other"""
    net, tiles = _ready(sizes, device)

    def call():
        made = [net(one[None]) for one in tiles]
        return tuple(torch.cat(parts) for parts in zip(*made, strict=True))

    return torch.inference_mode()(call)


def broken(sizes, device):
    """As ours, but the tiles come from the host each time"""
    net, tiles = _ready(sizes, device)
    host = tiles.cpu()
    return torch.inference_mode()(lambda: net(host.to(device)))


def _ready(sizes, device):
    net = network.Detector().eval().to(device)
    return net, torch.full(
        (sizes["tiles"], 3, training.SIDE * 3 // 4, training.SIDE), 0.8, device=device
    )
