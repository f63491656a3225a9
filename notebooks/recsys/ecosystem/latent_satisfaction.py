"""Users whose satisfaction nobody logs, and three ways to learn how sensitive it is.

After the application `latent_variable_model_learning` of RecSim NG: a user with an intent, a
point among T topics, sees a slate of K items each step and takes one or none, by a logit over
affinity + satisfaction. The satisfaction moves by

    s_t = sensitivity · s_{t−1} + (best affinity of the last slate − that of the one before)
          + σ · shock_t,   s_0 = 5

The shock is the random variable here, and the satisfaction is computed from it: so a score with
hidden satisfaction reaches intent and sensitivity through it.

Ours, in six places: one sensitivity for all users (theirs: one each), with a prior, logit ~
N(1, 1); satisfaction is hidden, too (theirs: intents alone); "nothing" has the logit 3 (theirs
0: at a satisfaction of 5 hardly anybody takes nothing, and the log is silent); σ is 0.1, as in
their docstring (their code has 0.01); intents lie ±√0.3 around the axes' ends (theirs ±√0.1),
so that chains can pass from one to another; a distance is √(d² + 0.1), smooth at its tip.

Shapes: `W` worlds, chains or repeated experiments, `U` users, `K` slate, `T` topics, `H` steps.
"""

from dataclasses import dataclass

import hamiltonian
import torch
from array_backends import TorchBackend, of, take
from behaviour_models import Choice, Mixture, Normal, fresh, linear_gaussian, or_nothing, static
from story import Entity, Story, Variable

TOPICS, SLATE, SPREAD, DOCUMENTS = 3, 4, 0.3**0.5, 0.5
SMOOTH = 0.1
START, NOTHING, SHOCK, PRIOR = 5.0, 3.0, 0.1, (1.0, 1.0)
LOGGED = ("recommender.slate", "user.choice")


def satisfaction_story(worlds, users, sensitivity=None, observed=False):
    """The `Story`, the sensitivity drawn from its prior or given as an array (W,); if observed,
    as in a log that holds it, satisfaction itself is the random variable.
    """

    def logit(backend):
        return Normal(backend.full((worlds,), PRIOR[0]), PRIOR[1])

    def drawn(logit):
        return 1 / (1 + of(logit).exp(-logit))

    known = static(sensitivity=lambda backend: backend.array(sensitivity))
    prior = static(logit=logit, sensitivity=drawn)
    population = Entity("population", prior if sensitivity is None else known)
    shape = (worlds, users, SLATE, TOPICS)

    def slate(backend):
        return Normal(backend.full(shape, 0.0), DOCUMENTS)

    recommender = Entity("recommender", fresh(slate=slate))
    return Story(population, recommender, Entity("user", _user((worlds, users), observed)))


def _user(shape, observed):
    """Intent, affinity to what is shown, satisfaction, choice."""

    def intent(backend):
        logits, ones, scales = (backend.full((TOPICS,), value) for value in (0.0, 1.0, SPREAD))
        return Mixture(logits, of(ones).diag(ones), scales, shape)

    def affinity(intent, recommender_slate):
        squares = (intent[..., None, :] - recommender_slate) ** 2
        return 2 - (squares.sum(-1) + SMOOTH) ** 0.5

    def seen(affinity_before):
        return of(affinity_before).amax(affinity_before, -1)

    def drift(seen, seen_before, population_sensitivity):
        return population_sensitivity[:, None], seen - seen_before

    def choice(affinity, satisfaction):
        return Choice(or_nothing(affinity + satisfaction[..., None], NOTHING))

    calm = Variable("seen", lambda intent: 0 * intent[..., 0], seen)
    start, shock = (lambda intent: 0 * intent[..., 0] + START), None if observed else "shock"
    satisfaction = linear_gaussian("satisfaction", start, drift, SHOCK, shock)
    each = fresh(affinity=affinity, choice=choice)
    return (*static(intent=intent), *each, calm, *satisfaction)


def draw_log(steps, worlds, users, backend, sensitivity=None, observed=False):
    """A record of `steps` steps; with the truth, which a log of `LOGGED` alone would lack."""
    story = satisfaction_story(worlds, users, sensitivity, observed)
    return story.simulate(steps, backend)


@dataclass(frozen=True)
class Hidden:
    """What a log of clicks, one a chain, leaves open: rows (C, Q); `sensitivity` if known."""

    log: dict
    users: int
    sensitivity: object = None

    @property
    def count(self):
        """Q: the logit, T numbers of intent a user, a shock a user and step but the first."""
        steps = len(self.log["user.choice"])
        return (self.sensitivity is None) + self.users * (TOPICS + steps - 1)

    def unpacked(self, q):
        """The latent variables in rows q, (…, Q), by name: the shocks (…, steps − 1, U)."""
        leading, own = q.shape[:-1], self._intents
        found = {"population.logit": q[..., 0]} if self.sensitivity is None else {}
        found["user.intent"] = q[..., own].reshape(*leading, self.users, TOPICS)
        found["user.shock"] = q[..., own.stop :].reshape(*leading, -1, self.users)
        return found

    def record(self, q):
        """The log with these latent values, (C, Q), filled in."""
        filled = {name: [value] for name, value in self.unpacked(q).items()}
        shocks = filled["user.shock"][0].unbind(-2)
        return self.log | filled | {"user.shock": [None, *shocks]}  # none is drawn at the start

    def density(self, q):
        """The log-probability of the log with these latent values, (C,)."""
        story = satisfaction_story(len(q), self.users, self.sensitivity)
        backend = TorchBackend(device=q.device, dtype=q.dtype)
        return story.log_probability(self.record(q), backend, leading=1)

    def start(self, seed=0, spread=0.1):
        """A place to begin for each chain, (C, Q): intents near 1/T, the rest near 0."""
        like = self.log["recommender.slate"][0]
        noise = torch.Generator(like.device).manual_seed(seed)
        kind = {"generator": noise, "device": like.device, "dtype": like.dtype}
        q = spread * torch.randn(len(like), self.count, **kind)
        q[:, self._intents] += 1 / TOPICS
        return q

    def prior_variance(self, like):
        """Rough variances, (Q,), for HMC to begin with: those of prior and shocks."""
        found = torch.ones_like(like[0])
        found[0] = 0.05  # of a logit; many users' choices say more of it than its prior
        found[self._intents] = SPREAD**2
        return found

    @property
    def _intents(self):
        begin = int(self.sensitivity is None)
        return slice(begin, begin + self.users * TOPICS)


