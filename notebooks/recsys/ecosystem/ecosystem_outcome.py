"""What a run of the ecosystem leaves, and how healthy that is.

Shapes: `H` steps, `W` worlds, `P` providers.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Outcome:
    """What a run leaves, as NumPy arrays: mean utility (H, W), clicks and documents (H, W, P).

    `clicks` fade; `pulls`, (W, P), do not. `budget` and `ad_clicks`, (H, W), or None.
    """

    utility: np.ndarray
    clicks: np.ndarray
    documents: np.ndarray
    pulls: np.ndarray
    budget: np.ndarray | None = None
    ad_clicks: np.ndarray | None = None

    @property
    def cumulative(self):
        """The mean user's utility, summed over the horizon, (W,): the article's measure."""
        return self.utility.sum(0)

    @property
    def survivors(self):
        """How many providers have a document, (H, W)."""
        return (self.documents > 0).sum(-1)

    @property
    def inequality(self):
        """The Gini coefficient of the providers' fading clicks, (H, W); 0 before the first."""
        return gini(self.clicks)


def gini(values):
    """The Gini coefficient on the last axis: 0 if all have the same, 1 − 1/n if one has all.

        gini([1.0, 1.0, 1.0, 1.0]), gini([0.0, 0.0, 0.0, 8.0])    # 0.0, 0.75

    Half the mean difference of all pairs over the mean. Zero where all have nothing;
    ValueError for negative or missing values.
    """
    values = np.sort(np.asarray(values, float), -1)
    if not (values >= 0).all():
        raise ValueError(f"values down to {values.min()}; the share of a debt is no inequality")
    count, whole = values.shape[-1], values.sum(-1)
    ranks = 2 * np.arange(1, count + 1) - count - 1
    return (values * ranks).sum(-1) / np.where(whole > 0, count * whole, 1)
