"""Users, providers and, if you like, an advertiser: the article's ecosystem as a story.

After the application `ecosystem_simulation` of RecSim NG (Mladenov et al. 2021), whose numbers
these are; its code is not copied. Each step a catalogue is drawn anew: a provider's chance of
an item grows with the square of its recent clicks (γ = 2, a click fades by 4 % a step). A user
sees the K items of the highest scores and takes one by a multinomial logit over affinities,
2 − distance. The utility is the affinity plus normal noise; it arrives a step late, so that
a horizon of H sums H − 1 utilities. The score is uniform between the affinity and the affinity
plus the provider's boost; the boost is the mean of all providers' pulls (clicks since the
start) less its own, cut at ± cap. Cap 0 is the myopic policy.

Ours: many worlds at once; an `Advertiser`, whom the article names and its example lacks.

Shapes: `W` worlds, `U` users, `P` providers, `D` documents, `T` topics, `K` slate, `H` steps.
"""

from dataclasses import dataclass

import numpy as np
import torch
from array_backends import counts, fastest, largest, of, take
from behaviour_models import Choice, Mixture, Normal, Uniform, affinities, fading, fresh, static
from ecosystem_outcome import Outcome
from story import Entity, Story, Variable

GAMMA, DISCOUNT, SLATE, PER_PROVIDER, USER_SPREAD, EDGE = 2.0, 0.96, 3, 5, 20.5, 1e-4
AD_KEPT = "advertiser.budget", "advertiser.clicks"


def myopic(pulls_WP):
    """No boost: the best-liked items, whoever makes them."""
    return 0 * pulls_WP


def provider_aware(cap):
    """The article's heuristic as a policy: boost whoever was pulled less than the mean.

    `run(provider_aware(1.2), …)`; ValueError for a cap below 0.
    """
    if not cap >= 0:
        raise ValueError(f"a cap of {cap!r}; 0 (myopic) or more is allowed")
    return lambda pulls_WP: (pulls_WP.mean(-1)[:, None] - pulls_WP).clip(-cap, cap)


@dataclass(frozen=True)
class Advertiser:
    """One ad at `topics`, shown in the slate's last place while the budget lasts.

    It gets the place with a user where its affinity plus `bid` is above that of the item
    there, and pays `price` for each click; clicks beyond the budget within its last step are
    free. ValueError for amounts below zero or that are no number.
    """

    topics: tuple
    bid: float = 1.0
    price: float = 1.0
    budget: float = 1000.0

    def __post_init__(self):
        amounts = (self.price, self.budget)
        if not (np.isfinite([*amounts, self.bid, *self.topics]).all() and min(amounts) >= 0):
            raise ValueError(f"{self}: finite numbers, price and budget from 0 on, are allowed")


def draw_providers(worlds, seed=0, clusters=40, fan_out=2, topics=2):
    """Means of providers, (W, P, T): pairs around centres from N(0, 64), ± √½ each."""
    draw = np.random.default_rng((seed, 64))
    centres = 8.0 * draw.standard_normal((worlds, clusters, 1, topics))
    means = centres + 0.5**0.5 * draw.standard_normal((worlds, clusters, fan_out, topics))
    return means.reshape(worlds, clusters * fan_out, topics)


def ecosystem_story(policy, means_WPT, users=2000, advertiser=None):
    """The `Story` of these providers, as many users a world, and a policy: pulls to boosts."""
    W, P, T = means_WPT.shape
    if advertiser and len(advertiser.topics) != T:
        raise ValueError(f"an ad at {advertiser.topics}; the world has {T} topics")
    shop = "advertiser" if advertiser else "recommender"
    seen = {name: f"{shop}.{name}" for name in ("shown_topics", "shown_provider")}
    kinds = [_providers(means_WPT), _catalogue(P * PER_PROVIDER), _recommender(policy)]
    kinds += [_advertiser(advertiser, W, P)] if advertiser else []
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


def _catalogue(documents):
    """What can be recommended in a step: whose each document is, and what it is about."""

    def provider(provider_clicks):
        return Choice(GAMMA * of(provider_clicks).log(1 + provider_clicks), documents)

    def topics(provider, provider_mean):
        return Normal(take(provider_mean, provider[..., None], -2), 1.0)

    return Entity("catalogue", fresh(provider=provider, topics=topics))


def _recommender(policy):
    """Who chooses the slates: all pulls so far, a score for each user and document."""

    def score(pulls, user_interest, catalogue_topics, catalogue_provider):
        liking_WUD = affinities(user_interest, catalogue_topics)
        boost_WD = take(policy(pulls), catalogue_provider, -1) + EDGE
        return Uniform(liking_WUD, boost_WD[:, None, :])

    def slate(score):
        return largest(score, SLATE)

    def shown_topics(slate, catalogue_topics):
        return _of_slate(catalogue_topics, slate)

    def shown_provider(slate, catalogue_provider):
        return _of_slate(catalogue_provider[..., None], slate)[..., 0]

    pulls = fading("pulls", _none_yet, _new_clicks)
    shown = {"shown_topics": shown_topics, "shown_provider": shown_provider}
    return Entity("recommender", (pulls, *fresh(score=score, slate=slate, **shown)))


