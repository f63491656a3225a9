"""Networks to average predictions over: SWAG and the rivals that the article names.

SWAG (Maddox et al. 2019) also keeps the variance of the weights that SWA collects, and the last
K deviations from the mean of their moment, the columns of D. A sample is

    w = a + sqrt(scale) (sqrt(variance) z1 + D z2 / sqrt(K - 1))         z1, z2 standard normal

with scale 1/2 (each part carries half of the variance), or a + sqrt(scale variance) z1 with
scale 1. The variance is kept by Welford's update, since E[w^2] - a^2 cancels in float32; K is
the number of deviations kept (the authors' code divides by the full rank). Every sampled
network gets batch-norm statistics of its own; probabilities are averaged.

The last layer's Laplace approximation (Daxberger et al. 2021; the article's covers all layers)
is a Gaussian around that layer's trained weights, whose precision is the loss curvature there,
sum_n (diag(p_n) - p_n p_n^T) x f_n f_n^T (x: Kronecker product), plus that of a prior, which is
chosen on held-out images. MC dropout (Gal and Ghahramani 2016) leaves dropout on.

Legend: D weights, N inputs, K classes, S samples, P features with a one appended.
"""

import itertools

import torch
from averaging import recompute_batch_norm
from fashion_task import logits_of
from loss_plane import set_weights
from predictive_scores import scores
from torch import nn

PRIORS = tuple(10.0 ** (power / 2) for power in range(-4, 9))  # 0.01 to 10,000


class Swag:
    """The mean (D,), variance (D,) and last `rank` deviations of the weights it is shown."""

    def __init__(self, rank=20):
        if rank < 2:
            raise ValueError(f"rank is {rank}; a covariance needs two deviations at least")
        self.rank, self.count, self.deviations = rank, 0, []

    def update(self, weights_D):
        """Take one vector of weights (D,) in."""
        weights_D = weights_D.detach().float()
        if not self.count:
            self.mean = self.squares = torch.zeros_like(weights_D)
        if weights_D.shape != self.mean.shape:
            got, first = tuple(weights_D.shape), tuple(self.mean.shape)
            raise ValueError(f"weights have shape {got}; the first ones had {first}")
        if not weights_D.isfinite().all():
            raise ValueError("a weight is NaN or infinite; the Gaussian is left as it was")
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
        """One vector of weights (D,), with or without the covariance's `low_rank` part."""
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
    """The mean probabilities (N, K) of sampled networks on the `Images` data; batch norms are
    recomputed from the `Images` statistics. how: as in `Swag.sample`. The model is lent."""
    drawn, total = torch.Generator().manual_seed(seed), 0
    for _ in range(samples):
        set_weights(model, swag.sample(generator=drawn, **how))
        recompute_batch_norm(model, statistics.batches())
        total = total + logits_of(model.eval(), data).softmax(1)
    return total / samples


@torch.no_grad()
def dropout_probabilities(model, data, samples=20):
    """The mean probabilities (N, K) with dropout on, all else as for prediction; ValueError for
    a network without dropout."""
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
    classes, wide = probs_NK.shape[1], features_NP.shape[1]
    matrix = features_NP.new_zeros(classes, wide, classes, wide)
    for k, j in itertools.product(range(classes), repeat=2):
        weight_N = probs_NK[:, k] * (float(k == j) - probs_NK[:, j])
        matrix[k, :, j] = (features_NP * weight_N[:, None]).T @ features_NP
    return matrix.view(classes * wide, classes * wide)


class Laplace:
    """A Gaussian of the last layer's weights around those of a model with `features` and a
    linear `head`, trained on `Images`. Cost: a pass over these, and (K P)^3 for each prior."""

    @torch.no_grad()
    def __init__(self, model, train):
        self.model = model.eval()
        self.weights_KP = torch.cat([model.head.weight, model.head.bias[:, None]], 1).double()
        features_NP = self._features(train)
        self.curvature = curvature(features_NP, (features_NP @ self.weights_KP.T).softmax(1))

    def _features(self, images):
        found = torch.cat([self.model.features(x_BCHW) for x_BCHW in images.batches()]).double()
        return torch.cat([found, torch.ones_like(found[:, :1])], 1)

    @torch.no_grad()
    def probabilities(self, images, prior, samples=20, *, seed=0):
        """The mean probabilities (N, K) of sampled last layers. prior: its precision; what
        weight decay means is decay times the number of training images."""
        precision = self.curvature.clone()
        precision.diagonal().add_(prior)
        lower = torch.linalg.cholesky(precision)
        drawn, total, seen_NP = torch.Generator().manual_seed(seed), 0, self._features(images)
        for _ in range(samples):
            z = torch.randn(len(lower), 1, generator=drawn, dtype=torch.float64)
            # L^-T z has the covariance (L L^T)^-1, the inverse of the precision
            step = torch.linalg.solve_triangular(lower.T, z.to(lower), upper=True)
            weights_KP = self.weights_KP + step.view_as(self.weights_KP)
            total = total + (seen_NP @ weights_KP.T).softmax(1)
        return total / samples

    def best_prior(self, held, samples=20):
        """The one of `PRIORS` with the least loss on held-out `Images`."""
        answers = (self.probabilities(held, prior, samples) for prior in PRIORS)
        losses = [scores(one, held.labels_N).nll for one in answers]
        return PRIORS[losses.index(min(losses))]
