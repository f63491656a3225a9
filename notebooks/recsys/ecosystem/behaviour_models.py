"""Behaviour in building blocks: what is drawn, how an item is chosen, how a state moves.

Laws are made of arrays, draw themselves from a back end's noise, and score a value, element by
element: normal numbers, mixtures, choices. A choice is a multinomial logit (McFadden 1974):
option k of K is taken with the chance exp(l_k) / Σ exp(l). "Nothing" is one more option with a
logit of its own. State models give a story's variables:

    static          drawn once
    fresh           told anew in each step by one rule
    fading          s ← keep · s + gain: counts and forgets (keep 1: only counts)
    linear_gaussian s ← keep · s + push + σ · noise: drifts, is pushed, and is shaken

A `gain` or `drift` is a rule as in `story`: its parameters name what it depends on.

Shapes: `…` any leading axes, `K` options or components, `T` topics.
"""

import inspect
import math
from dataclasses import dataclass

from array_backends import distances, logsumexp, of, take
from story import BEFORE, Variable

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


@dataclass(frozen=True, eq=False)
class Choice:
    """One of the K options of logits (…, K); with a count, so many of each row, (…, count)."""

    logits: object
    count: int | None = None

    def draw(self, backend):
        """Numbers of options, (…) or (…, count), never one with a logit of −∞."""
        shares = of(self.logits).exp(
            self.logits - of(self.logits).amax(self.logits, -1)[..., None]
        )
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
    """2 less the distance of each interest (…, U, T) to each place (…, D, T): (…, U, D)."""
    found = distances(interest, topics)
    found *= -1
    found += 2
    return found


def _log(scale):
    return math.log(scale) if isinstance(scale, int | float) else of(scale).log(scale)


def static(**rules):
    """Variables that stay what their rules say at the start."""
    return tuple(Variable(name, rule) for name, rule in rules.items())


def fresh(**rules):
    """Variables without memory: each step asks the same rule."""
    return tuple(Variable(name, rule, rule) for name, rule in rules.items())


def fading(name, start, gain, keep=1.0):
    """The `Variable` that keeps a share of itself and adds what the rule `gain` says."""
    return Variable(name, start, _after(name, gain, lambda s, gained: keep * s + gained))


def linear_gaussian(name, start, drift, scale, shock=None):
    """The variables of a state keep · s + push + scale · N(0, 1); `drift` gives (keep, push).

    Without `shock` the state itself is random, as in a log that holds it. With it, that names
    a random variable of its own, and the state is computed: easier for samplers, since shocks
    and parameters hardly depend on each other a priori.
    """

    def expected(s, told):
        keep, push = told
        return keep * s + push

    if not shock:
        law = _after(name, drift, lambda s, told: Normal(expected(s, told), scale))
        return (Variable(name, start, law),)

    def shaken(s, told, noise):
        return expected(s, told) + scale * noise

    noise = _after(name, lambda: (), lambda s, _: Normal(0 * s, 1.0))
    moved = Variable(name, start, _after(name, drift, shaken, shock))
    return Variable(shock, lambda: 0.0, noise), moved


def _after(name, gain, made, *more):
    """The rule made(value before, what `gain` says, more variables), and their parameters."""
    before, wanted = name + BEFORE, tuple(inspect.signature(gain).parameters)

    def rule(**told):
        gained = gain(**{one: told[one] for one in wanted})
        return made(told[before], gained, *(told[one] for one in more))

    kind, names = inspect.Parameter.KEYWORD_ONLY, dict.fromkeys((before, *wanted, *more))
    rule.__signature__ = inspect.Signature([inspect.Parameter(one, kind) for one in names])
    return rule
