"""All window sums as a GPU would compute them, the naive way, and a broken one.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import torch
from apron_turnaround import window_sums

METRICS = {}  # the card's metrics that a part is a measure of, once a claim is a rate or a time
LENGTH = 64


def ours(sizes, device):
    """The sums of all windows in one pass; the stream is on the card already"""
    stream = _stream(sizes, device)
    return lambda: window_sums(stream, LENGTH)


def naive(sizes, device):
    """The same, one point of all windows after the other"""
    stream = _stream(sizes, device)
    count = len(stream) - LENGTH + 1

    def call():
        sums = torch.zeros(count, dtype=torch.float64, device=device)
        for start in range(LENGTH):
            sums += stream[start : start + count]
        return sums

    return call


def broken(sizes, device):
    """The same as ours, but the stream comes from the host each time"""
    stream = _stream(sizes, "cpu")
    return lambda: window_sums(stream.to(device), LENGTH)


def _stream(sizes, device):
    return torch.linspace(0, 1, sizes["points"], dtype=torch.float64, device=device)
