"""Hamiltonian Monte Carlo for many chains at once, and how far its draws may be trusted.

A particle with the parameters as its place and a random momentum p slides over the potential
−log density (Neal 2011). L leapfrog steps of size ε,

    p ← p + ε/2 ∇ log π(q),  q ← q + ε p / m,  p ← p + ε/2 ∇ log π(q),

keep the energy nearly; what they lose decides whether the new place is taken, with the chance
min(1, exp(H_old − H_new)). In the warm-up ε is set so that a chosen share is taken (dual
averaging, Hoffman and Gelman 2014, algorithm 5), and m to one over the variance around each
chain's mean; the chains share both. Effective size and split R-hat are those of Gelman et al.
(2013), chapter 11, with Geyer's (1992) initial monotone sequence.

Shapes: `C` chains, `Q` parameters, `N` draws.
"""

import math
import warnings
from dataclasses import dataclass
from functools import partial

import torch

KAPPA, GAMMA, DELAY = 0.75, 0.05, 10  # of dual averaging, as published
DIVERGED = 1000.0  # an energy lost by more than this: the steps are too large


@dataclass(frozen=True)
class Samples:
    """Draws (N, C, Q), shares of moves taken (C,), the step size, 1/m (Q,), divergences."""

    draws: torch.Tensor
    accepted: torch.Tensor
    step_size: float
    variance: torch.Tensor
    divergences: int


def sample(
    log_density,
    start,
    steps,
    *,
    warmup=300,
    leapfrogs=10,
    step_size=0.1,
    variance=None,
    target=0.8,
    seed=0,
    leap=None,
):
    """`Samples` of `steps` draws a chain, after `warmup` moves that are thrown away.

        sample(lambda q_CQ: -0.5 * (q_CQ**2).sum(-1), torch.zeros(4, 2), 500).draws.mean((0, 1))

    `log_density` maps (C, Q) to (C,) by torch, each chain from its own row; a start (Q,) is one
    chain. `variance`, (Q,), is a first guess, default 1; `leap` the density's `compiled` step.
    ValueError for a start of another shape, or a density that is not finite.
    """
    start = start[None] if start.ndim == 1 else start
    _checked(start, steps, leapfrogs, warmup, target, step_size)
    slope = _with_slope(log_density)
    leap = plain(log_density) if leap is None else leap
    place = start.detach().clone(), *slope(start)
    if not bool(torch.isfinite(place[1]).all()) or place[1].shape != start.shape[:1]:
        raise ValueError(f"the log-density at the start is {place[1]}; finite, (C,), is needed")
    noise = torch.Generator(start.device).manual_seed(seed)
    guess = torch.ones_like(start[0]) if variance is None else variance.to(start)
    if guess.shape != start.shape[1:] or not bool((guess > 0).all()):
        raise ValueError(f"a variance of {tuple(guess.shape)}; {start.shape[1]}, above zero")
    tuned = _Tuning(start, step_size, guess, target)
    draws, taken, lost = [], [], []
    for move in range(warmup + steps):
        size = tuned.step_size(final=move >= warmup)
        place, chance, diverged = _move(leap, place, size, tuned.variance, leapfrogs, noise)
        if move < warmup:
            tuned.update(place[0], chance, move, warmup)
            continue
        draws.append(place[0])
        taken.append(chance)
        lost.append(diverged)
    taken, lost = torch.stack(taken), torch.stack(lost)
    size = float(tuned.step_size(final=True))
    return Samples(torch.stack(draws), taken.mean(0), size, tuned.variance, int(lost.sum()))


def _checked(start, steps, leapfrogs, warmup, target, step_size):
    """None; ValueError for what cannot be sampled."""
    if start.ndim != 2 or 0 in start.shape or not start.is_floating_point():
        raise ValueError(
            f"a start of shape {tuple(start.shape)}, {start.dtype}; floats (C, Q) or (Q,)"
        )
    for name, value in (("steps", steps), ("leapfrogs", leapfrogs)):
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"{name}={value!r}; a whole number from 1 on is allowed")
    if not (isinstance(warmup, int) and warmup >= 0 and 0 < target < 1 and step_size > 0):
        told = f"warmup={warmup!r}, target={target!r}, step_size={step_size!r}"
        raise ValueError(f"{told}: at least 0, between 0 and 1, above 0 are allowed")


def _with_slope(log_density):
    """A function: places (C, Q) to (log densities (C,), their gradients (C, Q))."""

    def both(place):
        place = place.detach().requires_grad_(True)
        with torch.enable_grad():
            value = log_density(place)
            (slope,) = torch.autograd.grad(value.sum(), place)
        return value.detach(), slope

    return both


def _leap(slope, q, p, gradient, size, variance):
    """(place, momentum, log-density, gradient) after one leapfrog step."""
    p = p + 0.5 * size * gradient
    q = q + size * variance * p
    value, gradient = slope(q)
    return q, p + 0.5 * size * gradient, value, gradient


def plain(log_density):
    """A leapfrog step on this density, an operation at a time."""
    return partial(_leap, _with_slope(log_density))