def repeated(record, chains):
    """What LOGGED names of a record, each world `chains` times in a row: (W, …) to (W·C, …)."""
    return {name: [one.repeat_interleave(chains, 0) for one in record[name]] for name in LOGGED}


def likeliest(record, users, start=0.5, rounds=60):
    """(the sensitivity (W,) of the highest likelihood, its standard error) of a full log.

    By Newton's steps on torch's gradients through the story, for a log that holds satisfaction.
    """
    like = record["recommender.slate"][0]
    value = torch.full((len(like),), start, dtype=like.dtype, device=like.device)
    backend = TorchBackend(device=like.device, dtype=like.dtype)
    for _ in range(rounds):
        value = value.detach().requires_grad_(True)
        story = satisfaction_story(len(like), users, value, observed=True)
        score = story.log_probability(record, backend, leading=1)
        (slope,) = torch.autograd.grad(score.sum(), value, create_graph=True)
        (bend,) = torch.autograd.grad(slope.sum(), value)
        if not bool((bend < 0).all()):
            raise ValueError("the log says nothing of the sensitivity: its likelihood is flat")
        moved = (slope / bend).detach()
        value = value.detach() - moved
        if float(moved.abs().max()) < 1e-9 + 10 * torch.finfo(like.dtype).eps:
            break
    return value, (-bend.detach()).rsqrt()


def expectation_maximisation(
    log, users, iterations=10, moves=3, start=0.5, chains=4, seed=0, rate=None
):
    """The sensitivities (iterations + 1, L) of Monte-Carlo EM on L logs without satisfaction.

    Each iteration draws the hidden values given the sensitivity (E: `moves` of HMC from where
    the chains are) and takes a Newton step in the logit, cut at ±1, on the mean
    log-probability of these draws (M). Each log stands in `chains` rows in a row (`repeated`).

    With a `rate` it is plain maximum likelihood instead: gradient ascent on the likelihood with
    the hidden values summed out, whose slope is the draws' mean slope (Fisher's identity), by
    AdaGrad's steps. Both climb the same hill, and neither has a prior of the sensitivity.
    """
    like = log["recommender.slate"][0]
    if len(like) % chains:
        raise ValueError(f"{len(like)} rows are no multiple of {chains} chains for each log")
    logit = torch.logit(torch.full_like(like[::chains, 0, 0, 0], start))
    path, q, size, variance, squares = [torch.sigmoid(logit)], None, 0.2, None, 0.0
    for turn in range(iterations):
        logit = logit.detach().requires_grad_(True)
        level = torch.sigmoid(logit).repeat_interleave(chains)
        held, free = Hidden(log, users, level.detach()), Hidden(log, users, level)
        if not turn:
            q = held.start(seed)
            variance = held.prior_variance(q)
        told = {"warmup": 0 if turn else 40, "leapfrogs": 6, "seed": 1000 * seed + turn}
        told |= {"step_size": size, "variance": variance}
        found = hamiltonian.sample(held.density, q, moves, **told)
        q, size, variance = found.draws[-1], found.step_size, found.variance
        score = sum(free.density(draws) for draws in found.draws).reshape(-1, chains).mean(1)
        (slope,) = torch.autograd.grad(score.sum(), logit, create_graph=True)
        (bend,) = torch.autograd.grad(slope.sum(), logit)
        squares = squares + slope.detach().square()
        step = rate * slope / squares.sqrt() if rate else slope / bend.clamp(max=-1e-3).abs()
        logit = (logit + step.clamp(-1, 1)).detach()
        path.append(torch.sigmoid(logit))
    return torch.stack(path)


def sum_taken(record):
    """The sum of items taken, less their slates' means, (W, U, T): what clicks alone say."""
    total = 0.0
    for slate, choice in zip(*(record[name] for name in LOGGED), strict=True):
        taken = choice < SLATE
        place = choice.clamp(max=SLATE - 1)[..., None, None]
        total = total + (take(slate, place, -2)[..., 0, :] - slate.mean(-2)) * taken[..., None]
    return total


def posterior(log, users, steps=300, warmup=300, leapfrogs=10, seed=0, leap=None):
    """(`Hidden`, `Samples`) of HMC over all that a log of clicks leaves open."""
    hidden = Hidden(log, users)
    start = hidden.start(seed + 1_000_000)  # not the noise of the moves
    told = {"warmup": warmup, "leapfrogs": leapfrogs, "step_size": 0.2, "seed": seed}
    told["leap"] = leap  # compiled for this log
    told["variance"] = hidden.prior_variance(start)
    return hidden, hamiltonian.sample(hidden.density, start, steps, **told)
