"""DLRM: numbers through a bottom network, categories through tables, all pairs of their
vectors' products into a top network.

Naumov et al. 2019. The tables are whatever module gives the list of vectors for `Bags`:
`hybrid.DistributedEmbedding`, or `PlainTables` on one process and under data parallelism. The
article's sizes: bottom 512-256-128, top 1024-1024-512-256-1.

Shape legend: `B` samples, `F` inputs with the numbers' one, `W` width of all tables.
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional


class Sizes(NamedTuple):
    """Width of the tables, hidden layers of both networks, count of numeric features."""

    width: int = 128
    bottom: tuple = (512, 256)
    top: tuple = (1024, 1024, 512, 256)
    numbers: int = 13


SMALL = Sizes(16, (64, 32), (64, 32))


class PlainTables(nn.Module):
    """PyTorch's own tables, one lookup for each: what `DistributedEmbedding` replaces."""

    def __init__(self, tables, inputs=None, sparse=True, **more):
        super().__init__()
        self.inputs = list(range(len(tables)) if inputs is None else inputs)
        self.bags = nn.ModuleList(
            nn.EmbeddingBag(rows, width, mode=(*mode, "sum")[0], sparse=sparse, **more)
            for rows, width, *mode in tables
        )

    def forward(self, bags):
        lengths = bags.lengths_FB()
        starts = (lengths.cumsum(1) - lengths).unbind(0)
        pairs = zip(self.inputs, bags.by_input(), starts, strict=True)
        return [self.bags[table](ids, begin) for table, ids, begin in pairs]

    @torch.no_grad()
    def set_weights(self, tables):
        """None; the weights become these tensors' values."""
        for bag, table in zip(self.bags, tables, strict=True):
            bag.weight.copy_(table)

    def get_weights(self):
        """The whole tables."""
        return [bag.weight.detach() for bag in self.bags]


def layers(widths, last=False):
    """A network of linear layers with ReLU between them, and after the last unless `last`."""
    pairs = list(zip(widths, widths[1:], strict=False))
    made = [part for a, b in pairs for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*(made[:-1] if last else made))


class Dlrm(nn.Module):
    """A module from (numbers (B, 13), Bags) to logits (B,); tables give `inputs` vectors."""

    def __init__(self, tables, inputs, sizes=SMALL):
        super().__init__()
        self.tables, count = tables, inputs + 1
        self.bottom = layers((sizes.numbers, *sizes.bottom, sizes.width))
        self.top = layers((sizes.width + count * (count - 1) // 2, *sizes.top, 1), last=True)
        rows, columns = torch.tril_indices(count, count, -1)
        self.register_buffer("lower", rows * count + columns, persistent=False)

    def forward(self, numbers, bags):
        vectors = self.tables(
            bags
        )  # first, so that ids travel while nothing waits for the numbers
        return self.combined(numbers, vectors)

    def combined(self, numbers, vectors):
        """The logits from the numbers and the tables' vectors."""
        dense_BW = self.bottom(numbers)
        all_BFW = torch.stack([dense_BW, *vectors], 1)
        products_BFF = all_BFW @ all_BFW.transpose(1, 2)
        pairs = products_BFF.flatten(1).index_select(1, self.lower)
        return self.top(torch.cat([dense_BW, pairs], 1))[:, 0]


def loss_of(model, clicks):
    """The mean cross entropy of a model on these clicks, with a gradient."""
    return functional.binary_cross_entropy_with_logits(
        model(clicks.numbers, clicks.bags()), clicks.labels
    )


def train_step(model, clicks, optimiser, average=None):
    """The loss before the step; `average` is called with the model before the step."""
    optimiser.zero_grad(set_to_none=True)
    loss = loss_of(model, clicks)
    loss.backward()
    if average:
        average(model)
    optimiser.step()
    return loss.detach()
