"""A dense encoder: a text is the sum of vectors of its words and their parts, of length one.

A word stands in a row of its own and in rows of its pieces of three letters, by a hash; so a
word that was never seen still has a vector. Untrained, the rows are random, and the cosine is
about the share of pieces in common. Trained, a question is drawn to what answers it, and away
from the rest of its batch (the InfoNCE loss of van den Oord and others 2018).
"""

import functools
import math
import random
import zlib
from collections import Counter
from typing import NamedTuple

import torch
from bm25 import words
from torch import nn
from torch.nn import functional

ROWS = 8192


@functools.lru_cache(maxsize=100_000)
def rows_of(word: str) -> tuple[int, ...]:
    """The rows of a word: its own and those of its pieces, by CRC-32."""
    whole = f"<{word}>"
    parts = [whole] + [whole[at : at + 3] for at in range(len(whole) - 2)]
    return tuple(zlib.crc32(part.encode()) % ROWS for part in parts)


class Recipe(NamedTuple):
    """How an encoder is trained: how often it sees each pair, and Adam's rate."""

    epochs: int = 20
    rate: float = 0.01
    batch: int = 64
    heat: float = 0.05


class Encoder(nn.Module):
    """Texts to unit vectors of `width` numbers. A word weighs more the fewer of the
    `documents` hold it, an unknown one most.
    """

    def __init__(self, documents: list[str], width: int = 64, seed: int = 0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        first = torch.randn(ROWS, width, generator=generator) / width**0.5
        self.rows = nn.EmbeddingBag.from_pretrained(first, freeze=False, mode="sum")
        self.held = Counter(word for text in documents for word in set(words(text)))
        self.most = math.log(2 * len(documents) + 2)

    def weight(self, word: str) -> float:
        """From near 0, in all documents, to 1, in none."""
        return 1 - math.log(2 * self.held[word] + 1) / self.most

    def bags(self, texts: list[str]) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Rows and weights of each text, for `forward`. A word said twice counts once."""
        made = []
        for text in texts:
            parts = [(rows_of(word), self.weight(word)) for word in dict.fromkeys(words(text))]
            weights = [weight / len(rows) ** 0.5 for rows, weight in parts for _ in rows]
            rows = torch.tensor([row for own, _ in parts for row in own], dtype=torch.long)
            made.append((rows, torch.tensor(weights)))
        return made

    def forward(self, bags) -> torch.Tensor:
        """(N, width) unit vectors; of a text without words, zeros."""
        sizes = torch.tensor([0] + [len(rows) for rows, _ in bags])
        rows, weights = (torch.cat(side) for side in zip(*bags, strict=True))
        place = self.rows.weight.device
        sums = self.rows(rows.to(place), sizes.cumsum(0)[:-1].to(place), weights.to(place))
        return functional.normalize(sums, dim=1)

    @torch.no_grad()
    def encode(self, texts: list[str]) -> torch.Tensor:
        """(N, width) unit vectors of texts."""
        return self(self.bags(texts)) if texts else self.rows.weight[:0]


def train(encoder: Encoder, pairs: list[tuple[str, str]], recipe: Recipe, seed: int) -> None:
    """Trains on (question, text that answers it). Of a batch each other text is wrong, but
    where it is the same text.
    """
    asked, told = (encoder.bags(list(side)) for side in zip(*pairs, strict=True))
    numbers = {text: at for at, text in enumerate(dict.fromkeys(text for _, text in pairs))}
    owner = torch.tensor([numbers[text] for _, text in pairs])
    adam = torch.optim.Adam(encoder.parameters(), lr=recipe.rate)
    order, rng = list(range(len(pairs))), random.Random(seed)
    for _ in range(recipe.epochs):
        rng.shuffle(order)
        for begin in range(0, len(order), recipe.batch):
            some = order[begin : begin + recipe.batch]
            left, right = (encoder([side[at] for at in some]) for side in (asked, told))
            same = owner[some][:, None] == owner[some][None]
            twins = same & ~torch.eye(len(some), dtype=torch.bool)
            logits = (left @ right.T / recipe.heat).masked_fill(twins.to(left.device), -1e9)
            loss = functional.cross_entropy(logits, torch.arange(len(some), device=left.device))
            adam.zero_grad()
            loss.backward()
            adam.step()
