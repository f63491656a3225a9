"""A lookup as a GPU would do it: from its own memory, over the link, and with a needless read.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import torch
from device_cache import DeviceCache
from embedding_hierarchy import PowerLaw, exponent_for

SLOTS = 100_000  # at most: what is counted depends on the request, not on the cache
BY_VALUES = dict.fromkeys(("ours", "broken"), ("check", "gpu", "big"))
COPIED = 2**30  # bytes, as `bench.peak` copies
METRICS = {"device_bandwidth": ("copy", lambda sizes: 2 * COPIED)}


def ours(sizes, device):
    """The keys of a request, all of them hits, found and gathered in the cache"""
    cache, keys = _ready(sizes, device)
    keys = keys.to(device)
    return lambda: cache.vectors_SW.index_select(0, cache.locate(keys)[0])


def copy(sizes, device):
    """A gigabyte read and written in the card's memory"""
    there = torch.empty(COPIED if device.type != "cpu" else 1, dtype=torch.uint8, device=device)
    return there.clone


def naive(sizes, device):
    """The same vectors gathered by the host, then sent over the link"""
    cache, keys = _ready(sizes, "cpu")
    return lambda: cache.vectors_SW.index_select(0, keys % cache.capacity).to(device)


def broken(sizes, device):
    """The lookup, but the host asks after each request whether all of it are numbers"""
    lookup = ours(sizes, device)

    def checked():
        found = lookup()
        return found if found.isfinite().all() else None

    return checked


def _ready(sizes, device):
    import numpy as np

    rows = min(sizes["rows"], SLOTS)
    law = PowerLaw(rows, exponent_for(rows, round(rows * 305 / 188_000), 0.959))
    keys = torch.from_numpy(law.draw(sizes["asked"], np.random.default_rng(0)))
    cache = DeviceCache(rows, sizes["width"], device)
    distinct = keys.unique()
    cache.replace(distinct, torch.ones(len(distinct), sizes["width"]))
    return cache, keys
