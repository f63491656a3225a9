"""Who finds the passage: by words in common, by BM25, by vectors, or by both.

A ranker is a function of documents that gives a function of a query: a score from about 0 to 1
for each document, so that scores of different queries may be compared.
"""

import functools
import math
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import torch
from bm25 import Index, words

from .encoder import Encoder

Scorer = Callable[[str], torch.Tensor]


def overlap(documents: Sequence[str]) -> Scorer:
    """The words in common, over the geometric mean of both numbers of words: no model."""
    held = [set(words(text)) for text in documents]

    def score(query: str) -> torch.Tensor:
        own = set(words(query))
        found = [len(own & one) / math.sqrt(len(own) * len(one) or 1) for one in held]
        return torch.tensor(found, dtype=torch.float64)

    return score


def lexical(documents: Sequence[str]) -> Scorer:
    """BM25, as a share of what a document could get that said the query's words without end."""
    index = Index(list(documents))
    return lambda query: index.scores(query) / (sum(map(index.rare, words(query))) or 1.0)


def dense(documents: Sequence[str], encoder: Encoder) -> Scorer:
    """The cosine of both vectors."""
    vectors = encoder.encode(list(documents)).double()
    return lambda query: vectors @ encoder.encode([query])[0].double()


def hybrid(one: Scorer, other: Scorer, share: float) -> Scorer:
    """Both scores, of which the first has this share."""
    return lambda query: share * one(query) + (1 - share) * other(query)


class Found(NamedTuple):
    """The best document, its score, by how much it leads over the best of another owner that
    is not nearly the same, and the rank of the right one (0 where there is none).
    """

    best: int
    score: float
    lead: float
    rank: int


@functools.lru_cache(maxsize=10_000)
def _set(text: str) -> frozenset[str]:
    return frozenset(words(text))


def near(text: str, other: str, least: float = 0.7) -> bool:
    """Whether two texts have so much of their different words in common."""
    one, two = _set(text), _set(other)
    return len(one & two) >= least * len(one | two)


def find(scores: torch.Tensor, owners: Sequence[str], right: Collection[str] = ()) -> Found:
    """What a query's scores say. Documents of one owner are pieces of one answer, and rank as
    its best; ties go to the first.
    """
    best: dict[str, tuple[float, int]] = {}
    for at, (owner, score) in enumerate(zip(owners, scores.tolist(), strict=True)):
        if owner not in best or score > best[owner][0]:
            best[owner] = score, at
    ranked = sorted(best.items(), key=lambda pair: (-pair[1][0], pair[1][1]))
    own, (top, place) = ranked[0]
    second = next((score for one, (score, _) in ranked[1:] if not near(one, own)), 0.0)
    rank = next((n for n, (owner, _) in enumerate(ranked, 1) if owner in right), 0)
    return Found(place, top, top - second, rank)


def auc(right: Sequence[float], wrong: Sequence[float]) -> float:
    """How often a right pair scores above a wrong one, ties by half: 0.5 is chance."""
    one, other = (torch.tensor(side, dtype=torch.float64) for side in (right, wrong))
    ahead = one[:, None] - other[None]
    return float(((ahead > 0).double() + 0.5 * (ahead == 0)).mean())
