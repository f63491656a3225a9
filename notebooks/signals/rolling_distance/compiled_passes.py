"""The element-wise passes over blocks on a CPU, each compiled (numba) to one walk over a block
that stays in cache.

torch walks over a whole group of blocks, 1 MB for each array, once for each operation. Here all
is done with a block of 32 KB while it is near. What is computed is the same, and `overlap_save`
and `rolling_distance` do it with torch on GPUs and where numba is missing.

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
def centre_and_sum(window, step, part_N, values_BL, sum_BJ, energy_BJ, block_B3):
    """None; for blocks that begin every `step` points fills in their points less their mean,
    every window's sum and squared deviation; and of a block its mean, the sum of all squares,
    the least deviation. Sums are float64; a window's follow from its left neighbour's.
    """
    length, share = values_BL.shape[1], 1.0 / window
    for b in range(len(values_BL)):
        rows = part_N[b * step : b * step + length]  # in a row, so that loops become vectors
        values, sums, energy = values_BL[b], sum_BJ[b], energy_BJ[b]
        total, squares, one, two, least = 0.0, 0.0, 0.0, 0.0, np.inf
        for i in range(length):
            total += rows[i]
        centre = values_BL.dtype.type(total / length)
        for i in range(length):
            values[i] = rows[i] - centre
            squares += np.float64(values[i]) ** 2
        for i in range(window):
            one += values[i]
            two += np.float64(values[i]) ** 2
        entering = values[window:]
        for j in range(len(sums)):
            deviation = two - one * one * share
            sums[j], energy[j] = one, max(deviation, 0.0)
            least = min(least, deviation)
            if j < len(entering):  # add the point that enters, take off the one that leaves
                old, new = np.float64(values[j]), np.float64(entering[j])
                one += new - old
                two += (new - old) * (new + old)  # one operation waits for the last, not two
        block_B3[b, 0], block_B3[b, 1], block_B3[b, 2] = centre, squares, max(least, 0.0)


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
def zdist(window, limit_B1, dots_BL, energy_BJ, out_BJ):
    """Whether some distance is below its block's limit, or NaN; fills in 2 M (1 - dot /
    sqrt(energy)), for a query of length 1."""
    scale, below = out_BJ.dtype.type(2 * window), 0
    for b in range(len(out_BJ)):
        dots, energy, out = dots_BL[b], energy_BJ[b], out_BJ[b]
        for j in range(len(out)):
            out[j] = scale - scale * dots[j] / math.sqrt(out_BJ.dtype.type(energy[j]))
        below += _below(limit_B1[b, 0], out)
    return below > 0


@_fused
def unscaled(window, norm, is_raw, means, limit_B1, dots_BL, energy_BJ, out_BJ):
    """As `zdist`; fills in norm^2 + energy - 2 norm dot, the `mdist` to a query of this norm;
    where `is_raw` also M times the squared difference of the means: the `sdist`.

    means: (the query's, sum_BJ, centre_B1).
    """
    mean, sum_BJ, centre_B1 = means
    weight, below = float(window) if is_raw else 0.0, 0
    for b in range(len(out_BJ)):
        dots, energy, sums, out = dots_BL[b], energy_BJ[b], sum_BJ[b], out_BJ[b]
        apart = np.float64(centre_B1[b, 0]) - mean
        for j in range(len(out)):
            offset = sums[j] / window + apart
            distance = norm * norm + energy[j] - 2 * norm * np.float64(dots[j])
            out[j] = distance + weight * offset * offset
        below += _below(limit_B1[b, 0], out)
    return below > 0


@_fused
def _below(limit, distances):
    """How many distances are not at least `limit`: counted, since a least one takes longer."""
    count = 0
    for j in range(len(distances)):
        count += not distances[j] >= limit
    return count
