"""A batch of packets looked up and swapped as a GPU would do it, step by step, and with the
host in the way.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import torch

from .forwarding import label_table, swap_batch
from .routes import MISS, RouteTable

METRICS = {}  # no claim of the card is a rate or a time of a GPU


def ours(sizes, device):
    """One search for the routes, one read of the table for the labels; all is on the card"""
    table, addresses, words, labels, out = _made(sizes, device)
    return lambda: (table.lookup(addresses), swap_batch(words, labels, out))


def naive(sizes, device):
    """The same, the search written out: a read of the starts for each halving"""
    table, addresses, words, labels, out = _made(sizes, device)

    def call():
        low = torch.zeros_like(addresses)
        high = torch.full_like(addresses, len(table.starts_R))
        for _ in range(len(table.starts_R).bit_length()):
            middle = (low + high) // 2
            below = table.starts_R[middle.clamp(max=len(table.starts_R) - 1)] <= addresses
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return table.hops_R[low], swap_batch(words, labels, out)

    return call


def broken(sizes, device):
    """As ours, but addresses and labels come from the host, and the host reads the misses"""
    table, addresses, words, labels, out = _made(sizes, device)
    addresses, words = addresses.cpu(), words.cpu()

    def call():
        hops = table.lookup(addresses.to(device))
        assert int((hops == MISS).sum()) >= 0
        return hops, swap_batch(words.to(device), labels, out)

    return call


def _made(sizes, device):
    torch.manual_seed(0)
    lengths = torch.randint(8, 25, (10_000,)).tolist()
    starts = torch.randint(0, 1 << 32, (10_000,)).tolist()
    pairs = zip(starts, lengths, strict=True)
    routes = [(start >> 32 - n << 32 - n, n, at % 16) for at, (start, n) in enumerate(pairs)]
    labels = label_table({16 + at: at % 16 for at in range(10_000)}, device)
    addresses = torch.randint(0, 1 << 32, (sizes["addresses"],)).to(device)
    words = torch.randint(16, 20_000, (sizes["addresses"],)).to(device) << 12 | 0x140
    return RouteTable(routes, device), addresses, words, labels, torch.arange(16, 32).to(device)
