"""How sure an answer is: a probability from its score and its lead, fitted on questions whose
answers are known, some of which have none. Below a limit, chosen on them too, nothing is
answered.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch.nn import functional

from .rankers import Found


class Confidence(NamedTuple):
    """A logistic function of score and lead, and the limit below which nothing is claimed."""

    weights: tuple[float, float, float]
    limit: float

    def of(self, found: Found) -> float:
        """The probability that the best document is right."""
        score, lead, bias = self.weights
        logit = score * found.score + lead * found.lead + bias
        return 1 / (1 + math.exp(-max(logit, -700.0)))


def calibrated(founds: Sequence[Found], right: Sequence[bool]) -> Confidence:
    """The likeliest such function that falls with neither score nor lead, slightly held back so
    that it exists for separable answers too, and the `limit_of` its confidences. `right[i]`
    says whether the best document of `founds[i]` answers its question.
    """
    if len(set(right)) < 2:
        raise ValueError("right and wrong answers are wanted, some of both")
    x = torch.tensor([[one.score, one.lead, 1.0] for one in founds], dtype=torch.float64)
    y = torch.tensor(right, dtype=torch.float64)
    free = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    steps = torch.optim.LBFGS([free], max_iter=200, line_search_fn="strong_wolfe")

    def weights():
        return torch.cat([free[:2] ** 2, free[2:]])  # nothing is less sure for a higher score

    def closure():
        steps.zero_grad()
        loss = functional.binary_cross_entropy_with_logits(x @ weights(), y)
        loss = loss + 1e-3 * (weights()[:2] ** 2).sum() / len(right)
        loss.backward()
        return loss

    with torch.no_grad():
        free += 1.0  # at 0 a square has no slope
    steps.step(closure)
    made = Confidence(tuple(weights().tolist()), 0.0)
    return made._replace(limit=limit_of([made.of(one) for one in founds], right))


def limit_of(sure: Sequence[float], right: Sequence[bool]) -> float:
    """The limit at which right answers less wrong ones are most, as if a wrong one cost what a
    right one is worth; the highest of several, and above all of
    them where none is worth it.
    """
    ranked = sorted(zip(sure, right, strict=True), reverse=True)
    gains = itertools.accumulate((1 if hit else -1 for _, hit in ranked), initial=0)
    ends = [1.0, *(one for one, _ in ranked), 0.0]
    cuts = [(gain, (ends[at] + ends[at + 1]) / 2) for at, gain in enumerate(gains)]
    return max(cut for at, cut in enumerate(cuts) if ends[at] > ends[at + 1])[1]


class Tally(NamedTuple):
    """Of all questions, in shares: answered at all (the article's test: an excerpt and a link),
    answered rightly, answered wrongly; of those that have no answer, refused. `precision` is
    the rank-1 share and `mrr` the mean of 1 over the rank, of those that have one, whatever
    the confidence. `error`: the mean gap of ten bins between confidence and share right.
    """

    precision: float
    mrr: float
    answered: float
    right: float
    wrong: float
    refused: float
    error: float


def tally(founds: Sequence[Found], known: Sequence[bool], confidence: Confidence) -> Tally:
    """What questions meet; `known[i]`: whether the i-th has an answer in the index."""
    sure = [confidence.of(one) for one in founds]
    told = [one >= confidence.limit for one in sure]
    hits = [one.rank == 1 for one in founds]
    many, with_one = len(founds), max(sum(known), 1)
    refused = sum(not t for t, k in zip(told, known, strict=True) if not k)
    right = sum(t and h for t, h in zip(told, hits, strict=True))
    return Tally(
        precision=sum(hits) / with_one,
        mrr=sum(1 / one.rank for one in founds if one.rank) / with_one,
        answered=sum(told) / many,
        right=right / many,
        wrong=(sum(told) - right) / many,
        refused=refused / max(many - sum(known), 1),
        error=gap(sure, hits),
    )


def gap(sure: Sequence[float], hits: Sequence[bool], bins: int = 10) -> float:
    """The expected calibration error: over bins of equal width, by how many are in each."""
    places = [min(int(one * bins), bins - 1) for one in sure]
    total = 0.0
    for place in set(places):
        own = [at for at, one in enumerate(places) if one == place]
        total += abs(sum(sure[at] - hits[at] for at in own))
    return total / len(sure)
