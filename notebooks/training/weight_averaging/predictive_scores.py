"""How good predicted probabilities are: right, sure, and as sure as they are right.

With probabilities p_NK and labels y_N: accuracy is the share of largest entries that are right;
the negative log-likelihood is the mean of -log p_n[y_n]; the expected calibration error bins
the predictions by their confidence c_n = max_k p_nk and adds up |accuracy - confidence|,
weighted by each bin's share (Guo et al. 2017, 15 bins of equal width as there). Unknown inputs
are told by the entropy of p_n: the area under the ROC curve is the chance that an unknown input
has the larger one.

Legend: N inputs, K classes.
"""

from typing import NamedTuple

import torch
from torch.nn import functional as F


class Scores(NamedTuple):
    """accuracy and calibration error (ece) between 0 and 1, nll in nats for each input."""

    accuracy: float
    nll: float
    ece: float


def scores(probs_NK, labels_N, bins=15):
    """The `Scores` of probabilities (N, K), each row summing to one, against labels (N,) int64.

    Raises ValueError for empty input, other shapes, rows that are no distributions.
    """
    check_distributions(probs_NK, labels_N)
    probs_NK = probs_NK.double()
    confidence_N, answer_N = probs_NK.max(1)
    right_N = (answer_N == labels_N).double()
    nll = -probs_NK.gather(1, labels_N[:, None]).clamp_min(1e-300).log().mean()
    which_N = (confidence_N * bins).long().clamp_max(bins - 1)
    gaps = torch.zeros(bins, dtype=torch.float64, device=probs_NK.device)
    gaps.index_add_(0, which_N, right_N - confidence_N)
    ece = gaps.abs().sum() / len(labels_N)
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
    """The chance that an unknown input scores above a known one, ties counted half.

    1 is perfect, 0.5 is none. Both are scores (such as entropies), larger for what looks
    unknown. By ranks (Mann and Whitney), O((N+M) log(N+M)). Raises ValueError where one of them
    is empty.
    """
    n, m = len(known_N), len(unknown_M)
    if not n or not m:
        raise ValueError(f"{n} known and {m} unknown scores: both need one at least")
    both = torch.cat([known_N, unknown_M]).double()
    _, group, sizes = both.unique(return_inverse=True, return_counts=True)
    ranks = sizes.cumsum(0).double() - (sizes.double() - 1) / 2
    return ((ranks[group[n:]].sum() - m * (m + 1) / 2) / (m * n)).item()


def best_temperature(logits_NK, labels_N):
    """The temperature T with the least loss of softmax(logits / T) on held-out data; a float.

    Of 200 values between 0.1 and 10, equally far apart in logarithm: one number needs no more.
    """
    grid = torch.logspace(-1, 1, 200, dtype=torch.float64)
    losses = [F.cross_entropy(logits_NK.double() / t, labels_N) for t in grid.tolist()]
    return grid[torch.stack(losses).argmin().item()].item()
