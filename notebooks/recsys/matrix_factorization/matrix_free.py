"""One pass of ALS by conjugate gradients on matrices that are never formed.

A row's matrix is `alpha * G + lambda_u * I` plus the outer products of its items' vectors. To apply it costs one product
with the Gramian for all rows together, and for each link one dot product and one sum of vectors: `D` numbers and not `D * D`
a link. Both are products with the sparse matrix of links: a *sampled* dense product, then a sparse one. This is the
approach of Takács, Pilászy and Tikk (2011), which the package `implicit` took up.

Shapes: `U` rows, `N` items, `D` factors.
"""

import warnings
from typing import NamedTuple

import torch
from linear_solvers import conjugate_gradients


class SparseLinks(NamedTuple):
    """The links of all rows as a CSR matrix of ones (U, N), and how many each row has (U,)."""

    ones_UN: torch.Tensor
    links_U: torch.Tensor


def sparse_links(rows, cols, shape, dtype=torch.float32):
    """The SparseLinks of links in any order, on their device; int32 indices, which the CPU's library reads faster."""
    order = torch.argsort(rows * shape[1] + cols)
    links_U = torch.bincount(rows, minlength=shape[0])
    offsets = torch.zeros(shape[0] + 1, dtype=torch.int32, device=rows.device)
    offsets[1:] = torch.cumsum(links_U, 0)
    ones = torch.ones(len(rows), dtype=dtype, device=rows.device)
    with warnings.catch_warnings():  # torch calls its CSR tensors a beta
        warnings.simplefilter("ignore", UserWarning)
        matrix = torch.sparse_csr_tensor(offsets, cols[order].int(), ones, shape)
    return SparseLinks(matrix, links_U)


def solve_rows(links, items_ND, start_UD, gram_DD, penalties_U, steps=3):
    """The vectors (U, D) of all rows after `steps` steps from `start_UD`; `gram_DD` is `alpha` times the Gramian.

    Cost of each product: `2 * U * D * D` FLOPs for the Gramian and `4 * D` for each link. Rows without links become zero.
    """
    across_DN, least = items_ND.T, penalties_U.min()
    dense_DD = gram_DD + least * torch.eye(len(gram_DD), dtype=gram_DD.dtype, device=gram_DD.device)
    rest_U1 = (penalties_U - least)[:, None].to(items_ND.dtype)

    def apply(p_UD):
        q_UD = torch.addcmul(p_UD @ dense_DD, rest_U1, p_UD)
        scores_UN = torch.sparse.sampled_addmm(links.ones_UN, p_UD, across_DN, beta=0.0)
        return q_UD.add_(scores_UN @ items_ND)

    right_UD = links.ones_UN @ items_ND
    start_UD = torch.where(links.links_U[:, None] > 0, start_UD, 0)
    return conjugate_gradients(apply, right_UD, start_UD, steps)


def flops(rows, links, factors, steps=3):
    """The FLOPs of a pass over `rows` rows: products with the Gramian and with the links, and the Gramian once."""
    products = steps + 1
    return products * (2 * rows * factors**2 + 4 * links * factors) + 2 * rows * factors**2


def normal_equation_flops(rows, links, factors):
    """The FLOPs of a pass by Cholesky: outer products of each link, one factorisation and two solves a row."""
    return 2 * links * factors**2 + rows * (factors**3 / 3 + 2 * factors**2) + 2 * rows * factors**2
