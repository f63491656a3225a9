"""Users, providers and a recommender: the article's ecosystem as a story, and what it leaves.

After the application `ecosystem_simulation` of RecSim NG (Mladenov et al. 2021), whose numbers
these are; its code is not copied. Each step a catalogue is drawn anew: a provider's chance of
an item grows with (1 + its recent clicks)^γ, γ = 2, and a click fades by 4 % a step; with γ = 0
clicks make no items. A user sees the K items of the highest scores and takes one by a logit
over affinities, 2 − distance. The utility is the affinity plus normal noise; it arrives a step
late, so that a horizon of H sums H − 1 utilities. A score is uniform between the affinity and
the affinity plus the provider's boost: the mean of all providers' pulls (clicks since the
start) less its own, cut at ± cap. Cap 0 is the myopic policy.

Ours: many worlds at once, and room for others who show slates, such as an advertiser.

Shapes: `W` worlds, `U` users, `P` providers, `D` documents, `T` topics, `K` slate, `H` steps.
"""

from dataclasses import dataclass

import numpy as np
import torch
from array_backends import counts, fastest, largest, of, take
from behaviour_models import Choice, Mixture, Normal, affinities, fading, fresh, static
from boosted_slates import slates
from story import Entity, Story, Variable

GAMMA, DISCOUNT, SLATE, PER_PROVIDER, USER_SPREAD, EDGE = 2.0, 0.96, 3, 5, 20.5, 1e-4
KEPT = "metrics.utility", "provider.clicks", "metrics.documents", "recommender.pulls"


@dataclass(frozen=True)
class Outcome:
    """What a run leaves, as NumPy arrays: mean utility (H, W), fading clicks and documents
    (H, W, P), clicks that do not fade, the pulls, (W, P).
    """

    utility: np.ndarray
    clicks: np.ndarray
    documents: np.ndarray
    pulls: np.ndarray

    @property
    def cumulative(self):
        """The mean user's utility, summed over the horizon, (W,): the article's measure."""
        return self.utility.sum(0)

    def seen(self, window):
        """Whether each provider had a document in the last `window` steps, (H, W, P): each
        catalogue is drawn anew, so who has none in one step may be back in the next.
        """
        steps = (self.documents > 0).cumsum(0)
        before = np.concatenate([np.zeros_like(steps[:window]), steps[:-window]])
        return steps > before

    def survivors(self, window=50):
        """How many providers these are, (H, W)."""
        return self.seen(window).sum(-1)


def provider_aware(cap):
    """The article's heuristic as a policy: boost whoever was pulled less than the mean."""
    if not cap >= 0:
        raise ValueError(f"a cap of {cap!r}; 0 (myopic) or more is allowed")
    return lambda pulls_WP: (pulls_WP.mean(-1)[:, None] - pulls_WP).clip(-cap, cap)


myopic = provider_aware(0.0)  # no boost: the best-liked items, whoever makes them


def draw_providers(worlds, seed=0, clusters=40, fan_out=2, topics=2):
    """Means of providers, (W, P, T): pairs around centres from N(0, 64), ± √½ each."""
    draw = np.random.default_rng((seed, 64))
    centres = 8.0 * draw.standard_normal((worlds, clusters, 1, topics))
    means = centres + 0.5**0.5 * draw.standard_normal((worlds, clusters, fan_out, topics))
    return means.reshape(worlds, clusters * fan_out, topics)


def ecosystem_story(policy, means_WPT, users=2000, gamma=GAMMA, shop=None):
    """The `Story` of these providers, as many users a world, and a policy: pulls to boosts.

    `shop`: an `Entity` whose shown_topics and shown_provider users see in the place of the
    recommender's; a provider's number past the last is nobody's.
    """
    W, P, _ = means_WPT.shape
    name = shop.kind if shop else "recommender"
    seen = {each: f"{name}.{each}" for each in ("shown_topics", "shown_provider")}
    kinds = [_providers(means_WPT), _catalogue(P * PER_PROVIDER, gamma)]
    kinds += [_recommender(policy), *([shop] if shop else [])]
    return Story(*kinds, Entity("user", _user_variables((W, users)), seen), _metrics())


