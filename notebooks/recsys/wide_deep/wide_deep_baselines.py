"""What a click model has to beat, and what it cannot: scores by chance, popularity, parts.

Chance and popularity need no training. Popularity is an ad's click rate in the training rows,
drawn towards the mean of all ads as if it had been shown `prior` times more:

    s = (clicks + prior · mean) / (views + prior)

The wide and the deep part alone are the model's ablation. The ceiling needs the truth of a
drawn log: the MAP@12 of ranking by the probabilities that its clicks were drawn from. No model
of the same rows does better but by luck; one that sees less than the truth stays below.

Shapes: `N` rows; a data set is a dict of tensors as in `wide_deep_training`.
"""

from dataclasses import dataclass, replace

import torch
from click_ranking import map_at_k
from wide_deep import WideDeep
from wide_deep_training import Options, Rows, fit


@dataclass(frozen=True)
class Baseline:
    """MAP@12 of one ranking, a value a seed; `curves` has the epochs of trained ones."""

    name: str
    map_at_12: tuple
    curves: tuple = ()

    @property
    def mean(self):
        return sum(self.map_at_12) / len(self.map_at_12)

    @property
    def spread(self):
        """The largest less the smallest of the seeds."""
        return max(self.map_at_12) - min(self.map_at_12)


def random_scores(rows, seed=0):
    """(rows,) float64 from 0 to 1: a ranking by chance."""
    draw = torch.Generator().manual_seed(seed)
    return torch.rand(rows, generator=draw, dtype=torch.float64)


def popularity_scores(train, valid, prior=20.0, seed=None):
    """(N,) float64: each validation row's click rate of its ad in the training rows.

    An ad that training lacks scores the mean. `seed` breaks ties by chance, by a term too small
    to change any other order; without it equal rates stay equal.
    """
    ads, at = train["ad_id"].unique(return_inverse=True)
    clicked = train["clicked"].double()
    views = torch.bincount(at, minlength=len(ads))
    clicks = torch.zeros(len(ads), dtype=torch.float64).index_add(0, at, clicked)
    mean = clicked.mean()
    rates = (clicks + prior * mean) / (views + prior)
    wanted = valid["ad_id"].contiguous()
    found = torch.searchsorted(ads, wanted).clamp(max=len(ads) - 1)
    scores = torch.where(ads[found] == wanted, rates[found], mean)
    return scores if seed is None else scores + 1e-12 * random_scores(len(scores), seed)


def compare(
    train, valid, sizes, options=None, batch=4096, seeds=(0, 1, 2), device="cpu", **model
):
    """A `Baseline` each for random, popularity, wide, deep and both, by name.

    >>> compare(train, valid, Sizes.published().scaled(0.01, 1 / 8, (64, 64)))["both"].mean

    sizes: the model's; every part is trained from each seed on the same rows. model: dropout
    and sparse of `WideDeep`.
    """
    options, label = options or Options(), (valid["clicked"], valid["display_id"])
    found = {
        "random": [map_at_k(random_scores(len(label[0]), seed), *label) for seed in seeds],
        "popularity": [
            map_at_k(popularity_scores(train, valid, seed=seed), *label) for seed in seeds
        ],
    }
    found = {name: Baseline(name, tuple(values)) for name, values in found.items()}
    for parts in ("wide", "deep", "both"):
        curves = []
        for seed in seeds:
            torch.manual_seed(seed)
            built = WideDeep(sizes, parts, **model).to(device)
            rows = Rows(train, batch, seed, device)
            curves.append(tuple(fit(built, rows, valid, replace(options, seed=seed))))
        last = tuple(curve[-1].map_at_12 for curve in curves)
        found[parts] = Baseline(parts, last, tuple(curves))
    return found


def ceiling(probability, valid):
    """MAP@12 of ranking by the true click probabilities (N,) of the validation rows."""
    return map_at_k(probability, valid["clicked"], valid["display_id"])