def compiled(log_density, like, backend="inductor"):
    """The same, gradient and all, as one function for places (C, Q) `like` these; seconds."""
    from torch.fx.experimental.const_fold import split_const_subgraphs
    from torch.fx.experimental.proxy_tensor import make_fx

    q, p, gradient, ones = *(like.clone() for _ in range(3)), torch.ones_like(like[0])
    traced = make_fx(plain(log_density))(q, p, gradient, ones[0].clone(), ones)
    with warnings.catch_warnings():  # it speaks of constants that it registers a line later
        warnings.simplefilter("ignore")
        folded = split_const_subgraphs(traced)
    folded.run_folding()  # what no argument reaches, such as the score of what was shown
    how = {"options": {"cpp_wrapper": True}} if backend == "inductor" else {}  # less Python
    return torch.compile(torch.fx.GraphModule(folded, folded.graph), backend=backend, **how)


def _move(leap, place, size, variance, leapfrogs, noise):
    """(next place, chance of the move (C,), diverged (C,)) after leapfrogs and a verdict."""
    q, value, gradient = place
    kind = {"generator": noise, "device": q.device, "dtype": q.dtype}
    p = torch.randn(q.shape, **kind) * variance.rsqrt()
    energy = value - 0.5 * (p * p * variance).sum(-1)
    rate = 1 + 0.2 * (2 * torch.rand((), generator=noise, device=q.device, dtype=q.dtype) - 1)
    new, new_value, new_gradient, size = q, value, gradient, size * rate
    for _ in range(leapfrogs):
        new, p, new_value, new_gradient = leap(new, p, new_gradient, size, variance)
    gained = new_value - 0.5 * (p * p * variance).sum(-1) - energy
    gained = torch.where(torch.isfinite(gained), gained, -math.inf)
    chance = gained.clamp(max=0).exp()
    yes = torch.rand(chance.shape, **kind) < chance
    kept = torch.where(yes[:, None], new, q), torch.where(yes, new_value, value)
    place = *kept, torch.where(yes[:, None], new_gradient, gradient)
    return place, chance, gained < -DIVERGED


class _Tuning:
    """The step size and the variances (Q,) as the warm-up finds them."""

    def __init__(self, start, step_size, guess, target):
        self.variance, self._target, self._seen = guess, target, []
        self._restart(torch.full_like(start[0, 0], step_size))

    def _restart(self, size):
        self._centre, self._gap, self._count = (10 * size).log(), torch.zeros_like(size), 0
        self._log = self._mean = size.log()

    def step_size(self, final):
        """The size to try, or the averaged one once the warm-up is over."""
        return (self._mean if final else self._log).exp()

    def update(self, place, chance, move, warmup):
        """Take in a move; the warm-up's middle half sets the variances, the rest the steps."""
        self._count += 1
        weight = 1 / (self._count + DELAY)
        self._gap = (1 - weight) * self._gap + weight * (self._target - chance.mean())
        self._log = self._centre - self._count**0.5 / GAMMA * self._gap
        share = self._count**-KAPPA
        self._mean = share * self._log + (1 - share) * self._mean
        if warmup // 4 <= move < warmup * 3 // 4:
            self._seen.append(place)
        if move + 1 == warmup * 3 // 4 and len(self._seen) >= 10:
            seen, count = torch.stack(self._seen), len(self._seen)
            found = (seen - seen.mean(0)).square().mean((0, 1)) * count / (count - 1)
            self.variance = (count * found + self.variance) / (count + 1)
            self._restart(self.step_size(final=True))


def split_r_hat(draws_NCQ):
    """R-hat of each parameter, (Q,): chains cut in halves; near 1 once they have mixed."""
    within, pooled, _ = _variances(_halves(draws_NCQ))
    return (pooled / within).sqrt()


def effective_size(draws_NCQ):
    """How many independent draws the mean of each parameter is worth, (Q,).

    The number of draws over 1 + 2 Σ autocorrelation, the sum cut by Geyer's rule; at most that
    number times its log₁₀ (Vehtari et al. 2021). ValueError for fewer than four draws.
    """
    halves = _halves(draws_NCQ)
    count, chains, _ = halves.shape
    within, pooled, centred = _variances(halves)
    spectrum = torch.fft.rfft(centred, n=2 * count, dim=0)
    covariance = torch.fft.irfft(spectrum * spectrum.conj(), n=2 * count, dim=0)[:count] / count
    rho = 1 - (within - covariance.mean(1)) / pooled
    rho[0] = 1
    pairs = rho[: count // 2 * 2].reshape(-1, 2, rho.shape[-1]).sum(1)
    positive = (pairs > 0).to(pairs.dtype).cumprod(0)
    falling = torch.cummin(pairs, 0).values
    whole = count * chains
    return whole / (2 * (falling * positive).sum(0) - 1).clamp(min=1 / math.log10(whole))


def _halves(draws):
    """The chains' halves as chains: (N, C, Q) becomes (N/2, 2C, Q)."""
    half = len(draws) // 2
    if half < 2:
        raise ValueError(f"{len(draws)} draws; four or more of each chain are needed")
    return torch.cat([draws[:half], draws[len(draws) - half :]], 1)


def _variances(chains):
    """(within chains, of all together, the draws around their means), as R-hat has them."""
    count, means = len(chains), chains.mean(0)
    within = chains.var(0).mean(0)
    pooled = within * (count - 1) / count
    pooled = pooled + (means.var(0) if chains.shape[1] > 1 else 0)
    return within, pooled, chains - means