def _of_slate(values_WDX, slate_WUK):
    """The documents' values at the places of each slate, (W, U, K, X)."""
    W, U, K = slate_WUK.shape
    return take(values_WDX, slate_WUK.reshape(W, U * K, 1), -2).reshape(W, U, K, -1)


def _user_variables(shape):
    """What a user is, does and gets; whoever shows slates is bound from outside."""

    def interest(provider_mean):
        far = 1 + (provider_mean * provider_mean).sum(-1) ** 0.5
        return Mixture(-of(far).log(far), provider_mean, USER_SPREAD / far, shape)

    def liking(interest, shown_topics):
        squares = (interest[..., None, :] - shown_topics) ** 2
        return 2 - squares.sum(-1) ** 0.5

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


def _advertiser(ad, worlds, nobody):
    """Who pays for the last place of slates; an ad belongs to no provider."""

    def wins(budget, topics, user_interest, recommender_shown_topics):
        last = ((user_interest - recommender_shown_topics[..., -1, :]) ** 2).sum(-1) ** 0.5
        own = ((user_interest - topics) ** 2).sum(-1) ** 0.5
        return (ad.bid - own > -last) & (budget[:, None] > 0)

    def shown_topics(wins, topics, recommender_shown_topics):
        return _with_last(recommender_shown_topics, wins[..., None], topics)

    def shown_provider(wins, recommender_shown_provider):
        return _with_last(recommender_shown_provider[..., None], wins[..., None], nobody)[
            ..., 0
        ]

    def clicks(user_provider):
        return (user_provider == nobody).sum(-1)

    def budget(budget_before, clicks_before):
        return (budget_before - ad.price * clicks_before).clip(0)

    def full(backend):
        return backend.full((worlds,), ad.budget)

    place = static(topics=lambda backend: backend.array(np.array(ad.topics, float)))
    shown = {"shown_topics": shown_topics, "shown_provider": shown_provider}
    each = fresh(wins=wins, clicks=clicks, **shown)
    return Entity("advertiser", (Variable("budget", full, budget), *place, *each))


def _with_last(shown, where, own):
    """The slates (…, K, X) with `own` in the last place where `where`, (…, 1), says so."""
    last = of(shown).where(where, own + 0 * shown[..., -1, :], shown[..., -1, :])
    return of(shown).concatenate([shown[..., :-1, :], last[..., None, :]], -2)


def run(
    policy,
    worlds,
    horizon,
    seed,
    provider_means=None,
    users=2000,
    advertiser=None,
    backend=None,
):
    """The `Outcome` of a policy in `worlds` worlds at once.

        run(provider_aware(1.2), worlds=4, horizon=300, seed=0).cumulative    # (4,)

    `provider_means`: (P, T), the same in all worlds, or (W, P, T); by default drawn by the
    seed. Equal seeds and sizes share users and noise, whatever the policy, so that policies
    can be compared in pairs. `backend`: where and with what noise; default a
    CPU. ValueError for sizes below 1 or means that do not fit.
    """
    for name, value in {"worlds": worlds, "horizon": horizon, "users": users}.items():
        if type(value) is not int or value < 1:
            raise ValueError(f"{name}={value!r}; a whole number from 1 on is allowed")
    means = draw_providers(worlds, seed) if provider_means is None else provider_means
    means = _checked_means(means, worlds)
    backend = fastest(seed) if backend is None else backend
    story = ecosystem_story(policy, means, users, advertiser)
    return outcome(story, horizon, backend)


def outcome(story, horizon, backend, advance=None):
    """The `Outcome` of an ecosystem's story; `advance` may be its step, compiled."""
    keep = ["metrics.utility", "provider.clicks", "metrics.documents", "recommender.pulls"]
    keep += [name for name in AD_KEPT if name in story.names]
    record = story.simulate(horizon, backend, keep, advance=advance)
    utility, clicks, documents, pulls, *ad = (_stacked(record[name]) for name in keep)
    return Outcome(utility, clicks, documents, pulls[-1], *ad)


def _metrics():
    """What is looked at: the mean utility of the users, and documents by provider."""

    def documents(catalogue_provider, provider_clicks):
        return counts(catalogue_provider, provider_clicks.shape[-1], provider_clicks)

    def utility(user_utility):
        return user_utility.mean(-1)

    return Entity("metrics", fresh(utility=utility, documents=documents))


def _stacked(values):
    """The values of all steps as one array on the host."""
    if of(*values) is np:
        return np.stack(values)
    return torch.stack(values).cpu().numpy()


def _checked_means(means, worlds):
    means = np.asarray(means, float)
    means = np.broadcast_to(means, (worlds, *means.shape)) if means.ndim == 2 else means
    if means.ndim != 3 or len(means) != worlds or 0 in means.shape:
        text = f"provider means of shape {means.shape}; (P, T) or ({worlds}, P, T) is allowed"
        raise ValueError(text)
    if not np.isfinite(means).all():
        raise ValueError("provider means hold NaN or infinity; finite numbers are allowed")
    return means.copy()
