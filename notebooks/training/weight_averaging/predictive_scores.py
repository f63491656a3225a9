"""How good predicted probabilities are: right, sure, and as sure as they are right.

With probabilities p_NK and labels y_N: accuracy is the share of largest entries that are right; the negative
log-likelihood is the mean of -log p_n[y_n]; the expected calibration error bins the predictions by their confidence
c_n = max_k p_nk and adds up |accuracy - confidence| by the share of each bin (Guo et al. 2017; 15 bins of equal width, as there). Unknown
inputs are told by the entropy of p_n: the area under the ROC curve is the chance that an unknown input has the larger one.

Legend: N inputs, K classes, S samples.
"""

from typing import NamedTuple

import torch


class Scores(NamedTuple):
    """accuracy and calibration error (ece) between 0 and 1, negative log-likelihood (nll) in nats per input."""

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
    gaps = torch.zeros(bins, dtype=torch.float64, device=probs_NK.device).index_add_(0, which_N, right_N - confidence_N)
    return Scores(right_N.mean().item(), nll.item(), (gaps.abs().sum() / len(labels_N)).item())


def check_distributions(probs_NK, labels_N):
    """Raise ValueError unless probs_NK are N > 0 distributions over K classes and labels_N their N classes."""
    if probs_NK.dim() != 2 or labels_N.shape != probs_NK.shape[:1] or not len(labels_N):
        raise ValueError(f"probabilities {tuple(probs_NK.shape)} and labels {tuple(labels_N.shape)}: (N, K) and (N,) with N > 0")
    if (probs_NK < 0).any() or not torch.allclose(probs_NK.double().sum(1), probs_NK.new_ones(()).double(), atol=1e-4):
        raise ValueError("a row of the probabilities does not sum to one, or holds a negative number; apply softmax first")


def entropies(probs_NK):
    """The entropy (N,) of each row, in nats."""
    return torch.special.entr(probs_NK.double()).sum(1)


def detection_auroc(known_N, unknown_M):
    """The chance that an unknown input scores above a known one, ties counted half: 1 perfect, 0.5 none.

    Both are scores (such as entropies), larger for what looks unknown. By ranks (Mann and Whitney), O((N+M) log(N+M)).
    """
    if not len(known_N) or not len(unknown_M):
        raise ValueError(f"{len(known_N)} known and {len(unknown_M)} unknown scores: both need one at least")
    both = torch.cat([known_N, unknown_M]).double()
    _, group, sizes = both.unique(return_inverse=True, return_counts=True)
    last = sizes.cumsum(0).double()
    ranks = last - (sizes.double() - 1) / 2
    m, n = len(unknown_M), len(known_N)
    return ((ranks[group[n:]].sum() - m * (m + 1) / 2) / (m * n)).item()


def tempered(logits_NK, temperature):
    """softmax(logits / temperature)."""
    return (logits_NK / temperature).softmax(1)


def best_temperature(logits_NK, labels_N, grid=None):
    """The temperature with the least negative log-likelihood on held-out logits; a float.

    A golden search would do; a grid of 200 values between 0.1 and 10, equally far apart in logarithm, is plain enough.
    """
    grid = torch.logspace(-1, 1, 200, dtype=torch.float64) if grid is None else grid
    losses = torch.stack([torch.nn.functional.cross_entropy(logits_NK.double() / t, labels_N) for t in grid])
    return grid[losses.argmin()].item()
