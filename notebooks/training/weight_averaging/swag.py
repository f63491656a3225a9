"""A Gaussian around the average of the weights: SWAG, and mixtures of several (MultiSWAG).

Maddox et al. 2019, in the article's section "Calibration and Uncertainty Estimates". While SWA collects weights w_n,
also their mean square s and the last K deviations from the mean of that moment, the columns of D. A sample is

    w = a + sqrt(scale) (sqrt(max(s - a^2, 1e-30)) z1 + D z2 / sqrt(K - 1))        z1, z2 standard normal

with scale 1/2 (the diagonal and the low rank carry half of the variance each), or a + sqrt(diagonal) z1 alone.
The diagonal is kept centred (Welford's update of the squared deviations), since s - a^2 cancels in float32. K - 1 is
the number of deviations kept less one, also when fewer than K came. Every sampled network gets its own batch-norm statistics, and
probabilities, not weights or logits, are averaged over samples.
"""

import torch


class Swag:
    """The mean (D,), variance (D,) and last `rank` deviations (rank, D) of the weights it is shown.

    Raises ValueError for a rank below 2, for weights of another length or not finite, for sampling before the second update.
    """

    def __init__(self, rank=20):
        if rank < 2:
            raise ValueError(f"rank is {rank}; a covariance needs two deviations at least")
        self.rank, self.count = rank, 0
        self.mean = self.squares = None
        self.deviations = []

    def update(self, weights_D):
        """Take one vector of weights (D,) in."""
        if self.count and weights_D.shape != self.mean.shape:
            raise ValueError(f"weights have shape {tuple(weights_D.shape)}; the first ones had {tuple(self.mean.shape)}")
        if not weights_D.isfinite().all():
            raise ValueError("a weight is NaN or infinite; the Gaussian is left as it was")
        weights_D = weights_D.detach().float()
        if not self.count:
            self.mean, self.squares = torch.zeros_like(weights_D), torch.zeros_like(weights_D)
        self.count += 1
        before = weights_D - self.mean
        self.mean += before / self.count
        after = weights_D - self.mean
        self.squares += before * after
        self.deviations = [*self.deviations, after][-self.rank :]

    @property
    def variance(self):
        """The mean squared deviation of each weight, (D,)."""
        return self.squares / self.count

    def sample(self, *, generator=None, scale=0.5, low_rank=True):
        """One vector of weights (D,) from the Gaussian; scale of the variance, and whether the low rank takes part."""
        if self.count < 2:
            raise ValueError(f"{self.count} vectors of weights came; a spread needs two at least")
        deviation = self.variance.clamp_min(1e-30).sqrt()
        drawn = deviation * torch.randn(deviation.shape, generator=generator, device=deviation.device)
        if low_rank:
            columns = torch.stack(self.deviations)
            z = torch.randn(len(columns), generator=generator, device=deviation.device)
            drawn = drawn + z @ columns / max(len(columns) - 1, 1) ** 0.5
        return self.mean + scale**0.5 * drawn
