"""Attention that walks along its source: mixtures of bells whose means only move forward.

Each of K bells has, at each decoder step, a weight, a scale and a stride, all from the
decoder's state h. Its mass over letter or frame j, with S(x) = 1 / (1 + exp(-x)):

    w = softmax(.), s = softplus(.) + 0.3, mu += softplus(.)
    a_j = sum_k w_k [ S((j + 1/2 - mu_k) / s_k) - S((j - 1/2 - mu_k) / s_k) ]

After Graves (2013) and Battenberg et al. (2020), with a logistic bell in place of their
Gaussians. The weights are not normalised: past the source's end they fade, and the stop token
can see that.

Shapes: `B` clips, `J` places of the source, `D` its width, `K` bells, `H` the state's width.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

__all__ = ["LogisticWalk", "walk_reference"]

LEAST_WIDTH = 0.3


class LogisticWalk(nn.Module):
    """`walk(state, source, mask, means)` returns the context (B, D), the weights (B, J) and the
    new means (B, K).

    `stride` is the step that an untrained one takes: letters or frames of the source for each
    decoder step.
    """

    def __init__(self, state, components=3, stride=1.0):
        super().__init__()
        self.components = components
        self.ask = nn.Linear(state, 3 * components)
        nn.init.normal_(self.ask.weight, std=0.01)
        with torch.no_grad():
            self.ask.bias[components : 2 * components] = math.log(math.expm1(1.0))
            self.ask.bias[2 * components :] = math.log(math.expm1(stride))

    def start(self, batch, device):
        """The means before the first step: one place before the source, (B, K)."""
        return torch.full((batch, self.components), -1.0, device=device)

    def forward(self, state_BH, source_BJD, mask_BJ, means_BK):
        weight, width, stride = self.ask(state_BH).chunk(3, -1)
        means_BK = means_BK + F.softplus(stride)
        wide = (F.softplus(width) + LEAST_WIDTH)[..., None]
        edges = torch.arange(source_BJD.shape[1] + 1, device=state_BH.device) - 0.5
        below = torch.sigmoid((edges - means_BK[..., None]) / wide)
        mass_BKJ = below[..., 1:] - below[..., :-1]
        weights_BJ = (weight.softmax(-1)[:, None] @ mass_BKJ)[:, 0] * mask_BJ
        return (weights_BJ[:, None] @ source_BJD)[:, 0], weights_BJ, means_BK


def walk_reference(weight, width, stride, means, source):
    """The weights, context and means of one clip and one step by plain loops, float64; raw
    numbers of length K, source (J, D).
    """
    total = sum(math.exp(w) for w in weight)
    means = [mean + math.log1p(math.exp(raw)) for mean, raw in zip(means, stride, strict=True)]
    weights = [0.0] * len(source)
    for raw_weight, raw_width, mean in zip(weight, width, means, strict=True):
        wide = math.log1p(math.exp(raw_width)) + LEAST_WIDTH
        for j in range(len(source)):
            upper, lower = ((j + side - mean) / wide for side in (0.5, -0.5))
            mass = 1 / (1 + math.exp(-upper)) - 1 / (1 + math.exp(-lower))
            weights[j] += math.exp(raw_weight) / total * mass
    context = [
        sum(w * row[d] for w, row in zip(weights, source, strict=True))
        for d in range(len(source[0]))
    ]
    return weights, context, means
