"""One Newton step's linear system: block tridiagonal, one block a ring, solved for a batch
of cases at once.

Rings touch only their neighbours, and a row of one ring only the same row of the next. So
the matrix has dense blocks D of 2Z × 2Z on its diagonal and, beside them, blocks L and U
with a 2 × 2 matrix for each row and nothing else. Block elimination needs one inverse a
ring: D'_{i+1} = D_{i+1} − L_{i+1} D'_i⁻¹ U_i, and the product with L and U costs next to
nothing. On a CPU the same system goes to LAPACK as a band, one case at a time.

Legend: B cases, R rings, Z rows, the 2s are equation or unknown (brine and CO₂; pressure
and saturation).
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


def solve_blocks(matrix, right):
    """x with matrix · x = right, both (B, 2, Z, R), by block elimination on their device.

    Costs R inverses of 2Z × 2Z for each case, about 16 Z³ R operations.
    """
    batch, _, rows, rings = right.shape
    side = 2 * rows
    lower, upper = matrix.lower, matrix.upper
    rest = right.permute(3, 0, 1, 2).reshape(rings, batch, side, 1)
    inverses, reduced = [], []
    for i in range(rings):
        block, vector = matrix.diagonal[:, i].reshape(batch, side, side), rest[i]
        if i:
            inverse = inverses[-1]
            block = block - _between(lower[:, i], inverse, upper[:, i - 1])
            vector = vector - _times(lower[:, i], inverse @ reduced[-1])
        inverses.append(torch.linalg.inv_ex(block).inverse)
        reduced.append(vector)
    found = [inverses[-1] @ reduced[-1]]
    for i in range(rings - 2, -1, -1):
        found.append(inverses[i] @ (reduced[i] - _times(upper[:, i], found[-1])))
    return torch.stack(found[::-1]).view(rings, batch, 2, rows).permute(1, 2, 3, 0)


def _between(left_BZ22, middle, right_BZ22):
    """left · middle · right as (B, 2Z, 2Z); left and right have one 2 × 2 matrix a row.

    Four passes over contiguous memory: a matrix product would spend its time on zeros."""
    batch, rows = left_BZ22.shape[:2]
    middle = middle.contiguous().view(batch, 2, rows, 2, rows)
    left = left_BZ22.permute(0, 2, 3, 1).contiguous()[..., None, None]  # (B, 2, 2, Z, 1, 1)
    right = right_BZ22.permute(0, 2, 3, 1).contiguous()[:, None, None]  # (B, 1, 1, 2, 2, Z)
    product = (left[:, :, 0] * middle[:, None, 0]).addcmul_(left[:, :, 1], middle[:, None, 1])
    product = (product[..., :1, :] * right[..., 0, :, :]).addcmul_(
        product[..., 1:, :], right[..., 1, :, :]
    )
    return product.view(batch, 2 * rows, 2 * rows)


def _times(left_BZ22, vector):
    """left · vector as (B, 2Z, 1)."""
    batch, rows = left_BZ22.shape[:2]
    vector = vector.view(batch, 1, 2, rows)
    return (left_BZ22.permute(0, 2, 3, 1) * vector).sum(2).view(batch, 2 * rows, 1)


def solve_banded(matrix, right):
    """The same x on the CPU, case by case, by LAPACK's banded LU decomposition with pivots.

    With unknowns ordered by ring, row and quantity no two that meet are more than 2Z + 1
    apart. Costs about 32 Z³ R operations a case, in blocks that fill the processor's caches.
    """
    batch, _, rows, rings = right.shape
    width, side = 2 * rows + 1, 2 * rows
    places = _band_places(rows, rings)
    solved = []
    for b in range(batch):
        band = np.zeros((3 * width + 1) * side * rings)
        parts = (matrix.diagonal[b], matrix.lower[b, 1:], matrix.upper[b, :-1])
        for place, part in zip(places, parts, strict=True):
            band[place] = part.cpu().numpy().ravel()
        band = band.reshape(-1, 3 * width + 1).T  # columns lie together, as LAPACK has them
        x = right[b].permute(2, 1, 0).reshape(-1).cpu().numpy()
        _, _, x, broken = dgbsv(width, width, band, x, overwrite_ab=True)
        solved.append(torch.from_numpy(x if broken == 0 else np.full_like(x, np.nan)))
    return torch.stack(solved).view(batch, rings, rows, 2).permute(0, 3, 2, 1).to(right.device)


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
