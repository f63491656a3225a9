"""What a story's variables may be drawn from: normal and uniform numbers, mixtures, choices.

Each is made of arrays, draws itself from a back end's noise, and scores a value, element by
element. A choice is a multinomial logit (McFadden 1974): option k of K is taken with the
chance exp(l_k) / Σ exp(l). "Nothing" is one more option with a logit of its own.

Shapes: `…` any leading axes, `K` options or components, `T` topics.
"""

import math
from dataclasses import dataclass

from array_backends import distances, logsumexp, of, take

LOG_2_PI = math.log(2 * math.pi)


@dataclass(frozen=True, eq=False)
class Normal:
    """Independent normal numbers: `Normal(mean, 0.5)`; the mean has the shape of the draw."""

    mean: object
    scale: object

    def draw(self, backend):
        """A sample of the mean's shape."""
        return self.mean + self.scale * backend.normal(tuple(self.mean.shape))

    def log_density(self, value):
        """The log-density of each number."""
        far = (value - self.mean) / self.scale
        return -0.5 * far * far - _log(self.scale) - 0.5 * LOG_2_PI

    @staticmethod
    def joined(laws, axis):
        """One law of many steps, which lie along a new axis of its draw."""
        scales = [0 * law.mean + law.scale for law in laws]
        return Normal(_stack([law.mean for law in laws], axis), _stack(scales, axis))


@dataclass(frozen=True, eq=False)
class Uniform:
    """Independent uniform numbers between `start` and `start` + `width`, which may be negative.

    The start has the shape of the draw; the width is broadcast to it.
    """

    start: object
    width: object

    def draw(self, backend):
        """A sample of that shape."""
        found = backend.uniform(tuple(self.start.shape))
        found *= self.width  # in place: fresh memory costs more than arithmetic
        found += self.start
        return found

    def log_density(self, value):
        """−ln |width| between the ends; −∞ elsewhere."""
        inside = (value - self.start) * (value - (self.start + self.width)) <= 0
        return of(value).where(inside, -_log(abs(self.width)), -math.inf)

    @staticmethod
    def joined(laws, axis):
        """One law of many steps, as `Normal.joined`."""
        widths = [0 * law.start + law.width for law in laws]
        return Uniform(_stack([law.start for law in laws], axis), _stack(widths, axis))


@dataclass(frozen=True, eq=False)
class Choice:
    """One of the K options of logits (…, K); with a count, so many of each row, (…, count)."""

    logits: object
    count: int | None = None

    def draw(self, backend):
        """Numbers of options, shape (…) or (…, count), by the inverse of the running sum.

        Never an option with a logit of −∞.
        """
        shares = of(self.logits).exp(self.logits - logsumexp(self.logits)[..., None])
        running = shares.cumsum(-1)
        whole, leading = running[..., -1:], tuple(self.logits.shape[:-1])
        level = backend.uniform((*leading, self.count or 1)) * whole
        passed = (running[..., None, :] <= level[..., None]).sum(-1)
        last = (running < whole).sum(-1)[..., None]  # the rounding of `level` may reach `whole`
        drawn = of(passed).where(passed < last, passed, last)
        return drawn if self.count else drawn[..., 0]

    def log_density(self, value):
        """The log-chance of each number."""
        logs = self.logits - logsumexp(self.logits)[..., None]
        found = take(logs, value if self.count else value[..., None], -1)
        return found if self.count else found[..., 0]

    @staticmethod
    def joined(laws, axis):
        """One law of many steps, as `Normal.joined`."""
        return Choice(_stack([law.logits for law in laws], axis), laws[0].count)


@dataclass(frozen=True, eq=False)
class Mixture:
    """Points around one of K centres, which one stays unknown: its density is their sum.

    `Mixture(logits_K, means_KT, scales_K, (W, U))` draws (W, U, T); leading axes of the
    parameters, if there are any, are the draw's first.
    """

    logits: object
    means: object
    scales: object
    shape: tuple

    def draw(self, backend):
        """A sample, shape (*shape, T)."""
        leading = self.logits.ndim - 1
        flat = math.prod(self.shape[leading:])
        chosen = Choice(self.logits, flat).draw(backend)
        centre, scale = take(self.means, chosen[..., None], -2), take(self.scales, chosen, -1)
        shape = (*self.shape, self.means.shape[-1])
        noise = backend.normal(tuple(centre.shape))
        return (centre + scale[..., None] * noise).reshape(shape)

    def log_density(self, value):
        """ln Σ_k p_k N(value; centre_k, scale_k²), shape `shape`: the centre is summed out."""
        leading, topics = self.logits.ndim - 1, self.means.shape[-1]
        flat = value.reshape((*self.shape[:leading], -1, 1, topics))
        logs = self.logits - logsumexp(self.logits)[..., None]
        about = Normal(self.means[..., None, :, :], self.scales[..., None, :, None])
        each = about.log_density(flat).sum(-1) + logs[..., None, :]
        return logsumexp(each).reshape(self.shape)


def or_nothing(logits, level=0.0):
    """The logits with a last option, "nothing", at this level: (…, K) becomes (…, K + 1)."""
    nothing = of(logits).full_like(logits[..., :1], level)
    return of(logits).concatenate([logits, nothing], -1)


def affinities(interest, topics):
    """2 less the distance of each interest (…, U, T) to each place (…, D, T): (…, U, D).

    The article's code adds the 2.
    """
    found = distances(interest, topics)
    found *= -1
    found += 2
    return found


def _stack(arrays, axis):
    return of(*arrays).stack(arrays, axis)


def _log(scale):
    return math.log(scale) if isinstance(scale, int | float) else of(scale).log(scale)
