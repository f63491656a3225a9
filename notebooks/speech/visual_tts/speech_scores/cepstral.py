"""How far two spectrograms are apart, in dB: mel-cepstral distortion, in step or after time
warping.

    c_d = 1/M sum_m ln P_m cos(pi d (m + 1/2) / M)           P_m the power in mel band m of M
    MCD = 10 / ln 10 * mean over steps of sqrt(2 sum_{d=1..13} (c_d - c'_d)^2)
    (Kubichek 1993)

c_0, the loudness, is left out. In step, a word that comes late counts in full; after dynamic
time warping it counts little. Print both.

Shapes: `S` and `R` steps, `M` mels, `D` = 13 coefficients, `K` spectra. NumPy, float64.
"""

import math

import numpy as np
from scipy.fft import dct

__all__ = ["cepstra", "mel_cepstral_distortion", "mel_cepstral_distortion_reference"]
__all__ += ["warped_distances", "warping_path"]

COEFFICIENTS = 13
DB = 10 / math.log(10)


def cepstra(ln_mel_SM):
    """The mel cepstra c_1 to c_13, (S, 13), of natural logarithms of mel *amplitudes* (S, M);
    power is their double.
    """
    ln_mel_SM = np.asarray(ln_mel_SM, np.float64)
    return dct(ln_mel_SM, type=2)[:, 1 : COEFFICIENTS + 1] / ln_mel_SM.shape[-1]


def mel_cepstral_distortion(said_SD, true_RD, warp=False):
    """The mean distortion in dB of cepstra (S, D) and (R, D), step by step, or along the best
    warping path with `warp`.

    >>> float(mel_cepstral_distortion([[0.0, 0.0]], [[math.log(10), 0.0]]).round(3))
    14.142

    Raises ValueError for no steps, for values that are not finite, and without `warp` for
    different numbers of steps.
    """
    said, true = _checked(said_SD), _checked(true_RD)
    if said.shape[1] != true.shape[1] or (len(said) != len(true) and not warp):
        raise ValueError(
            f"cepstra of shapes {said.shape} and {true.shape}: equal ones are allowed; "
            "warp=True allows other lengths"
        )
    if not warp:
        return DB * np.sqrt(2 * ((said - true) ** 2).sum(1)).mean()
    cost = distances(said, true)
    path = warping_path(cost)
    return DB * math.sqrt(2) * cost[path[:, 0], path[:, 1]].mean()


def mel_cepstral_distortion_reference(said_SD, true_RD):
    """The same in step, as plain loops."""
    total = 0.0
    for said, true in zip(said_SD, true_RD, strict=True):
        total += DB * math.sqrt(2 * sum((a - b) ** 2 for a, b in zip(said, true, strict=True)))
    return total / len(said_SD)


def warping_path(cost_SR):
    """The cheapest path through a matrix of costs, (steps, 2) from (0, 0) to (S-1, R-1); each
    step moves on in one or both.

    Time and memory are S R (Sakoe and Chiba 1978, symmetric, weight 1 each).
    """
    total = _least_sums(np.asarray(cost_SR, np.float64)[None])[0]
    path, (i, j) = [], np.subtract(total.shape, 1)
    while i > 0:
        path.append((i - 1, j - 1))
        i, j = min(((i - 1, j - 1), (i - 1, j), (i, j - 1)), key=lambda at: total[at])
    return np.array(path[::-1])


def warped_distances(said_SD, others):
    """The mean distance of cepstra (S, D) to each of `others`, [(R, D)], along its best path:
    (K,).

    A diagonal step counts twice, so all paths to one weigh S + R (Sakoe and Chiba 1978).
    """
    cost = np.zeros((len(others), len(said_SD), max(map(len, others))))
    for k, other in enumerate(others):
        cost[k, :, : len(other)] = distances(said_SD, other)
    total = _least_sums(cost, diagonal=2)[:, -1]
    ends = [(sums[len(one)], len(one)) for sums, one in zip(total, others, strict=True)]
    return np.array([end / (len(said_SD) + long) for end, long in ends])


def distances(said_SD, true_RD):
    """The distance of each step of one to each step of the other, (S, R)."""
    squares = (said_SD**2).sum(1)[:, None] + (true_RD**2).sum(1) - 2 * said_SD @ true_RD.T
    return np.sqrt(np.maximum(squares, 0))


def _least_sums(cost_KSR, diagonal=1):
    """The cost of the cheapest path to each place, (K, S + 1, R + 1), taken diagonal by
    diagonal; the first row and column are no place. A diagonal step has the weight `diagonal`.
    """
    _, rows, columns = cost_KSR.shape
    total = np.full((len(cost_KSR), rows + 1, columns + 1), np.inf)
    total[:, 0, 0] = 0
    for at in range(rows + columns - 1):
        i = np.arange(max(0, at - columns + 1), min(rows, at + 1))
        j, here = at - i, cost_KSR[:, i, at - i]
        straight = np.minimum(total[:, i, j + 1], total[:, i + 1, j])
        across = total[:, i, j] + (diagonal - 1) * here
        total[:, i + 1, j + 1] = here + np.minimum(straight, across)
    return total


def _checked(values):
    values = np.asarray(values, np.float64)
    if values.ndim != 2 or not len(values) or not np.isfinite(values).all():
        raise ValueError(
            f"cepstra of shape {values.shape}: finite ones of two axes, one step at least, "
            "are allowed"
        )
    return values
