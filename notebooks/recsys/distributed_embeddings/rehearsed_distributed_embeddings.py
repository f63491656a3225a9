"""A DLRM step as a GPU would run it on one device, the tables one by one, and a broken one.

`make predict` counts them without a GPU, at the sizes of each tier. What several processes do
is not counted.
"""

import torch
from click_logs import Clicks, shrunk_rows
from dlrm import SMALL, Dlrm, PlainTables, train_step
from hybrid import DistributedEmbedding, average_gradients
from placement import plan
from synthetic_models import DLRM_TERABYTE

METRICS = {}  # the article's rates are of eight GPUs or of another product on one


def ours(sizes, device):
    """One training step, tables of one width merged into one lookup"""
    tables = _tables(sizes)
    return _step(
        DistributedEmbedding(plan(tables, 1), device=device, check=False), sizes, device
    )


def naive(sizes, device):
    """The same with 26 lookups, one a table; predicted faster: merging moves ids once more"""
    return _step(PlainTables(_tables(sizes), device=device), sizes, device)


def broken(sizes, device):
    """The same merged, but the largest tables on the host: ids go up and vectors come down in
    each step
    """
    tables = _tables(sizes)
    limit = sum(rows * width for rows, width in tables) // 10
    return _step(
        DistributedEmbedding(plan(tables, 1, device_limit=limit), device=device, check=False),
        sizes,
        device,
    )


def _tables(sizes):
    return [(rows, SMALL.width) for rows in shrunk_rows(DLRM_TERABYTE, sizes["factor"])]


def _step(tables, sizes, device):
    model = Dlrm(tables, 26).to(device)
    batch, place = sizes["batch"], torch.device(device)
    draw = [torch.randint(0, rows, (batch,), device=place) for rows, _ in _tables(sizes)]
    labels = torch.zeros(batch, device=place)
    clicks = Clicks(labels, torch.zeros(batch, SMALL.numbers, device=place), torch.stack(draw))
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    return lambda: train_step(model, clicks, optimiser, average_gradients)
