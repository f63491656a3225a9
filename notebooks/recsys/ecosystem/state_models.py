"""How states move from step to step: building blocks that give a story's variables.

    static          drawn once
    fresh           told anew in each step by one rule
    fading          s ← keep · s + gain: what counts and forgets (keep 1: what only counts)
    linear_gaussian s ← keep · s + push + σ · noise: what drifts, is pushed, and is shaken

A `gain` or `drift` is a rule as in `story`: its parameters name what it depends on.
"""

import inspect
from functools import wraps

from choice_models import Normal
from story import BEFORE, Variable


def static(**rules):
    """Variables that stay what their rules say at the start."""
    return tuple(Variable(name, rule) for name, rule in rules.items())


def fresh(**rules):
    """Variables without memory: each step asks the same rule."""
    return tuple(Variable(name, rule, rule) for name, rule in rules.items())


def fading(name, start, gain, keep=1.0):
    """The `Variable` that keeps a share of itself and adds the gain.

    `fading("clicks", start, lambda user_choice: counts(user_choice), 0.96)`
    """
    return Variable(name, start, _after(name, gain, lambda s, gained: keep * s + gained))


def linear_gaussian(name, start, drift, scale, shock=None):
    """The variables of a state keep · s + push + scale · N(0, 1); `drift` gives (keep, push).

    Without `shock` the state itself is random, as in a log that holds it. With it, that names
    a random variable of its own, and the state is computed: a hidden state that samplers find
    easier, since shocks and parameters hardly depend on each other a priori.
    """

    def expected(s, told):
        keep, push = told
        return keep * s + push

    if not shock:
        return (
            Variable(
                name, start, _after(name, drift, lambda s, d: Normal(expected(s, d), scale))
            ),
        )

    @wraps(start)
    def calm(**told):
        return 0 * start(**told)

    def shaken(s, told, noise):
        return expected(s, told) + scale * noise

    noise = _after(name, lambda: (), lambda s, _: Normal(0 * s, 1.0))
    return Variable(shock, calm, noise), Variable(
        name, start, _after(name, drift, shaken, shock)
    )


def _after(name, gain, made, *more):
    """The rule made(value before, what `gain` says, more variables), and their parameters."""
    before, wanted = name + BEFORE, tuple(inspect.signature(gain).parameters)

    def rule(**told):
        gained = gain(**{one: told[one] for one in wanted})
        return made(told[before], gained, *(told[one] for one in more))

    kind, names = inspect.Parameter.KEYWORD_ONLY, dict.fromkeys((before, *wanted, *more))
    rule.__signature__ = inspect.Signature([inspect.Parameter(one, kind) for one in names])
    return rule