def _providers(means):
    """Who makes documents: a place among the topics, and clicks that fade."""
    place = static(mean=lambda backend: backend.array(means))
    clicks = fading("clicks", _none_yet, _new_clicks, DISCOUNT)
    return Entity("provider", (*place, clicks))


def _none_yet(provider_mean):
    return 0 * provider_mean[..., 0]


def _new_clicks(provider_mean, user_provider_before):
    return counts(user_provider_before, provider_mean.shape[-2], provider_mean)


def _catalogue(documents, gamma):
    """What can be recommended in a step: whose each document is, and what it is about."""

    def provider(provider_clicks):
        return Choice(gamma * of(provider_clicks).log(1 + provider_clicks), documents)

    def topics(provider, provider_mean):
        return Normal(take(provider_mean, provider[..., None], -2), 1.0)

    return Entity("catalogue", fresh(provider=provider, topics=topics))


@dataclass(frozen=True, eq=False)
class Slate:
    """The law of slates (W, U, K), the best of the scores: it draws, and that is all."""

    interest: object
    topics: object
    provider: object
    boost: object

    def draw(self, backend):
        """Slates, the best first; a lazy back end draws no score that cannot reach one."""
        if backend.lazy and self.topics.shape[-1] == 2:
            key = int(backend.uniform((1,))[0] * 2**24)
            return slates(self.interest, self.topics, self.provider, self.boost, SLATE, key)
        liking_WUD = affinities(self.interest, self.topics)
        scores = backend.uniform(tuple(liking_WUD.shape))
        scores *= take(self.boost, self.provider, -1)[
            :, None, :
        ]  # in place, without fresh memory
        scores += liking_WUD
        return largest(scores, SLATE)

    def log_density(self, value):
        """None such: the chance of a slate is an integral over all scores."""
        raise ValueError("the chance of a slate has no formula, so this story has no score")


def _recommender(policy):
    """Who chooses the slates: all pulls so far, each provider's boost, the best scores."""

    def boost(pulls):
        found = policy(pulls)
        if getattr(found, "shape", None) != pulls.shape:
            came = getattr(found, "shape", type(found))
            raise ValueError(f"a policy's boosts are {came}; {tuple(pulls.shape)} is needed")
        return found + EDGE

    def slate(boost, user_interest, catalogue_topics, catalogue_provider):
        return Slate(user_interest, catalogue_topics, catalogue_provider, boost)

    def shown_topics(slate, catalogue_topics):
        return _of_slate(catalogue_topics, slate)

    def shown_provider(slate, catalogue_provider):
        return _of_slate(catalogue_provider[..., None], slate)[..., 0]

    pulls = fading("pulls", _none_yet, _new_clicks)
    shown = {"shown_topics": shown_topics, "shown_provider": shown_provider}
    return Entity("recommender", (pulls, *fresh(boost=boost, slate=slate, **shown)))


def _of_slate(values_WDX, slate_WUK):
    """The documents' values at the places of each slate, (W, U, K, X)."""
    W, D, X = values_WDX.shape
    first = of(slate_WUK).cumsum(of(slate_WUK).full_like(slate_WUK[:, :1, :1], D), 0) - D
    return values_WDX.reshape(W * D, X)[slate_WUK + first]


def _user_variables(shape):
    """What a user is, does and gets; whoever shows slates is bound from outside."""

    def interest(provider_mean):
        far = 1 + (provider_mean * provider_mean).sum(-1) ** 0.5
        return Mixture(-of(far).log(far), provider_mean, USER_SPREAD / far, shape)

    def liking(interest, shown_topics):
        far = interest[..., None, :] - shown_topics
        return 2 - sum(far[..., topic] ** 2 for topic in range(far.shape[-1])) ** 0.5

    def got(liking, choice):
        return take(liking, choice[..., None], -1)[..., 0]

    def provider(shown_provider, choice):
        return take(shown_provider, choice[..., None], -1)[..., 0]

    def choice(liking):
        return Choice(liking)

    def utility(got_before):
        return Normal(got_before, 1.0)

    late = Variable("utility", lambda interest: 0 * interest[..., 0], utility)
    each = fresh(liking=liking, choice=choice, got=got, provider=provider)
    return (*static(interest=interest), *each, late)


