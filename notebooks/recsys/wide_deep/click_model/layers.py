"""Parts that Wide & Deep is built of: lookups, dropout, and Keras's starts of weights.

Each is the plain operation, chosen for where it runs: a lookup's dense gradient and the draws
of dropout are what a CPU spends its time on beside matrix products.

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


class Dropout(nn.Module):
    """x, with entries zeroed by chance p in training, the others over 1 - p.

    torch draws a CPU's entries one by one. Here four come from one draw of 64 bits, so p counts
    in steps of 1 / 65,536, all of them at most but one; on a GPU, and compiled, it is torch's.
    """

    def __init__(self, p):
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"dropout {p}; allowed are 0 to below 1")
        self.p = p

    def forward(self, x):
        if not self.training or not self.p:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling():
            return functional.dropout(x, self.p)
        draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        chance = draws.view(torch.int16)[: x.numel()].reshape(x.shape)
        steps = min(round(65_536 * self.p), 65_535)  # 65,536 would wrap and keep everything
        kept = chance >= steps - 32_768
        return x * kept.to(x.dtype).mul_(65_536 / (65_536 - steps))


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
