"""The network on an event's patches as a GPU would run it, the naive way, and a broken one.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import torch

from .network import EmMichelTrack, Probabilities, infer

PATCHES = {3: 2_315, 20: 12_890, 62: 52_805}  # by crossing muons; a test counts them
BLOCK = 2_048


def ours(sizes, device):
    """All patches of an event in blocks of 2,048: up, through the network, answers down"""
    network, patches = _ready(sizes, device)
    return lambda: infer(network, patches, batch=BLOCK)


def naive(sizes, device):
    """The same patches in blocks of 16, as would suit the cache of a CPU core"""
    network, patches = _ready(sizes, device)
    return lambda: infer(network, patches, batch=16)


def broken(sizes, device):
    """The chapter's blocks, but each patch's probabilities are fetched on their own"""
    network, patches = _ready(sizes, device)
    served = Probabilities(network)

    @torch.inference_mode()
    def answer():
        found = []
        for block in patches.split(BLOCK):
            three, one = served(block.to(device))
            found += [(a.cpu(), b.cpu()) for a, b in zip(three, one, strict=True)]
        return tuple(torch.stack(parts) for parts in zip(*found, strict=True))

    return answer


def _ready(sizes, device):
    count = PATCHES.get(sizes["tracks"], 256)
    network = EmMichelTrack().to(device).eval()
    return network, torch.zeros(count, 48, 48)  # what they hold does not change the work
