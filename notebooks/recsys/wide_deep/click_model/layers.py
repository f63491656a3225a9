"""Parts that Wide & Deep is built of: lookups, and Keras's starts of weights.

A lookup is the plain operation, chosen for where it runs: its dense gradient is what a CPU
spends its time on beside matrix products.

Shapes: `N` rows of a table, `D` its width; an index may have any axes.
"""

import torch
from torch import nn
from torch.nn import functional


def look_up(weight, at, sparse=False):
    """Rows (*at.shape, D) of weight (N, D).

    On a CPU the dense gradient of `index_select` costs a fraction of `embedding`'s; on a GPU
    its atomic additions would queue up at the few rows of small features.
    """
    if sparse or weight.is_cuda:
        return functional.embedding(at, weight, sparse=sparse)
    return weight.index_select(0, at.flatten()).reshape(*at.shape, weight.shape[1])


def look_up_sum(weight, at, sparse=False, fused=None):
    """Sums (*at.shape[:-1], D) of rows of weight (N, D) over at's last axis, row 0 left out.

    fused: in one kernel, which holds no single rows; None does so on a GPU.
    """
    if weight.is_cuda if fused is None else fused:
        flat = at.reshape(-1, at.shape[-1])
        rows = functional.embedding_bag(flat, weight, mode="sum", padding_idx=0, sparse=sparse)
        return rows.reshape(*at.shape[:-1], weight.shape[1])
    return (look_up(weight, at, sparse) * (at != 0)[..., None]).sum(-2)


def glorot_normal(rows, columns):
    """(rows, columns) normal, cut at two deviations, of variance 2 / (rows + columns)."""
    deviation = (2 / (rows + columns)) ** 0.5 / 0.87962566103423978  # the cut takes this
    return nn.init.trunc_normal_(
        torch.empty(rows, columns), 0, deviation, -2 * deviation, 2 * deviation
    )


def linear(width, size):
    """An affine layer with Keras's start: Glorot uniform weights, bias 0."""
    layer = nn.Linear(width, size)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
