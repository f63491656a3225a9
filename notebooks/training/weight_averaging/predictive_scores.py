"""How good predicted probabilities are: right, sure, and as sure as they are right.

With probabilities p_NK and labels y_N: accuracy is the share of largest entries that are right;
the negative log-likelihood is the mean of -log p_n[y_n]; the expected calibration error bins
the predictions by their confidence max_k p_nk and adds up |accuracy - confidence|, weighted by
each bin's share (Guo et al. 2017, 15 bins of equal width). Unknown inputs are told by the
entropy of p_n: the area under the ROC curve is the chance that one has the larger entropy.

Legend: N inputs, K classes.
"""

from typing import NamedTuple

import torch
from scipy import stats
from torch.nn import functional as F


class Scores(NamedTuple):
    """accuracy and calibration error (ece) between 0 and 1, nll in nats for each input."""

    accuracy: float
    nll: float
    ece: float


def scores(probs_NK, labels_N, bins=15):
    """The `Scores` of probabilities (N, K) against labels (N,) int64; ValueError for empty
    input, other shapes, rows that are no distributions."""
    check_distributions(probs_NK, labels_N)
    probs_NK = probs_NK.double()
    confidence_N, answer_N = probs_NK.max(1)
    right_N = (answer_N == labels_N).double()
    nll = -probs_NK.gather(1, labels_N[:, None]).clamp_min(1e-300).log().mean()
    which_N = (confidence_N * bins).long().clamp_max(bins - 1)
    ece = which_N.bincount(right_N - confidence_N).abs().sum() / len(labels_N)
    return Scores(right_N.mean().item(), nll.item(), ece.item())


def check_distributions(probs_NK, labels_N):
    """Raise ValueError unless probs_NK are N > 0 distributions and labels_N their classes."""
    if probs_NK.dim() != 2 or labels_N.shape != probs_NK.shape[:1] or not len(labels_N):
        got = f"{tuple(probs_NK.shape)} and {tuple(labels_N.shape)}"
        raise ValueError(f"probabilities and labels are {got}; they are (N, K) and (N,), N > 0")
    sums = probs_NK.double().sum(1)
    if not ((probs_NK >= 0).all() and ((sums - 1).abs() < 1e-4).all()):  # false for NaN, too
        raise ValueError("a row of the probabilities is no distribution; apply softmax first")


def entropies(probs_NK):
    """The entropy (N,) of each row, in nats."""
    return torch.special.entr(probs_NK.double()).sum(1)


def detection_auroc(known_N, unknown_M):
    """The chance that an unknown input scores above a known one, ties counted half: 1 is
    perfect, 0.5 is none. ValueError where one of them is empty or has a NaN."""
    n, m = len(known_N), len(unknown_M)
    if not n or not m or known_N.isnan().any() or unknown_M.isnan().any():
        got = f"{n} known and {m} unknown scores"
        raise ValueError(f"{got}: both need one at least, and none may be NaN")
    statistic = stats.mannwhitneyu(unknown_M.tolist(), known_N.tolist()).statistic
    return float(statistic) / (n * m)


def best_temperature(logits_NK, labels_N):
    """The temperature T with the least loss of softmax(logits / T) on held-out data, of 200
    between 0.1 and 10; a float."""
    grid = torch.logspace(-1, 1, 200, dtype=torch.float64)
    losses = [F.cross_entropy(logits_NK.double() / t, labels_N) for t in grid.tolist()]
    return grid[torch.stack(losses).argmin().item()].item()
