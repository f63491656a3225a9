"""A packed training step as a GPU would run it, and row by row.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import bench_packing
import torch
from packed_bert import IGNORED, PackedBert, lay_out, loss
from sequence_packing import assign, spfhp

LEFT_OUT = {
    "broken": "a batch is a few hundred kilobytes of numbers, so that its way from the host "
    "hides behind the products of one step"
}
METRICS = {}  # no claim of the article that we test is a rate or a time of a step


def ours(sizes, device):
    """Loss and gradients of all packed rows in one call; the batch is on the card already"""
    model, batch = _model(sizes, device), _batch(sizes, device)
    return lambda: _learned(model, loss(model(batch), batch))


def naive(sizes, device):
    """The same, one packed row after the other"""
    model, whole = _model(sizes, device), _batch(sizes, "cpu")
    words, count = int((whole.labels != IGNORED).sum()), len(whole.following)
    rows = [row.to(device) for row in bench_packing.pieces(whole, 1)]

    def call():
        value = 0.0
        for row in rows:
            value = value + bench_packing.summed(*model(row), row, words, count)
        return _learned(model, value)

    return call


def _learned(model, value):
    model.zero_grad(set_to_none=True)
    value.backward()
    return [value.detach(), *(one.grad for one in model.parameters())]


def _model(sizes, device):
    torch.manual_seed(0)
    made = PackedBert(bench_packing.VOCABULARY, sizes["width"], 4, 2, bench_packing.ROW)
    return made.to(device)


def _packed(sizes):
    parts = bench_packing.sequences_of(sizes["sequences"])
    lengths = [len(row) for row in parts[0]]
    counts = torch.bincount(torch.tensor(lengths), minlength=bench_packing.ROW + 1)[1:]
    return parts, assign(lengths, *spfhp(counts.numpy(), bench_packing.ROW, 3))


def _batch(sizes, device):
    parts, rows = _packed(sizes)
    return lay_out(*parts, rows, bench_packing.ROW).to(device)
