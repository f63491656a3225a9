"""Policies in the world, hour by hour, and what came of them: clicks, regret, cold share, time
to discovery, concentration.

Every policy starts from the same log and the same trained model, sees the same users in the
same hours with the same luck, and shows nobody what they clicked before; new items may be shown
from their first hour, by their metadata. The baseline is exploitation alone: the same network,
fed and tuned alike, at weight 0 and without UPDATE. A FULL training starts from nothing, on the
whole log so far.

B users of an hour, I items, K places, P numbers of a state, H hours.
"""

from dataclasses import dataclass, replace

import click_world
import item_network
import torch
from click_world import DAY, SLATE, as_sent, join, slates
from item_network import Beliefs

COLD_DAYS = 30  # what counts as new in the results, whatever a policy believes
EPOCH_HOURS = 1_600_000_000 / 3600  # hour 0 of the world in Unix time
SHRINK = 100.0  # looks at the mean rate that a popularity begins with


@dataclass(frozen=True)
class Policy:
    """What a policy may do: `update` every so many hours, `full` every so many days."""

    kind: str = "network"  # or popular, oracle
    weight: float = 0.0
    update: int | None = None
    full: float | None = None
    cutoff_days: float = 30.0
    sends: str = "all"  # what the application tells the service (see `click_world.as_sent`)
    draws: bool = False  # at an UPDATE too, what was not clicked where no list was sent
    doubt: float = 1.0  # the beliefs' deviations are multiplied by it
    time_factor: float = 1.0  # of the items' Unix times, as the service is told them
    old_only: bool = False  # never show what came at hour 0 or later

    def __post_init__(self):
        if self.kind not in ("network", "popular", "oracle"):
            raise ValueError(f"kind must be network, popular or oracle, not {self.kind!r}")


POLICIES = {
    "popular": Policy("popular", update=1),
    "baseline, never trained again": Policy(),
    "baseline, FULL": Policy(full=3),
    "weight 0.3, never": Policy(weight=0.3),
    "weight 0, hourly": Policy(weight=0.0, update=1),
    "weight 0.3, hourly": Policy(weight=0.3, update=1),
    "weight 1, hourly": Policy(weight=1.0, update=1),
    "weight 0, hourly and FULL": Policy(weight=0.0, update=1, full=3),
    "weight 0.3, hourly and FULL": Policy(weight=0.3, update=1, full=3),
    "weight 1, hourly and FULL": Policy(weight=1.0, update=1, full=3),
    "no new items": Policy(weight=0.3, update=1, full=3, old_only=True),
    "oracle": Policy("oracle"),
}


@dataclass
class Model:
    """A trained network, what it knows of each item, and the users' states."""

    net: item_network.ItemNetwork
    known: Beliefs
    state_UP: torch.Tensor


def fit(log, genres_IG, created_I, users, recipe=None):
    """The Model after one FULL training on all of the log."""
    net, known = item_network.learned(log, genres_IG, created_I, users, recipe)
    return Model(net, known, states_of(net, log, users))


@torch.no_grad()
def states_of(net, log, users):
    """(U, P): every user's state after all clicks of the log."""
    history, _ = item_network.sequences(log, users)
    states = net.states(history, net.vectors())
    return states[torch.arange(users, device=states.device), (history >= 0).sum(1)]


@dataclass
class Outcome:
    """What a policy did: sums of each hour; how often and how soon each item was seen."""

    clicks_H: torch.Tensor
    expected_H: torch.Tensor  # clicks expected by the truth: less luck in it
    ever_H: torch.Tensor  # items that were shown until then, of those that there are
    cold_H: torch.Tensor  # places given to items younger than COLD_DAYS, by true times
    places_H: torch.Tensor
    shown_I: torch.Tensor
    found_I: torch.Tensor  # hour of the fifth click; infinite where it never came
    model: Model

    def rate(self, hours=slice(None)):
        """Expected clicks for each place shown, in these hours."""
        return float(self.expected_H[hours].sum() / self.places_H[hours].sum())

    def cold_share(self):
        return float(self.cold_H.sum() / self.places_H.sum())


