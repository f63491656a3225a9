"""One search as a GPU would run it, the naive way, and a broken one, for `make predict`."""

from functools import partial

import rolling_distance as rd
import torch

QUERY = 421
METRICS = {  # of the card: the function that it times, and how many windows one call compares
    f"{name}_float64_rate": (part, lambda sizes: sizes["points"] - QUERY + 1)
    for name, part in (("zdist", "ours"), ("mdist", "ours_mdist"), ("sdist", "ours_sdist"))
}


def ours(sizes, device):
    """One zdist in blocks, float64; the stream is on the card already"""
    return partial(rd.zdist, *_beats(sizes["points"], device))


def ours_mdist(sizes, device):
    """One mdist in blocks"""
    return partial(rd.mdist, *_beats(sizes["points"], device))


def ours_sdist(sizes, device):
    """One sdist in blocks"""
    return partial(rd.sdist, *_beats(sizes["points"], device))


def naive(sizes, device):
    """All windows laid out as rows of one table, normalised, compared"""
    query, stream = _beats(sizes["points"], device)

    def search():
        rows = stream.unfold(0, QUERY, 1)
        rows = (rows - rows.mean(1, keepdim=True)) / rows.std(1, correction=0, keepdim=True)
        wanted = (query - query.mean()) / query.std(correction=0)
        return (rows - wanted).square().sum(1).sqrt()

    return search


def broken(sizes, device):
    """The same zdist, but the stream goes up and all distances come down in each call"""
    query, stream = _beats(sizes["points"], "cpu")
    return lambda: rd.zdist(query.to(device), stream.to(device)).cpu()


def _beats(points, device):
    """A stream of drifting beats, float64 (points,), and one of them."""
    time = torch.arange(points, dtype=torch.float64)
    noise = torch.randn(points, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    stream = torch.sin(time / 50) ** 9 + torch.sin(time / 70_000) + 0.05 * noise
    return stream[10_000 : 10_000 + QUERY].to(device), stream.to(device)
