"""The network on an event's patches as a GPU would run it, the naive way, and a broken one.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import torch

from .network import EmMichelTrack, infer

PATCHES = {3: 2_048, 20: 8_000, 90: 55_000}  # by crossing muons; the last is the article's


def ours(sizes, device):
    """All patches of an event in blocks of 2,048: up, through the network, probabilities
    down
    """
    network, patches = _ready(sizes, device)
    return lambda: infer(network, patches, batch=2_048)


def naive(sizes, device):
    """512 of the patches, one after the other"""
    network, patches = _ready(sizes, device)
    return lambda: infer(network, patches[:512], batch=1)


def broken(sizes, device):
    """256 of them in one block, but each patch's most likely kind is asked for on its own"""
    network, patches = _ready(sizes, device)

    @torch.inference_mode()
    def answer():
        three, _ = network(patches[:256].to(device))
        return [row.argmax().item() for row in three]

    return answer


def _ready(sizes, device):
    count = PATCHES.get(sizes["tracks"], 256)
    network = EmMichelTrack().to(device).eval()
    return network, torch.zeros(count, 48, 48)  # what they hold does not change the work
