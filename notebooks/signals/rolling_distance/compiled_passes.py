"""The element-wise passes over blocks on a CPU, each compiled (numba) to one walk over a block
that stays in cache.

torch walks over a whole group of blocks, 2 MB for each array, once for each operation: eleven
times for the statistics, six for the distances. Here a block of 32 KB is fetched once and all
is done with it, five walks and one, in the nearest cache. What is computed is the same, and
`overlap_save` and `rolling_distance` do it with torch on GPUs and where numba is missing.

Legend: B blocks, L block length, M window length, J = L - M + 1 windows per block.
"""

import math

import numba
import numpy as np

# sums may be taken in another order, divisions become products; NaN and infinity keep their
# meaning
_fused = numba.njit(
    nogil=True, cache=True, error_model="numpy", fastmath={"reassoc", "nsz", "arcp", "contract"}
)


@_fused
def centre_and_sum(window, rows_BL, values_BL, centre_B1, sum_BJ, energy_BJ, total_B1):
    """None; fills in the points of each block less their mean, the mean, every window's sum and
    squared deviation, and the sum of all squares.

    Sums are float64; a window's follow from its left neighbour's: add the point that enters,
    take off the one that leaves.
    """
    length, share = values_BL.shape[1], 1.0 / window
    for b in range(len(values_BL)):
        values, sums, energy, total = values_BL[b], sum_BJ[b], energy_BJ[b], 0.0
        values[:] = rows_BL[b]
        for i in range(length):
            total += values[i]
        centre_B1[b, 0] = total / length
        centre, total = centre_B1[b, 0], 0.0  # the mean as rounded to the values' dtype
        for i in range(length):
            values[i] -= centre
        for i in range(length):
            total += np.float64(values[i]) ** 2
        total_B1[b, 0], one, two = total, 0.0, 0.0
        for i in range(window):
            one += values[i]
            two += np.float64(values[i]) ** 2
        sums[0], energy[0] = one, max(two - one * one * share, 0.0)
        entering = values[window:]
        for j in range(len(sums) - 1):
            old, new = np.float64(values[j]), np.float64(entering[j])
            one += new - old
            two += new * new - old * old
            sums[j + 1], energy[j + 1] = one, max(two - one * one * share, 0.0)


@_fused
def correlate(query_M, values_BL, dots_BJ):
    """None; fills in the dot products of every window with the query, four points in each
    walk."""
    whole = len(query_M) - len(query_M) % 4
    for b in range(len(values_BL)):
        values, dots = values_BL[b], dots_BJ[b]
        dots[:] = 0
        for i in range(0, whole, 4):
            q0, q1, q2, q3 = query_M[i], query_M[i + 1], query_M[i + 2], query_M[i + 3]
            v = values[i:]
            for j in range(len(dots)):
                dots[j] += q0 * v[j] + q1 * v[j + 1] + q2 * v[j + 2] + q3 * v[j + 3]
        for i in range(whole, len(query_M)):
            for j in range(len(dots)):
                dots[j] += query_M[i] * values[i + j]


@_fused
def zdist(window, dots_BL, energy_BJ, out_BJ):
    """None; fills in 2 M (1 - dot / sqrt(energy)), for a query of length 1."""
    scale = out_BJ.dtype.type(2 * window)
    for b in range(len(out_BJ)):
        dots, energy, out = dots_BL[b], energy_BJ[b], out_BJ[b]
        for j in range(len(out)):
            out[j] = scale - scale * dots[j] / math.sqrt(out_BJ.dtype.type(energy[j]))


@_fused
def unscaled(window, mean, norm, is_raw, dots_BL, block_sums, out_BJ):
    """None; fills in norm^2 + energy - 2 norm dot, the `mdist` to a query of this norm; where
    `is_raw` also M times the squared difference of the means: the `sdist`.

    block_sums: (energy_BJ, sum_BJ, centre_B1) as `centre_and_sum` fills them in.
    """
    energy_BJ, sum_BJ, centre_B1 = block_sums
    weight = float(window) if is_raw else 0.0
    for b in range(len(out_BJ)):
        dots, energy, sums, out = dots_BL[b], energy_BJ[b], sum_BJ[b], out_BJ[b]
        apart = np.float64(centre_B1[b, 0]) - mean
        for j in range(len(out)):
            offset = sums[j] / window + apart
            distance = norm * norm + energy[j] - 2 * norm * np.float64(dots[j])
            out[j] = distance + weight * offset * offset
