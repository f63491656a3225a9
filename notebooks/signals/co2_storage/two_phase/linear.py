"""One Newton step's linear system: block tridiagonal, one block a ring, solved for a batch
of cases at once.

Rings touch only their neighbours, and a row of one ring only the same row of the next. So
the matrix has dense blocks D of 2Z × 2Z on its diagonal and, beside them, blocks L and U
with a 2 × 2 matrix for each row and nothing else. Block elimination needs one inverse a
ring: D'_{i+1} = D_{i+1} − L_{i+1} D'_i⁻¹ U_i, and the product with L and U costs next to
nothing. The sparse path hands the same system to SuperLU through SciPy, one case at a time.

Legend: B cases, R rings, Z rows, the 2s are equation or unknown (brine and CO₂; pressure
and saturation).
"""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import torch


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


def solve_sparse(matrix, right):
    """The same x by SciPy's SuperLU on the CPU, as many cases at once as torch has threads."""
    batch, _, rows, rings = right.shape

    def solved_case(b):
        return solve_scipy(to_scipy(matrix, b), _flat(right[b]))

    if batch == 1 or torch.get_num_threads() == 1:
        solved = [solved_case(b) for b in range(batch)]
    else:
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            solved = list(pool.map(solved_case, range(batch)))
    x = torch.from_numpy(np.stack(solved)).view(batch, rings, 2, rows)
    return x.permute(0, 2, 3, 1).to(right.device)


def solve_scipy(matrix, right):
    """x of one case. The pattern is symmetric, and so is the ordering, unless pivots spoil it:
    with SuperLU's usual pivoting the factors fill in four times as much."""
    options = {"SymmetricMode": True}
    factors = scipy.sparse.linalg.splu(
        matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.01, options=options
    )
    return factors.solve(right)


def to_scipy(matrix, case=0):
    """One case as a SciPy CSC matrix; unknowns ordered by ring, quantity, row."""
    diagonal, lower, upper = (part[case].detach().cpu().numpy() for part in matrix)
    rings, _, rows = diagonal.shape[:3]
    side = 2 * rows
    blocks = diagonal.reshape(rings, side, side)
    block, i, j = np.nonzero(blocks)
    parts = [(block * side + i, block * side + j, blocks[block, i, j])]
    # (ring, row, equation, unknown): beside the diagonal a row meets only its own kind
    for coupling, shift in ((lower[1:], -1), (upper[:-1], 1)):
        ring, row, a, c = np.nonzero(coupling)
        place = (ring + (shift < 0)) * side + row
        values = coupling[ring, row, a, c]
        parts.append((place + a * rows, place + shift * side + c * rows, values))
    i, j, values = (np.concatenate(x) for x in zip(*parts, strict=True))
    return scipy.sparse.csc_array((values, (i, j)), shape=(side * rings, side * rings))


def _flat(right_2ZR):
    return right_2ZR.permute(2, 0, 1).reshape(-1).cpu().numpy()
