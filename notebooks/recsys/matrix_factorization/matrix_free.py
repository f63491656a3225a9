"""One pass of ALS by conjugate gradients on matrices that are never formed.

A row's matrix is `alpha * G + lambda_u * I` plus the outer products of its items' vectors. To
apply it costs one product with the Gramian for all rows together, and for each link one dot
product and one sum of vectors: `D` numbers and not `D * D` a link. Both are products with the
sparse matrix of links: a *sampled* dense product, then a sparse one. This is the approach of
Takács, Pilászy and Tikk (2011), which the package `implicit` took up.

On a CPU rows are taken in blocks: all steps of a block are done while its vectors lie in the
core's cache.

Shapes: `U` rows, `N` items, `D` factors, `B` rows in a block.
"""

import warnings
from typing import NamedTuple

import torch
from linear_solvers import conjugate_gradients

BLOCK = 2**16  # numbers in a block's vectors: of four such tensors in float32 a megabyte


class SparseLinks(NamedTuple):
    """The links of all rows as blocks [(first row, end, CSR matrix of ones (B, N))], and how
    many each row has (U,).
    """

    blocks: list
    links_U: torch.Tensor
    some_empty: bool


def sparse_links(rows, cols, shape, factors):
    """The SparseLinks of links in any order, on their device, in blocks for so many factors;
    one block on a GPU.

    Indices are int32, since half the bytes are read in each product.
    """
    order = torch.argsort(rows * shape[1] + cols)
    cols, links_U = cols[order].int(), torch.bincount(rows, minlength=shape[0])
    offsets = torch.zeros(shape[0] + 1, dtype=torch.int32, device=rows.device)
    offsets[1:] = torch.cumsum(links_U, 0)
    block = shape[0] if rows.is_cuda else max(1, BLOCK // factors)
    starts = range(0, shape[0], block)
    bounds = [(start, min(start + block, shape[0])) for start in starts]
    cuts = offsets[[*starts, shape[0]]].tolist()
    blocks = []
    with warnings.catch_warnings():  # torch calls its CSR tensors a beta
        warnings.simplefilter("ignore", UserWarning)
        for (start, end), low, high in zip(bounds, cuts[:-1], cuts[1:], strict=True):
            ones = torch.ones(high - low, device=rows.device)
            parts = offsets[start : end + 1] - low, cols[low:high], ones
            blocks.append(
                (start, end, torch.sparse_csr_tensor(*parts, (end - start, shape[1])))
            )
    return SparseLinks(blocks, links_U, bool((links_U == 0).any()))


def solve_rows(links, items_ND, start_UD, gram_DD, penalties_U, steps=3):
    """The vectors (U, D) of all rows after `steps` steps from `start_UD`; `gram_DD` is `alpha`
    times the Gramian.

    Cost of each product: `2 * U * D * D` FLOPs for the Gramian and `4 * D` for each link. Rows
    without links become zero.
    """
    across_DN, least = items_ND.T, penalties_U.min()
    dense_DD = gram_DD + least * torch.eye(
        len(gram_DD), dtype=gram_DD.dtype, device=gram_DD.device
    )
    rest_U1 = (penalties_U - least)[:, None].to(items_ND.dtype)
    found_UD = torch.empty_like(start_UD)
    for start, end, ones_BN in links.blocks:
        rest_B1 = rest_U1[start:end]

        def apply(p_BD, ones_BN=ones_BN, rest_B1=rest_B1):
            q_BD = (p_BD @ dense_DD).addcmul_(rest_B1, p_BD)
            scores_BN = torch.sparse.sampled_addmm(ones_BN, p_BD, across_DN, beta=0.0)
            return torch.addmm(q_BD, scores_BN, items_ND, out=q_BD)

        found_UD[start:end] = conjugate_gradients(
            apply, ones_BN @ items_ND, start_UD[start:end], steps
        )
    return (
        torch.where(links.links_U[:, None] > 0, found_UD, 0) if links.some_empty else found_UD
    )


def flops(rows, links, factors, steps=3):
    """The FLOPs of a pass over `rows` rows, the Gramian once among them."""
    gramian = 2 * rows * factors**2
    return (steps + 1) * (gramian + 4 * links * factors) + gramian


def normal_equation_flops(rows, places, factors):
    """The FLOPs of a pass by Cholesky: outer products, factorisations, solves, the Gramian."""
    return 2 * places * factors**2 + rows * (factors**3 / 3 + 4 * factors**2)
