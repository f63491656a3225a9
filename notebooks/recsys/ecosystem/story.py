"""A probabilistic program in small: variables that depend on each other, told step by step.

A variable has an initial rule and, unless it stays as it is, a rule for the next step. A rule
is a function; its parameters name what it depends on: `slate` is that variable now,
`slate_before` what it was a step ago, `backend` the source of noise. What a rule returns says
what the variable is: a distribution (with `draw` and `log_density`) makes it random, an array
makes it computed. One story runs in three ways:

    simulate          draw random variables, compute the others
    log_probability   read random variables from a record, *compute the others again*
    gradients         torch's, through either of the two

What is computed is no evidence: computed again, it carries what its parents say, and the
gradient with respect to them. Variables of an `Entity`, a template of a kind of actors, are
known outside as "kind.name", in parameters `kind_name`; inside, by their own names.
"""

import inspect
from dataclasses import dataclass, field
from functools import partial

BEFORE, BACKEND = "_before", "backend"


@dataclass(frozen=True)
class Variable:
    """A name and its rules; without `next` it stays what it was at the start."""

    name: str
    initial: object
    next: object = None


@dataclass(frozen=True)
class Entity:
    """A kind of actors: `Entity("user", (Variable(…), …), {"slate": "shop.slate"})`; `binds`
    says which variable a parameter means, so that one template serves several kinds.
    """

    kind: str
    variables: tuple
    binds: dict = field(default_factory=dict)


class Story:
    """Entities whose variables' dependences have an order; ValueError where they have none."""

    def __init__(self, *entities):
        kinds = [entity.kind for entity in entities]
        if len(set(kinds)) < len(kinds) or not kinds:
            raise ValueError(f"kinds of actors {kinds}: one is needed, each with its own name")
        names = [f"{e.kind}.{v.name}" for e in entities for v in e.variables]
        if len(set(names)) < len(names):
            raise ValueError(f"variables {names}: each needs a name of its own")
        self._initial, self._next = {}, {}
        for entity in entities:
            for variable in entity.variables:
                own = f"{entity.kind}.{variable.name}"
                self._initial[own] = _rule(variable.initial, own, entity, names, first=True)
                if variable.next is not None:
                    self._next[own] = _rule(variable.next, own, entity, names)
        self.names = tuple(_ordered(self._initial))
        self._order = tuple(_ordered(self._next))

    def simulate(self, steps, backend, keep=None):
        """The record, {variable: list of its values at each step}; `keep` names variables."""
        _checked_steps(steps)
        kept = self._known(self.names if keep is None else keep)
        record, values = {name: [] for name in kept}, {}
        for _ in range(steps):
            values = self.advance(values, backend)
            for name in kept:
                record[name].append(values[name])
        return record

    def log_probability(self, record, backend, leading=0):
        """The log-probability (density, for real numbers) of what a record drew.

        Sums over all axes but the `leading` ones (worlds). ValueError where the value of a
        random variable is missing. Variables that stay are scored once, at the start.
        """
        self._known(record)
        steps = max((len(values) for values in record.values()), default=0)
        _checked_steps(steps)
        scores, values = [], {}

        def found(step, name, law):
            value = _recorded(record, name, step)
            score = law.log_density(value)
            inner = tuple(range(leading, score.ndim))  # torch takes no axes for all
            scores.append(score.sum(inner) if inner else score)
            return value

        for step in range(steps):
            values = self.advance(values, backend, partial(found, step))
        return sum(scores)

    def advance(self, before, backend, found=None):
        """{variable: value} one step after `before`, or at the start where that is empty.

        `found(name, distribution)` gives a random variable's value; without it, it is drawn.
        """
        rules, order = (self._next, self._order) if before else (self._initial, self.names)
        values = dict(before)
        for name in order:
            rule, parents = rules[name]
            told = {
                parameter: backend if parent is None else (before if past else values)[parent]
                for parameter, parent, past in parents
            }
            value = rule(**told)
            if hasattr(value, "log_density"):
                value = found(name, value) if found else value.draw(backend)
            values[name] = value
        return values

    def _known(self, names):
        """What came; ValueError for the name of no variable of this story."""
        unknown = sorted(set(names) - set(self.names))
        if unknown:
            raise ValueError(f"unknown variables {unknown}; the story has {list(self.names)}")
        return names


def _rule(function, own, entity, names, first=False):
    """(function, [(parameter, variable or None for the back end, of the step before?)])."""
    parents = []
    lost = sorted(set(entity.binds.values()) - set(names))
    if lost:
        raise ValueError(f"{entity.kind} is bound to {lost}; the story's variables are {names}")
    for parameter in inspect.signature(function).parameters:
        if parameter == BACKEND:
            parents.append((parameter, None, False))
            continue
        past = parameter.endswith(BEFORE)
        word = parameter.removesuffix(BEFORE)
        told = [f"{entity.kind}.{word}", *(n for n in names if n.replace(".", "_") == word)]
        found = [n for n in [entity.binds.get(word), *told] if n in names]
        if not found:
            raise ValueError(f"{own} depends on {word!r}, which is no variable of {names}")
        if past and first:
            raise ValueError(f"{own}: nothing lies before its first value, and {word!r} should")
        parents.append((parameter, found[0], past))
    return function, parents


def _ordered(rules):
    """The variables, each after those of the same step that it depends on."""
    order, waiting = [], dict(rules)
    while waiting:
        ready = [
            name
            for name, (_, parents) in waiting.items()
            if not any(parent in waiting and not past for _, parent, past in parents)
        ]
        if not ready:
            raise ValueError(f"{sorted(waiting)} depend on each other in one step; use _before")
        order += ready
        waiting = {name: rule for name, rule in waiting.items() if name not in ready}
    return order


def _recorded(record, name, step):
    if name not in record or len(record[name]) <= step:
        raise ValueError(f"{name} is random, and the record lacks its value at step {step}")
    return record[name][step]


def _checked_steps(steps):
    if not isinstance(steps, int) or steps < 1:
        raise ValueError(f"{steps!r} steps; a whole number from 1 on is allowed")
