"""How far stated probabilities are from what happens.

A model that says 0.9 a hundred times should be right ninety times. `reliability` sorts answers
by the probability that the model gave them; the expected calibration error (Naeini, Cooper and
Hauskrecht, 2015) is the mean gap, weighted by how many answers lie in a bin.

Naive Bayes treats features as independent. Neighbouring pixels are not: the same evidence is
counted again and again, and the posterior runs to 0 or 1.

Shapes: `N` samples, `C` classes, `B` bins.
"""

import numpy as np


def reliability(log_p_NC, at_N, bins=10):
    """(confidence (B,), right (B,), count (B,)): means in bins of equal width from 0 to 1.

    `at_N` is the column of the true class. An empty bin has NaN. Raises ValueError for shapes
    that do not match, rows that do not sum to 1, and fewer than one bin.
    """
    p_NC, at_N = np.exp(np.asarray(log_p_NC)), np.asarray(at_N)
    if p_NC.ndim != 2 or at_N.shape != (len(p_NC),) or not len(p_NC) or bins < 1:
        raise ValueError(
            f"{p_NC.shape}, {at_N.shape}, {bins} bins: (N, C), (N,) and 1 are the least"
        )
    if not np.allclose(p_NC.sum(axis=1), 1):
        raise ValueError("rows do not sum to 1: normalised log-probabilities are needed")
    top_N, right_N = p_NC.max(axis=1), p_NC.argmax(axis=1) == at_N
    bin_N = np.minimum((top_N * bins).astype(int), bins - 1)  # 1 lies in the last one
    count_B = np.bincount(bin_N, minlength=bins)
    with np.errstate(invalid="ignore"):
        means = (np.bincount(bin_N, one, bins) / count_B for one in (top_N, right_N))
        return (*means, count_B)


def calibration_error(log_p_NC, at_N, bins=10):
    """The expected calibration error: Σ_b count_b / N · |right_b − confidence_b|, 0 is best."""
    confidence_B, right_B, count_B = reliability(log_p_NC, at_N, bins)
    gap_B = np.nan_to_num(abs(right_B - confidence_B))
    return float(gap_B @ count_B / count_B.sum())
