"""Pictures answered by the small convolutional network as a GPU would do it, the naive way, and
a broken one.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import torch
import torch_networks as tn

METRICS = {}  # no claim of the card is a rate or a time of a GPU
PARTS = 20  # pieces in which the naive and the broken version take the pictures


def ours(sizes, device):
    """All pictures at once: a few kernels, whatever their number"""
    model, pictures = _given(sizes, device)
    return lambda: tn.log_posterior(model, pictures)


def naive(sizes, device):
    """A part of the pictures after the other, as they come"""
    model, pictures = _given(sizes, device)
    return lambda: torch.cat([tn.log_posterior(model, part) for part in pictures.chunk(PARTS)])


def broken(sizes, device):
    """As ours, but the pictures are fetched from the host each time"""
    model, pictures = _given(sizes, device)
    there = pictures.cpu()
    return lambda: tn.log_posterior(model, there.to(device))


def _given(sizes, device):
    generator = torch.Generator().manual_seed(0)
    pictures = torch.rand(sizes["frames"], 64, generator=generator)
    return tn.small_cnn().to(device), pictures.to(device)
