"""Networks to average predictions over: SWAG and the rivals that the article names.

SWAG (Maddox et al. 2019) puts a Gaussian around the average of the weights. While SWA collects
w_n it also keeps their variance and the last K deviations from the mean of that moment, the
columns of D. A sample is

    w = a + sqrt(scale) (sqrt(variance) z1 + D z2 / sqrt(K - 1))         z1, z2 standard normal

with scale 1/2 (diagonal and low rank carry half of the variance each), or
a + sqrt(scale variance) z1 with scale 1. The variance is kept by Welford's update, since
E[w^2] - a^2 cancels in float32; K counts the deviations kept, also where fewer than `rank` came
(the authors' code divides by the full rank). Every sampled network gets batch-norm statistics
of its own, and probabilities are averaged, neither weights nor logits.

The last layer's Laplace approximation (Daxberger et al. 2021; the article's covers all layers)
is a Gaussian around that layer's trained weights, whose precision is the loss curvature there,
sum_n (diag(p_n) - p_n p_n^T) x f_n f_n^T (x: Kronecker product), plus that of the prior which
weight decay means: decay times N. MC dropout (Gal and Ghahramani 2016) leaves dropout on.

Legend: D weights, N inputs, K classes, S samples, P features with a one appended.
"""

import torch
from averaging import recompute_batch_norm
from loss_plane import set_weights
from small_training import logits_of
from torch import nn


class Swag:
    """The mean (D,), variance (D,) and last `rank` deviations of the weights it is shown."""

    def __init__(self, rank=20):
        if rank < 2:
            raise ValueError(f"rank is {rank}; a covariance needs two deviations at least")
        self.rank, self.count = rank, 0
        self.mean = self.squares = None
        self.deviations = []

    def update(self, weights_D):
        """Take one vector of weights (D,) in."""
        if self.count and weights_D.shape != self.mean.shape:
            got, first = tuple(weights_D.shape), tuple(self.mean.shape)
            raise ValueError(f"weights have shape {got}; the first ones had {first}")
        if not weights_D.isfinite().all():
            raise ValueError("a weight is NaN or infinite; the Gaussian is left as it was")
        weights_D = weights_D.detach().float()
        if not self.count:
            self.mean, self.squares = torch.zeros_like(weights_D), torch.zeros_like(weights_D)
        self.count += 1
        before = weights_D - self.mean
        self.mean = self.mean + before / self.count
        after = weights_D - self.mean
        self.squares = self.squares + before * after
        self.deviations = [*self.deviations, after][-self.rank :]

    @property
    def variance(self):
        """The mean squared deviation of each weight, (D,)."""
        return self.squares / self.count

    def sample(self, *, generator=None, scale=0.5, low_rank=True):
        """One vector of weights (D,); scale multiplies the covariance, low_rank says whether
        its second part takes part, the generator is one of the CPU."""
        if self.count < 2:
            raise ValueError(f"{self.count} vectors of weights came; a spread needs two")
        deviation = self.variance.clamp_min(1e-30).sqrt()
        z = torch.randn(deviation.shape, generator=generator).to(deviation.device)
        drawn = deviation * z
        if low_rank:
            columns = torch.stack(self.deviations)
            z = torch.randn(len(columns), generator=generator).to(deviation.device)
            drawn = drawn + z @ columns / max(len(columns) - 1, 1) ** 0.5
        return self.mean + scale**0.5 * drawn

    def directions(self):
        """The two main directions (2, D) of the deviations kept, and the spread along each."""
        columns = torch.stack(self.deviations)
        _, values, directions = torch.linalg.svd(columns, full_matrices=False)
        return directions[:2], values[:2] / max(len(columns) - 1, 1) ** 0.5


@torch.no_grad()
def swag_probabilities(swag, model, statistics, data, samples=20, *, seed=0, **how):
    """The mean probabilities (N, K) of sampled networks on the `Images` data.

    statistics: `Images` from which each sample's batch norms are recomputed. how: as in
    `Swag.sample`. The model ends as the last sample.
    """
    drawn, total = torch.Generator().manual_seed(seed), 0
    for _ in range(samples):
        set_weights(model, swag.sample(generator=drawn, **how))
        recompute_batch_norm(model, statistics.batches())
        total = total + logits_of(model.eval(), data).softmax(1)
    return total / samples


@torch.no_grad()
def dropout_probabilities(model, data, samples=20):
    """The mean probabilities (N, K) with dropout on, everything else as for prediction.

    Raises ValueError for a network without dropout.
    """
    layers = [one for one in model.eval().modules() if isinstance(one, nn.Dropout) and one.p]
    if not layers:
        raise ValueError("the network has no dropout; MC dropout samples nothing then")
    for layer in layers:
        layer.train()
    total = sum(logits_of(model, data).softmax(1) for _ in range(samples))
    model.eval()
    return total / samples


@torch.no_grad()
def curvature(features_NP, probs_NK):
    """The Gauss-Newton matrix (K P, K P) of the summed loss in the last layer's weights."""
    count, classes = probs_NK.shape
    wide = features_NP.shape[1]
    matrix = features_NP.new_zeros(classes * wide, classes * wide)
    for k in range(classes):
        for j in range(k + 1):
            weight_N = probs_NK[:, k] * (float(k == j) - probs_NK[:, j])
            block = (features_NP * weight_N[:, None]).T @ features_NP
            rows, columns = slice(k * wide, (k + 1) * wide), slice(j * wide, (j + 1) * wide)
            matrix[rows, columns] = block
            matrix[columns, rows] = block.T
    return matrix


@torch.no_grad()
def laplace_probabilities(model, train, data, decay, samples=20, *, seed=0):
    """The mean probabilities (N, K) over a Gaussian of the last layer's weights.

    model: with `features` and a linear `head`, trained on the `Images` train with weight decay
    `decay`. Cost: (K P)^3 once.
    """
    model.eval()

    def features(images):
        found = torch.cat([model.features(x_BCHW) for x_BCHW in images.batches()]).double()
        return torch.cat([found, torch.ones_like(found[:, :1])], 1)

    weights_KP = torch.cat([model.head.weight, model.head.bias[:, None]], 1).double()
    known_NP = features(train)
    precision = curvature(known_NP, (known_NP @ weights_KP.T).softmax(1))
    precision.diagonal().add_(decay * train.count)
    lower = torch.linalg.cholesky(precision)
    drawn, total, seen_NP = torch.Generator().manual_seed(seed), 0, features(data)
    for _ in range(samples):
        z = torch.randn(len(precision), 1, generator=drawn, dtype=torch.float64)
        # L^-T z has the covariance (L L^T)^-1, the inverse of the precision
        step = torch.linalg.solve_triangular(lower.T, z.to(lower), upper=True)
        total = total + (seen_NP @ (weights_KP + step.view_as(weights_KP)).T).softmax(1)
    return total / samples
