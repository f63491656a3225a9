"""One Newton step's linear system: block tridiagonal, one block a ring.

Rings touch only their neighbours, and a row of one ring only the same row of the next. So the
matrix has dense blocks D of 2Z × 2Z on its diagonal and, beside them, blocks L and U with a
2 × 2 matrix for each row and nothing else. It goes to LAPACK as a band, one case at a time.

Legend: B cases, R rings, Z rows, the 2s are equation (brine, CO₂) or unknown (pressure, S).
"""

import functools
from typing import NamedTuple

import numpy as np
import torch
from scipy.linalg.lapack import dgbsv


class BlockTridiagonal(NamedTuple):
    """The matrix: `diagonal` (B, R, 2, Z, 2, Z); `lower` and `upper` (B, R, Z, 2, 2), where
    lower[:, i] couples ring i to ring i − 1 and upper[:, i] couples it to ring i + 1;
    lower[:, 0] and upper[:, -1] are not used."""

    diagonal: torch.Tensor
    lower: torch.Tensor
    upper: torch.Tensor

    def take(self, cases):
        """The matrix of some of the cases, by index."""
        return BlockTridiagonal(*(part.index_select(0, cases) for part in self))


def solve_banded(matrix, right):
    """x with matrix · x = right, both (B, 2, Z, R), by LAPACK's banded LU decomposition with
    pivots; NaN where the matrix is singular. Costs about 32 Z³ R operations a case: ordered by
    ring, row and quantity, no two unknowns that meet are more than 2Z + 1 apart."""
    batch, _, rows, rings = right.shape
    width, side = 2 * rows + 1, 2 * rows
    places = _band_places(rows, rings)
    solved = []
    for b in range(batch):
        band = np.zeros((3 * width + 1) * side * rings)
        parts = (matrix.diagonal[b], matrix.lower[b, 1:], matrix.upper[b, :-1])
        for place, part in zip(places, parts, strict=True):
            band[place] = part.numpy().ravel()
        band = band.reshape(-1, 3 * width + 1).T  # columns lie together, as LAPACK has them
        x = right[b].permute(2, 1, 0).reshape(-1).numpy()
        _, _, x, broken = dgbsv(width, width, band, x, overwrite_ab=True)
        solved.append(torch.from_numpy(x if broken == 0 else np.full_like(x, np.nan)))
    return torch.stack(solved).view(batch, rings, rows, 2).permute(0, 3, 2, 1)


@functools.lru_cache(maxsize=32)
def _band_places(rows, rings):
    """Where each number of `diagonal`, `lower[1:]` and `upper[:-1]` lies in a band that is
    stored column by column."""
    width, side = 2 * rows + 1, 2 * rows
    unknown = np.arange(side * rings).reshape(rings, rows, 2)

    def place(i, j):
        return (j * (3 * width + 1) + 2 * width + i - j).ravel()

    inside = unknown.transpose(0, 2, 1)  # (R, quantity, Z), as the diagonal has it
    own = place(inside[:, :, :, None, None], inside[:, None, None])
    row, column = unknown[..., :, None], unknown[..., None, :]  # (R, Z, 2, 2)
    return own, place(row[1:], column[:-1]), place(row[:-1], column[1:])
