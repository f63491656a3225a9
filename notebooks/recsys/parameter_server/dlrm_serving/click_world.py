"""A world of clicks whose keys follow a power law, with the truth known.

Each of F features has its own categories; as in the article's benchmark all tables are one: the
key of category c of feature f is f × categories + c. A click's log odds are the sum of a drawn
effect of each category and of a weight of each number.

Shapes: `B` samples, `F` features, `D` numbers.
"""

import numpy as np
import torch
from embedding_hierarchy import PowerLaw
from scipy.stats import rankdata


class ClickWorld:
    """`numbers, keys, clicked = ClickWorld(seed=0).draw(512, rng)`: (B, D), (B, F), (B,)."""

    def __init__(self, features=8, categories=5000, exponent=1.3, numbers=4, seed=0):
        rng = np.random.default_rng([seed, 21])
        self.features, self.categories, self.numbers = features, categories, numbers
        self.laws = [PowerLaw(categories, exponent, seed=[seed, f]) for f in range(features)]
        self.rows = features * categories
        self.effects = rng.normal(0, 1 / np.sqrt(features), self.rows) * 1.8
        self.weights = rng.normal(0, 0.4, numbers)

    def draw(self, samples, rng):
        """Samples of a NumPy generator, as tensors."""
        drawn = [law.draw(samples, rng) for law in self.laws]
        keys = np.stack(drawn, 1) + self.categories * np.arange(self.features)
        numbers = rng.standard_normal((samples, self.numbers))
        odds = self.effects[keys].sum(1) + numbers @ self.weights - 0.5
        clicked = rng.random(samples) < 1 / (1 + np.exp(-odds))
        made = (numbers.astype(np.float32), keys, clicked.astype(np.float32))
        return tuple(map(torch.from_numpy, made))


def auc(scores, clicked):
    """The chance that a click's score is above a non-click's; equal scores count half.

        auc([0.1, 0.8, 0.8], [0, 1, 0])    # 0.75

    Raises ValueError unless both kinds came.
    """
    scores, clicked = np.asarray(scores, np.float64), np.asarray(clicked) > 0.5
    if clicked.all() or not clicked.any():
        raise ValueError("an AUC needs clicks and non-clicks; one kind alone came")
    ones, ranks = clicked.sum(), rankdata(scores)
    return float((ranks[clicked].sum() - ones * (ones + 1) / 2) / (ones * (~clicked).sum()))