def run(
    policy, worlds, horizon, seed, provider_means=None, users=2000, gamma=GAMMA, backend=None
):
    """The `Outcome` of a policy in `worlds` worlds at once.

        run(provider_aware(1.2), worlds=4, horizon=300, seed=0).cumulative    # (4,)

    `provider_means`: (P, T), the same in all worlds, or (W, P, T); default drawn by the seed.
    Equal seeds and sizes share users and noise. `backend`: where, with what noise; default a
    CPU. ValueError for sizes below 1, a seed or gamma below 0, means that do not fit, and a
    policy whose boosts are no finite number for each provider.
    """
    sizes = {"worlds": worlds, "horizon": horizon, "users": users}
    worlds, horizon, users = (_whole(name, size, 1) for name, size in sizes.items())
    seed = _whole("seed", seed, 0)
    if not 0 <= gamma < np.inf:
        raise ValueError(f"gamma={gamma!r}; a number from 0 on is allowed")
    means = draw_providers(worlds, seed) if provider_means is None else provider_means
    story = ecosystem_story(policy, _checked_means(means, worlds), users, gamma)
    return outcome(story, horizon, fastest(seed) if backend is None else backend)


def _whole(name, value, least):
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r}; a whole number from {least} on is allowed")
    return int(value)


def outcome(story, horizon, backend):
    """The `Outcome` of an ecosystem's story; ValueError for boosts that are not finite."""
    record = story.simulate(horizon, backend, [*KEPT, "recommender.boost"])
    utility, clicks, documents, pulls, boosts = (_stacked(one) for one in record.values())
    if not (right := np.isfinite(boosts).all((1, 2))).all():
        raise ValueError(f"a policy's boosts at step {(~right).argmax()} are not all finite")
    return Outcome(utility, clicks, documents, pulls[-1])


def _metrics():
    """What is looked at: the mean utility of the users, and documents by provider."""

    def documents(catalogue_provider, provider_clicks):
        return counts(catalogue_provider, provider_clicks.shape[-1], provider_clicks)

    def utility(user_utility):
        return user_utility.mean(-1)

    return Entity("metrics", fresh(utility=utility, documents=documents))


def _stacked(values):
    """The values of all steps as one array on the host."""
    return np.stack(values) if of(*values) is np else torch.stack(values).cpu().numpy()


def _checked_means(means, worlds):
    means = np.asarray(means, float)
    means = np.broadcast_to(means, (worlds, *means.shape)) if means.ndim == 2 else means
    if means.ndim != 3 or len(means) != worlds or 0 in means.shape:
        raise ValueError(f"means of shape {means.shape}; (P, T) or ({worlds}, P, T) is allowed")
    if not np.isfinite(means).all():
        raise ValueError("provider means hold NaN or infinity; finite numbers are allowed")
    return means.copy()


def gini(values):
    """The Gini coefficient on the last axis: 0 if all have the same, 1 − 1/n if one has all.

        gini([1.0, 1.0, 1.0, 1.0]), gini([0.0, 0.0, 0.0, 8.0])    # 0.0, 0.75

    Half the mean difference of all pairs over the mean; zero where all have nothing.
    """
    values = np.sort(np.asarray(values, float), -1)
    if not (values >= 0).all():
        raise ValueError(f"values down to {values.min()}; the share of a debt is no inequality")
    count, whole = values.shape[-1], values.sum(-1)
    ranks = 2 * np.arange(1, count + 1) - count - 1
    return (values * ranks).sum(-1) / np.where(whole > 0, count * whole, 1)
