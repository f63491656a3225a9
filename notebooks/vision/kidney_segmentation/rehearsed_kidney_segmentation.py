"""Windows' scores put together as a GPU would do it, the naive way, and with the host in the
way.

`make predict` counts them without a GPU, at the sizes of each tier. The network is left out:
its scores are handed over, so that what is counted is slicing, weights, sums and the largest
class.
"""

import sliding_windows as sw
import torch

METRICS = {}  # no claim of the card is a rate or a time of a GPU


def ours(sizes, device):
    """A slab at a time, each score times vectors, nothing divided; one byte a voxel is left"""
    scan = _scan(sizes, device)
    return lambda: sw.segment_unchecked(scan, _given, sizes["window"])


def naive(sizes, device):
    """Scores of the whole volume times patches, a map of weights beside them, then divided"""
    scan, window = _scan(sizes, device), sizes["window"]
    one = torch.as_tensor(sw.gaussian(window), dtype=torch.float32)
    patch = (one[:, None, None] * one[:, None] * one).to(device)
    starts = sw.starts_of(scan.shape, window, window // 2)

    def call():
        scores = torch.zeros(3, *scan.shape, device=device)
        norm = torch.zeros(3, *scan.shape, device=device)
        for z, y, x in starts:
            cut = scan[z : z + window, y : y + window, x : x + window]
            here = (slice(None), *(slice(at, at + window) for at in (z, y, x)))
            scores[here] += _given(cut[None, None])[0] * patch
            norm[here] += patch
        return sw.largest(scores / norm)

    return call


def broken(sizes, device):
    """As ours, but each window's scores visit the host before they are added"""
    scan = _scan(sizes, device)

    def visited(cut):
        return _given(cut).cpu().to(device)

    return lambda: sw.segment_unchecked(scan, visited, sizes["window"])


def _given(cut):
    return torch.cat([0.3 - cut, cut, -cut], 1)


def _scan(sizes, device):
    side = 2 * sizes["window"]
    made = torch.Generator().manual_seed(0)
    return torch.randn(sizes["window"], side, side, generator=made).to(device)
