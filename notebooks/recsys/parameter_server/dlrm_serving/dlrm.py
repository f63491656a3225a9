"""DLRM (Naumov et al. 2019): numbers through one network, categories as vectors, products
of all pairs, and a second network on top.

Shapes: `B` samples, `F` features, `D` numbers, `W` width.
"""

import numpy as np
import torch
from torch import nn


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
    """A Dlrm after one pass over batches of (numbers, keys, clicked); rows in none of them are
    zero.

    Adagrad (Duchi et al. 2011); of the table only the rows that a batch touched move.
    """
    torch.manual_seed(seed)
    model = Dlrm(world, width).to(device)
    table, parts = model.table.weight.detach(), list(model.dense.parameters())
    sums = [torch.full_like(part, 1e-6) for part in (*parts, table[:, :1])]
    seen = torch.zeros(world.rows, dtype=torch.bool, device=device)
    for one_batch in batches:
        numbers, keys, clicked = (one.to(device) for one in one_batch)
        rows, places = torch.unique(keys, return_inverse=True)
        vectors = table[rows].requires_grad_()
        odds = model.dense(numbers, vectors[places])
        loss = nn.functional.binary_cross_entropy_with_logits(odds, clicked, reduction="sum")
        *slopes, slope = torch.autograd.grad(loss, [*parts, vectors])
        with torch.no_grad():
            for part, total, one in zip(parts, sums, slopes, strict=False):
                total += one**2
                part -= rate * one / total.sqrt()
            sums[-1][rows] += (slope**2).mean(1, keepdim=True)
            table[rows] -= rate * slope / sums[-1][rows].sqrt()
        seen[rows] = True
    table[~seen] = 0
    return model.eval().requires_grad_(False)
