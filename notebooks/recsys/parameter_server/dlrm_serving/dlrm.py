"""DLRM (Naumov et al. 2019): numbers through one network, categories as vectors, products
of all pairs, and a second network on top. And the three ways of the article to serve it: each
returns `score(numbers_BD, keys_BF)`, the chances of a click (B,), on the CPU. The dense part is
copied, a worker shares it with nobody; tables and caches are shared.

Shapes: `B` samples, `F` features, `D` numbers, `W` width.
"""

import copy

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits, embedding


class Dense(nn.Module):
    """All but the tables: small, so every worker has a copy of its own.

    `Dense(features, numbers, width)(numbers_BD, vectors_BFW)`: the log odds (B,).
    """

    def __init__(self, features, numbers, width, hidden=64):
        super().__init__()
        self.bottom = nn.Sequential(
            nn.Linear(numbers, hidden), nn.ReLU(), nn.Linear(hidden, width)
        )
        pairs = torch.triu_indices(features + 1, features + 1, offset=1)
        self.register_buffer("pairs", pairs, persistent=False)
        first = nn.Linear(width * (features + 1) + pairs.shape[1], hidden)
        self.top = nn.Sequential(first, nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, numbers_BD, vectors_BFW):
        bottom_BW = self.bottom(numbers_BD)
        all_BGW = torch.cat([bottom_BW[:, None], vectors_BFW], 1)
        products_BGG = all_BGW @ all_BGW.mT
        products = products_BGG[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([all_BGW.flatten(1), products], 1))[:, 0]


class Dlrm(nn.Module):
    """Dense part and one table for all: `Dlrm(world, width=16)(numbers_BD, keys_BF)`."""

    def __init__(self, world, width=16):
        super().__init__()
        self.table = nn.Embedding(world.rows, width)
        nn.init.normal_(self.table.weight, std=0.05)
        self.dense = Dense(world.features, world.numbers, width)

    def forward(self, numbers_BD, keys_BF):
        return self.dense(numbers_BD, self.table(keys_BF))


def train(world, samples, width=16, batch=512, seed=0, rate=0.03, device="cpu"):
    """A Dlrm after one pass over so many drawn samples, by `learned`."""
    rng = np.random.default_rng([seed, 1])
    drawn = (world.draw(batch, rng) for _ in range(samples // batch))
    return learned(world, drawn, width, seed, rate, device)


def learned(world, batches, width=16, seed=0, rate=0.03, device="cpu"):
    """A Dlrm after one pass of Adagrad over batches of (numbers, keys, clicked).

    Rows of the table that are in none of them are zero.
    """
    torch.manual_seed(seed)
    model = Dlrm(world, width).to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), rate)
    unseen = torch.ones(world.rows, dtype=torch.bool, device=device)
    for batch in batches:
        numbers, keys, clicked = (one.to(device) for one in batch)
        odds = model(numbers, keys)
        loss = binary_cross_entropy_with_logits(odds, clicked, reduction="sum")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        unseen[keys.flatten()] = False
    model.eval().requires_grad_(False)
    model.table.weight[unseen] = 0
    return model


def all_on_cpu(model, weight):
    """Tables and dense part with the CPU. `weight`: the table (rows, W), on the CPU."""
    return tables_on_cpu(model, weight, "cpu")


def tables_on_cpu(model, weight, device):
    """The table with the CPU, the dense part on the device: vectors cross the link."""
    return _worker(model, device, lambda keys_BF: embedding(keys_BF, weight))


def hierarchy(model, table):
    """Hot vectors in the device's cache, the others below: `table` is an `EmbeddingTable`."""

    def vectors_of(keys_BF):
        return table.lookup(keys_BF.flatten()).view(*keys_BF.shape, -1)

    return _worker(model, table.cache.device, vectors_of)


def _worker(model, device, vectors_of):
    dense = copy.deepcopy(model.dense).to(device)

    @torch.inference_mode()
    def score(numbers_BD, keys_BF):
        vectors_BFW = vectors_of(keys_BF).to(device)
        return torch.sigmoid(dense(numbers_BD.to(device), vectors_BFW)).cpu()

    return score
