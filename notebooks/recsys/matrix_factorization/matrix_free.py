"""One pass of ALS by conjugate gradients on matrices that are never formed.

A row's matrix is `alpha * G + lambda_u * I` plus the outer products of its items' vectors. To
apply it costs one product with the Gramian for all rows together, and for each link one dot
product and one sum of vectors: a *sampled* dense product with the sparse links, then a sparse
one. This is the approach of Takács, Pilászy and Tikk (2011), which `implicit` took up. On a CPU
rows come in blocks of equal work, each for one thread, whose cache holds a block's vectors.

Shapes: `U` rows, `N` items, `D` factors, `B` rows in a block.
"""

import itertools
import warnings
from collections import namedtuple

import torch
from linear_solvers import conjugate_gradients, on_cores

BLOCK = 2**16  # numbers in a block's vectors: of four such tensors in float32 a megabyte


# Blocks [(first row, end, CSR matrix of ones (B, N))], and how many links each row has (U,).
SparseLinks = namedtuple("SparseLinks", "blocks links_U")


def sparse_links(rows, cols, shape, factors):
    """The SparseLinks of links in any order, on their device, in blocks for so many factors;
    one block on a GPU. Indices are int32: half the bytes to read in each product.
    """
    order = torch.argsort(rows * shape[1] + cols)
    cols, links_U = cols[order].int(), torch.bincount(rows, minlength=shape[0])
    offsets = torch.zeros(shape[0] + 1, dtype=torch.int32, device=rows.device)
    offsets[1:] = torch.cumsum(links_U, 0)
    bounds = _bounds(links_U, factors)
    cuts = offsets[bounds].tolist()
    spans = zip(itertools.pairwise(bounds), itertools.pairwise(cuts), strict=True)
    blocks = []
    with warnings.catch_warnings():  # torch calls its CSR tensors a beta
        warnings.simplefilter("ignore", UserWarning)
        for (start, end), (low, high) in spans:
            ones = torch.ones(high - low, device=rows.device)
            parts = offsets[start : end + 1] - low, cols[low:high], ones
            csr = torch.sparse_csr_tensor(*parts, (end - start, shape[1]))
            blocks.append((start, end, csr))
    return SparseLinks(blocks, links_U)


def _bounds(links_U, factors):
    """Where blocks begin, and the last one ends: as many for each thread, of equal work."""
    count, threads = len(links_U), torch.get_num_threads()
    blocks = 1 if links_U.is_cuda else -(-count * factors // BLOCK)
    blocks = min(count, -(-blocks // threads) * threads if blocks > 1 else 1)
    work = (links_U + factors / 2).double().cumsum(0)  # a link costs 4 D, a row 2 D * D
    shares = work[-1] * torch.arange(1, blocks, device=work.device) / blocks
    inner = torch.searchsorted(work, shares).tolist()
    return [0, *sorted({*inner} - {0, count}), count]


def solve_rows(links, items_ND, start_UD, gram_DD, penalties_U, steps=3):
    """The vectors (U, D) of all rows after `steps` steps from `start_UD`; `gram_DD` is `alpha`
    times the Gramian. Rows without links become zero. A product costs `2 * U * D * D` FLOPs for
    the Gramian and `4 * D` for each link.
    """
    across_DN, least = items_ND.T, penalties_U.min()
    dense_DD = gram_DD + least * torch.eye(len(gram_DD), device=gram_DD.device)
    rest_U1 = (penalties_U - least)[:, None].to(items_ND.dtype)
    linked_U1, found_UD = (links.links_U > 0)[:, None], torch.empty_like(start_UD)

    def solve_block(block):
        start, end, ones_BN = block
        rest_B1 = rest_U1[start:end]

        def apply(p_BD):
            q_BD = (p_BD @ dense_DD).addcmul_(rest_B1, p_BD)
            scores_BN = torch.sparse.sampled_addmm(ones_BN, p_BD, across_DN, beta=0.0)
            return torch.addmm(q_BD, scores_BN, items_ND, out=q_BD)

        about = ones_BN @ items_ND, start_UD[start:end], steps
        found_UD[start:end] = conjugate_gradients(apply, *about) * linked_U1[start:end]

    on_cores(solve_block, links.blocks, items_ND.device)
    return found_UD


def flops(rows, links, factors, steps=3):
    """The FLOPs of a pass over `rows` rows, the Gramian once among them."""
    gramian = 2 * rows * factors**2
    return (steps + 1) * (gramian + 4 * links * factors) + gramian


def normal_equation_flops(rows, places, factors):
    """The FLOPs of a pass by Cholesky: outer products, factorisations, solves, the Gramian."""
    return 2 * places * factors**2 + rows * (factors**3 / 3 + 4 * factors**2)