def run(world, log, model, policy, genres_IG=None, days=8, visits=50, recipe=None):
    """The Outcome of one policy over `days` days with `visits` users an hour. The world
    remembers clicks: give each run its own copy. `model` was fitted to `log`, as the policy's
    application sends it, and to `genres_IG`, its catalogue (default: the world's own)."""
    genres = world.genres_IG if genres_IG is None else genres_IG
    model = replace(model, state_UP=model.state_UP.clone())
    popular = _looks(log, model.net, world.items) if policy.kind == "popular" else None
    tally, fresh, waiting = _Tally(world), [], []
    for hour in range(int(days * DAY)):
        if policy.full and hour and hour % int(policy.full * DAY) == 0:
            late, _ = as_sent(join(fresh), policy.sends)
            about = genres, world.created_I, world.users, recipe
            model, waiting = fit(join([log, late]), *about), []
        if policy.update and waiting and hour % policy.update == 0:
            phi, lists = zip(*waiting, strict=True)
            lists, waiting = join(lists), []
            if popular is None:
                model = _updated(model, torch.cat(phi), lists, policy, world.created_I)
            else:
                popular += _looks(lists, model.net, world.items)
        users = world.requests(hour, visits)
        phi = model.state_UP[users]
        items = _lists(world, policy, model, popular, users, phi, hour)
        expected = world.expected(users, items, hour).sum()
        clicks = world.show(users, items, hour)
        fresh.append(slates(users, hour, items, clicks))
        waiting.append((phi, fresh[-1]))
        _read_clicks(model, users, items, clicks)
        tally.add(hour, items, clicks, expected)
    return tally.outcome(model)


class _Tally:
    def __init__(self, world):
        self.world, self.sums = world, []
        self.shown_I = torch.zeros(world.items, device=world.created_I.device)
        self.clicked_I = self.shown_I.clone()
        self.found_I = torch.full_like(self.shown_I, torch.inf)

    def add(self, hour, items, clicks, expected):
        there, one = self.world.exists_I(hour), self.shown_I.new_ones(items.numel())
        self.shown_I.index_add_(0, items.flatten(), one)
        self.clicked_I.index_add_(0, items.flatten(), clicks.flatten().float())
        self.found_I[(self.clicked_I >= 5) & self.found_I.isinf()] = float(hour)
        ever = (self.shown_I > 0).sum() / there.sum()
        cold = item_network.is_cold(self.world.created_I, hour, COLD_DAYS, there)[items].sum()
        self.sums.append([clicks.sum(), expected, ever, cold, one.sum()])

    def outcome(self, model):
        rows = torch.stack([torch.stack([value.float() for value in row]) for row in self.sums])
        return Outcome(*rows.cpu().T, self.shown_I.cpu(), self.found_I.cpu(), model)


def _lists(world, policy, model, popular, users, phi, hour):
    """The lists (B, K) of this hour."""
    hidden = ~world.exists_I(hour) | world.consumed_UI[users]
    if policy.old_only:
        hidden = hidden | (world.created_I >= 0)
    if policy.kind == "oracle":
        value = world.attraction(users, hour)
    elif popular is not None:
        clicks_I, looks_I = popular
        mean = clicks_I.sum() / looks_I.sum()
        value = ((clicks_I + SHRINK * mean) / (looks_I + SHRINK)).expand(len(users), -1)
    else:
        value = _scores(world, policy, model, phi, hour, world.generator(7, hour))
    return value.masked_fill(hidden, -torch.inf).topk(SLATE).indices


def _scores(world, policy, model, phi, hour, luck):
    told = policy.time_factor * (world.created_I.double() + EPOCH_HOURS) - EPOCH_HOURS
    cold = item_network.is_cold(told, hour, policy.cutoff_days, world.exists_I(hour))
    wide = replace(model.known, covariance_IPP=policy.doubt**2 * model.known.covariance_IPP)
    return item_network.scores(wide, phi, policy.weight, cold, luck)


def _updated(model, phi, lists, policy, created_I):
    lists, rows = as_sent(lists, policy.sends)
    if policy.draws:
        lists = item_network.with_drawn(lists, created_I, int(lists.hour_S[:1].sum()))
    return replace(
        model, known=item_network.read_lists(model.known, model.net, phi[rows], lists)
    )


