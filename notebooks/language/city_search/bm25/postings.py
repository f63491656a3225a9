"""Which document holds the question's rarer words, without a model: BM25 (Robertson and others
1994).

In the form of Lucene: the weight of a word is ln(1 + (N − n + ½) / (n + ½)) for n of N
documents, never below 0, and the constant factor k1 + 1 is left out, since it changes no order.
"""

import math
import re
from collections import Counter

import torch

K1, B = 1.5, 0.75
WORD = re.compile(r"\w+")


def words(text: str) -> list[str]:
    """The words of a text as the index knows them: runs of letters, digits and underscores in
    lower case, all kept, none cut to its stem.
    """
    return WORD.findall(text.lower())


class Index:
    """The documents by their words; `scores(query)` reads only the postings of the query's
    words.
    """

    def __init__(self, documents: list[str], k1: float = K1, b: float = B):
        if not (k1 >= 0 and 0 <= b <= 1):
            raise ValueError(f"k1={k1}, b={b}; k1 from 0 on and b from 0 to 1 are wanted")
        counted = [Counter(words(text)) for text in documents]
        lengths = torch.tensor([one.total() for one in counted], dtype=torch.float64)
        mean = lengths.mean() if lengths.sum() else 1.0
        floor = k1 * (1 - b + b * lengths / mean)
        self.held: dict[str, list[tuple[int, int]]] = {}
        for place, own in enumerate(counted):
            for word, many in own.items():
                self.held.setdefault(word, []).append((place, many))
        self.documents, self.postings = len(documents), {}
        for word, found in self.held.items():
            places, many = torch.tensor(found).T
            share = many / (many + floor[places])
            self.postings[word] = places, self.rare(word) * share

    def rare(self, word: str) -> float:
        """The weight of a word, known or not."""
        held = len(self.held.get(word, ()))
        return math.log1p((self.documents - held + 0.5) / (held + 0.5))

    def scores(self, query: str) -> torch.Tensor:
        """(N,) float64: a score for each document, 0 where no word is shared. A word that the
        query says twice counts twice.
        """
        total = torch.zeros(self.documents, dtype=torch.float64)
        for word in words(query):
            if word in self.postings:
                total.index_add_(0, *self.postings[word])
        return total


def scores(query: str, documents: list[str], k1: float = K1, b: float = B) -> torch.Tensor:
    """As `Index(documents, k1, b).scores(query)`, for a few documents that are asked once."""
    return Index(documents, k1, b).scores(query)
