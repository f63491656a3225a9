"""A DLRM step as a GPU would run it on one device, the tables one by one, and a broken one.

`make predict` counts them without a GPU, at the sizes of each tier. What several processes do
is not counted.
"""

import torch
from click_logs import Clicks, shrunk_rows
from dlrm import SMALL, Dlrm, PlainTables, layers, train_step
from hybrid import DistributedEmbedding, average_gradients
from placement import plan
from synthetic_models import DLRM_TERABYTE, MODELS
from torch.nn import functional

METRICS = {"tiny_step_ms": ("tiny", None)}
AHEAD = {
    "naive": "the merged version divides its gradients by the number of processes, which is "
    "one here, and lays ids and vectors out once more; what it is made for, fewer and larger "
    "messages between processes, is not counted"
}
TOO_MUCH = {
    "ours": "the lookup and the sparse step count all rows of the tables, up to a sixth of the "
    "bytes",
    "naive": "as above",
    "broken": "as above",
}
BATCH = 65_536  # of the article's synthetic models


def ours(sizes, device):
    """One training step, tables of one width merged into one lookup"""
    tables = _tables(sizes)
    return _step(
        DistributedEmbedding(plan(tables, 1), device=device, check=False), sizes, device
    )


def tiny(sizes, device):
    """One step of the article's Tiny with 65,536 samples: rows gathered, summed, and scattered
    back, by plain SGD
    """
    own = MODELS["Tiny"]
    tables = [torch.empty(table.rows, table.width, device=device) for table in own.tables]
    widths = [own.tables[table].width for table in own.inputs]
    top = layers((own.numbers + sum(widths), *own.hidden, 1), last=True).to(device)
    ids = [torch.zeros(BATCH, n, dtype=torch.long, device=device) for n in own.hot]
    numbers, labels = (torch.zeros(BATCH, n, device=device) for n in (own.numbers, 1))
    optimiser = torch.optim.SGD(top.parameters(), 0.1)

    def step():
        optimiser.zero_grad(set_to_none=True)
        pairs = list(zip(own.inputs, ids, strict=True))
        sums = [functional.embedding(one, tables[table]).sum(1) for table, one in pairs]
        read = torch.cat([numbers, *sums], 1).requires_grad_()
        loss = functional.binary_cross_entropy_with_logits(top(read), labels)
        loss.backward()
        parts = read.grad[:, own.numbers :].split(widths, 1)
        for (table, one), part in zip(pairs, parts, strict=True):
            each = part[:, None].expand(-1, one.shape[1], -1).flatten(0, 1)
            tables[table].index_add_(0, one.flatten(), each, alpha=-0.1)
        optimiser.step()
        return loss.detach()

    return step


def naive(sizes, device):
    """The same with 26 lookups, one a table"""
    return _step(PlainTables(_tables(sizes), device=device), sizes, device)


def broken(sizes, device):
    """The same merged, but in each step the host asks for each table's largest id"""
    tables = DistributedEmbedding(plan(_tables(sizes), 1), device=device, check=False)
    return _step(tables, sizes, device, asks=True)


def _tables(sizes):
    return [(rows, SMALL.width) for rows in shrunk_rows(DLRM_TERABYTE, sizes["factor"])]


def _step(tables, sizes, device, asks=False):
    """A function that takes a step on a batch that lies on the device."""
    model = Dlrm(tables, 26).to(device)
    batch, place = sizes["batch"], torch.device(device)
    draw = [torch.randint(0, rows, (batch,), device=place) for rows, _ in _tables(sizes)]
    labels = torch.zeros(batch, device=place)
    clicks = Clicks(labels, torch.zeros(batch, SMALL.numbers, device=place), torch.stack(draw))
    optimiser = torch.optim.SGD(model.parameters(), 0.1)

    def step():
        if asks and min(int(ids.max()) for ids in clicks.ids) < 0:
            raise ValueError("an id below 0")
        return train_step(model, clicks, optimiser, average_gradients)

    return step