@torch.no_grad()
def _read_clicks(model, users, items, clicks):
    """Every click moves its user's state at once, update or not: events are for that."""
    for place in range(items.shape[1]):
        rows = clicks[:, place]
        if rows.any():
            who = users[rows]
            clicked = model.known.mean_IP[items[rows, place]]
            model.state_UP[who] = model.net.step(model.state_UP[who], clicked)


@torch.no_grad()
def _looks(log, net, items):
    """(2, I): the clicks and the expected looks of each item."""
    shown, found = log.items_SK >= 0, torch.zeros(2, items, device=log.user_S.device)
    values = log.clicks_SK[shown].float(), net.examined(log.position_SK)[shown]
    return found.index_add_(1, log.items_SK[shown], torch.stack(values))


def regret(outcome, oracle):
    """The share of the expected clicks of the oracle's own run that was lost."""
    return 1 - float(outcome.expected_H.sum() / oracle.expected_H.sum())


@torch.no_grad()
def surprise(world, model):
    """(mean, deviation) of how far the true logits of all users and new items lie from what the
    model expects, in units of its doubt: 0 and 1, were it right."""
    new = world.created_I >= 0
    truth = world.base + world.tastes_UD @ world.latent_ID[new].T + world.quality_I[new]
    state, doubt = model.state_UP, model.known.covariance_IPP[new]
    variance = torch.einsum("bp,ipq,bq->bi", state, doubt, state)
    found = (truth - state @ model.known.mean_IP[new].T) / variance.sqrt()
    return float(found.mean()), float(found.std())


@torch.no_grad()
def last_lists(world, model, policy, hour):
    """{"ndcg", "coverage"} of everybody's ten at this hour: what they would earn by true
    chances over what the best ten would, and the share of the items that stand in any of them.
    What this world remembers as clicked is left out: give all policies the same one."""
    users = torch.arange(world.users, device=world.created_I.device)
    chance, looks = world.attraction(users, hour), click_world.examination(SLATE, users.device)
    hidden = (chance == 0) | (world.created_I >= 0) & policy.old_only
    found = _scores(world, policy, model, model.state_UP, hour, world.generator(9))
    items = found.masked_fill(hidden, -torch.inf).topk(SLATE).indices
    earned = (chance.gather(1, items) * looks).sum(1)
    best = (chance.topk(SLATE).values * looks).sum(1)
    covered = len(torch.unique(items)) / int(world.exists_I(hour).sum())
    return {"ndcg": float((earned / best).mean()), "coverage": covered}


def gini(shown_I):
    """How unequally the places of a period went to the items: 0 is all alike.

    >>> gini(torch.tensor([0.0, 0.0, 0.0, 4.0]))
    0.75
    """
    sorted_I, count = shown_I.double().sort().values, len(shown_I)
    if not sorted_I.sum() > 0:
        raise ValueError("nothing was shown, so shares have no meaning")
    rank = torch.arange(1, count + 1, dtype=torch.float64)
    return float(((2 * rank - count - 1) * sorted_I).sum() / (count * sorted_I.sum()))


def discovery(world, outcome, hours, best=0.2):
    """(share found, finds for each 1,000 item-hours of waiting) of the best new items.

    New are items that came at hour 0 or later, best the `best` share by true chance over all
    users; found is the fifth click. What is not found has waited to the end: a rate counts it.
    Half a find is added, so that none is a small number and not zero.
    """
    new = (world.created_I >= 0).nonzero()[:, 0]
    taste = world.tastes_UD @ world.latent_ID[new].T
    chance = torch.sigmoid(world.base + taste + world.quality_I[new]).mean(0)
    good = new[chance.topk(max(int(best * len(new)), 1)).indices].cpu()
    waited = outcome.found_I[good].clamp(max=hours) - world.created_I.cpu()[good]
    found = outcome.found_I[good].isfinite()
    rate = 1000 * (found.sum() + 0.5) / waited.clamp(min=0.5).sum()
    return float(found.float().mean()), float(rate)
