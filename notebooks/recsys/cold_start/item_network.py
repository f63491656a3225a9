"""The model: a recurrent network over a user's clicks, item vectors from metadata and clicks,
and what is not known of each item.

The service's own algorithm is unpublished; this design is ours. A user who clicked i1 … in is
phi = [h, 1], h the state of a GRU that read these items' vectors. An item's vector is
v_i = tower(genres_i) + offset_i, and a list's place k is examined with chance theta_k:

    P(click on i at place k) = theta_k sigmoid(phi · v_i),     offset_i ~ N(0, prior).

FULL training fits all of it to what was shown and clicked: negatives are what was shown and not
clicked, or drawn where nobody sent what was shown. The offsets are random effects. Around its
fitted value each has a Gaussian posterior (Laplace's approximation) of precision

    A_i = 1 / prior + sum over impressions w phi phi',  w = theta s (1 - s)^2 / (1 - theta s),

with s = sigmoid(phi · v_i): Fisher's information of one impression. An UPDATE leaves network
and tower alone and takes one step of Fisher scoring for the items of the new lists; a click in
no known list moves its user, but no item. Exploration draws phi · v_i from that posterior
(Thompson sampling; Chapelle and Li 2011).

U users, T clicks, P = width + 1 numbers of a state or an item, I items, G genres, S slates,
K places.
"""

from dataclasses import dataclass

import torch
from click_world import SLATE, UNKNOWN, SlateLog
from service_requests import need
from torch import nn
from torch.nn import functional as F

EVIDENCE_STEPS = 15


@dataclass(frozen=True)
class Recipe:
    """How a FULL training goes, for every policy: chosen in two worlds of their own (seeds 1000
    and 1001) by the loss of held-out users alone, before the study."""

    width: int = 16
    steps: int = 150
    rate: float = 0.04
    batch: int = 32  # users in a step
    offset_sd: float = 0.1  # of the offsets' directions, before the data is seen
    bias_sd: float = 0.8  # of their last number, which all users share
    seed: int = 0


class ItemNetwork(nn.Module):
    """States of users, vectors of items, chances of places."""

    def __init__(self, genres_IG, width=16, places=SLATE):
        super().__init__()
        items, genres = genres_IG.shape
        self.register_buffer("genres_IG", genres_IG.float())
        self.tower = nn.Linear(genres, width + 1)
        self.offset_IP = nn.Parameter(torch.zeros(items, width + 1))
        self.gru = nn.GRU(width, width, batch_first=True)
        self.place_K = nn.Parameter(-0.1 * torch.arange(1.0, places))

    def vectors(self):
        """(I, P): the tower's answer to the genres, plus the offset that clicks have taught."""
        return self.tower(self.genres_IG) + self.offset_IP

    def states(self, history_UT, vectors_IP):
        """(U, T + 1, P): each user's state before the first click, after the first, …"""
        width = self.gru.hidden_size
        read = vectors_IP[history_UT.clamp(min=0), :width] * (history_UT >= 0)[..., None]
        h, _ = self.gru(read)
        start = torch.zeros(len(h), 1, width, device=h.device, dtype=h.dtype)
        return with_one(torch.cat([start, h], 1))

    def step(self, state_BP, clicked_BP):
        """The states after one more click each."""
        width = self.gru.hidden_size
        _, h = self.gru(clicked_BP[:, None, :width], state_BP[None, :, :width].contiguous())
        return with_one(h[0])

    def examined(self, position_SK):
        """The chance of a look at each place: 1 on top, and where no position was recorded."""
        theta = torch.cat([self.place_K.new_ones(1), torch.sigmoid(self.place_K)])
        place = position_SK.clamp(0, len(theta) - 1)  # a longer list: as the last that it knows
        return torch.where(position_SK >= 0, theta[place], torch.ones_like(theta[place]))


def with_one(h):
    """[h, 1], the user's side of the product."""
    return torch.cat([h, torch.ones_like(h[..., :1])], -1)


def sequences(log, users):
    """(history (users, T), before (S,)): each user's clicks in order of time, UNKNOWN after the
    last, and how many came before each list. Lists of one hour keep the log's order."""
    order = torch.argsort(log.hour_S, stable=True)
    order = order[torch.argsort(log.user_S[order], stable=True)]
    user, clicks = log.user_S[order], log.clicks_SK[order]
    count = clicks.sum(1)
    total = torch.zeros(users, dtype=torch.long, device=user.device).index_add_(0, user, count)
    first = total.cumsum(0) - total
    before_sorted = count.cumsum(0) - count - first[user]
    row, place = clicks.nonzero(as_tuple=True)
    history = torch.full((users, max(int(total.max()), 1)), UNKNOWN, device=user.device)
    column = torch.arange(len(row), device=user.device) - first[user[row]]
    history[user[row], column] = log.items_SK[order][row, place]
    before = torch.empty_like(before_sorted)
    before[order] = before_sorted
    return history, before


def told(log):
    """(S,): of which lists more is known than what was clicked in them."""
    more = ~log.clicks_SK | (log.position_SK >= 0)
    return ((log.items_SK >= 0) & more).any(1)


def with_drawn(log, created_I, seed=0):
    """The log, in which lists of which only clicks are known become of SLATE items: the others
    are drawn evenly from what was there then. A guess: nobody knows what was seen."""
    bare = log.clicks_SK.any(1) & ~told(log)
    more = max(0, SLATE - log.items_SK.shape[1])
    if not bare.any():
        return log
    luck = torch.Generator(log.items_SK.device).manual_seed(seed)
    items, order = F.pad(log.items_SK, (0, more), value=UNKNOWN), created_I.argsort()
    there = torch.searchsorted(created_I[order], log.hour_S.to(created_I), right=True)[:, None]
    drawn = torch.rand(items.shape, generator=luck, device=items.device)
    drawn = order[(drawn * there).long()].masked_fill(there == 0, UNKNOWN)
    own = (drawn[:, :, None] == items[:, None, :]).any(2)
    free = bare[:, None] & (items == UNKNOWN)
    free[:, SLATE:] = False  # where other lists are longer
    items = torch.where(free, drawn.masked_fill(own, UNKNOWN), items)
    position = F.pad(log.position_SK, (0, more), value=UNKNOWN)
    return SlateLog(log.user_S, log.hour_S, items, position, F.pad(log.clicks_SK, (0, more)))


def loss_of(net, log, history_UT, before_S, vectors_IP, rows):
    """(negative log-likelihood, number of impressions) of these rows of the log."""
    users, local = torch.unique(log.user_S[rows], return_inverse=True)
    phi_SP = net.states(history_UT[users], vectors_IP)[local, before_S[rows]]
    items_SK = log.items_SK[rows]
    logit = torch.einsum("sp,skp->sk", phi_SP, vectors_IP[items_SK.clamp(min=0)])
    log_chance = F.logsigmoid(logit) + net.examined(log.position_SK[rows]).log()
    missed = torch.log1p(-log_chance.exp().clamp(max=1 - 1e-6))
    each = torch.where(log.clicks_SK[rows], log_chance, missed) * (items_SK >= 0)
    return -each.sum(), int((items_SK >= 0).sum())


def train(log, genres_IG, users, recipe=None):
    """An ItemNetwork trained from nothing on the whole log. Every user is in one step before
    anyone is in a second. Raises ValueError for an empty log."""
    recipe, device = recipe or Recipe(), log.user_S.device
    need(len(log), "the log holds no list to train on; 1 or more are needed")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        net = ItemNetwork(genres_IG.cpu(), recipe.width).to(device)
    history, before = sequences(log, users)
    scale, shown = prior_sd(net, recipe), int((log.items_SK >= 0).sum())
    optimiser = torch.optim.Adam(net.parameters(), recipe.rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda n: 1 - n / recipe.steps)
    luck, batches = torch.Generator().manual_seed(recipe.seed), []
    while len(batches) < recipe.steps:
        batches += torch.randperm(users, generator=luck).split(recipe.batch)
    for users_B in batches[: recipe.steps]:
        chosen = torch.zeros(users, dtype=torch.bool)
        chosen[users_B] = True
        rows = chosen.to(device)[log.user_S]
        if not rows.any():
            continue
        nll, count = loss_of(net, log, history, before, net.vectors(), rows)
        prior = ((net.offset_IP / scale) ** 2).sum() / 2
        optimiser.zero_grad()
        (nll / count + prior / shown).backward()
        optimiser.step()
        schedule.step()
    return net.eval()


def learned(log, genres_IG, created_I, users, recipe=None):
    """(network, beliefs) of a FULL training; `created_I` are the hours when items came."""
    recipe = recipe or Recipe()
    log = with_drawn(log, created_I, recipe.seed)
    net = train(log, genres_IG, users, recipe)
    return net, beliefs(net, log, users, recipe)


def prior_sd(net, recipe):
    """(P,): the offsets' standard deviations before data."""
    scale = torch.full_like(net.offset_IP[0], recipe.offset_sd)
    scale[-1] = recipe.bias_sd
    return scale


@dataclass(frozen=True)
class Beliefs:
    """What is known of the items' vectors: a Gaussian for each."""

    mean_IP: torch.Tensor
    precision_IPP: torch.Tensor
    covariance_IPP: torch.Tensor
    prior_P: torch.Tensor  # variances where only metadata is known


@torch.no_grad()
def beliefs(net, log, users, recipe=None):
    """The posterior of all items around a trained network, with the prior estimated anew.

    Around its vector an item's log-likelihood is about that of a normal with information I and
    the score's slope, so from the tower its offset is pulled by I offset + score. The prior's
    variances are those under which the offsets of shown items are likeliest (MacKay's fixed
    point for the evidence): how wrong metadata usually is.
    """
    history, before = sequences(log, users)
    vectors = net.vectors()
    phi_SP = net.states(history, vectors)[log.user_S, before]
    zero = torch.zeros(*vectors.shape, vectors.shape[1], device=vectors.device)
    shown = log.items_SK, net.examined(log.position_SK), log.clicks_SK
    information, score = evidence(vectors, phi_SP, *shown, zero)
    pull = (information @ net.offset_IP[..., None])[..., 0] + score
    seen = torch.diagonal(information, dim1=1, dim2=2)[:, -1] > 0
    variance = prior_sd(net, recipe or Recipe()) ** 2
    for _ in range(EVIDENCE_STEPS):
        covariance = torch.linalg.inv(information + torch.diag(1 / variance))
        offset = torch.einsum("ipq,iq->ip", covariance, pull)
        known = 1 - torch.diagonal(covariance, dim1=1, dim2=2) / variance
        found = (offset**2)[seen].sum(0) / known[seen].sum(0).clamp(min=1e-6)
        variance = found.clamp(min=1e-4, max=9)
    precision = information + torch.diag(1 / variance)
    covariance = torch.linalg.inv(precision)
    mean = net.tower(net.genres_IG) + torch.einsum("ipq,iq->ip", covariance, pull)
    return Beliefs(mean, precision, covariance, variance)


def evidence(mean_IP, phi_SP, items_SK, theta_SK, clicks_SK, information_IPP):
    """(Fisher's information added to what is given, the score) of these impressions by item."""
    shown = items_SK >= 0
    row = shown.nonzero()[:, 0]
    item, theta, click = items_SK[shown], theta_SK[shown], clicks_SK[shown].float()
    phi = phi_SP[row]
    chance = torch.sigmoid((phi * mean_IP[item]).sum(1))
    missed = (1 - theta * chance).clamp(min=1e-6)
    weight = theta * chance * (1 - chance) ** 2 / missed
    slope = (click - theta * chance) * (1 - chance) / missed
    score = torch.zeros_like(mean_IP).index_add_(0, item, slope[:, None] * phi)
    for part in range(0, len(item), 20_000):  # all at once: hundreds of MB
        of = slice(part, part + 20_000)
        outer = (weight[of, None] * phi[of])[:, :, None] * phi[of, None, :]
        information_IPP.index_add_(0, item[of], outer)
    return information_IPP, score


@torch.no_grad()
def update(known, phi_SP, items_SK, theta_SK, clicks_SK):
    """New beliefs after these impressions: one step of Fisher scoring for the items shown."""
    items = torch.unique(items_SK[items_SK >= 0])
    if not len(items):
        return known
    shown, before = (phi_SP, items_SK, theta_SK, clicks_SK), known.precision_IPP.clone()
    precision, score = evidence(known.mean_IP, *shown, before)
    mean, covariance = known.mean_IP.clone(), known.covariance_IPP.clone()
    covariance[items] = torch.linalg.inv(precision[items])
    mean[items] += torch.einsum("ipq,iq->ip", covariance[items], score[items])
    return Beliefs(mean, precision, covariance, known.prior_P)


@torch.no_grad()
def read_lists(known, net, phi_SP, log):
    """New beliefs after an UPDATE that reads these lists, each with its user's state then."""
    kept = told(log)
    log, phi = log.rows(kept), phi_SP[kept]
    return update(known, phi, log.items_SK, net.examined(log.position_SK), log.clicks_SK)


@torch.no_grad()
def scores(known, phi_BP, weight=0.0, cold_I=None, generator=None):
    """(B, I) logits to rank by: the posterior's mean, and for the items of the mask `cold_I`
    `weight` times one draw's deviation from it. Weight 1 is Thompson sampling."""
    need(0 <= weight <= 1, f"the exploration weight must lie in 0 to 1, not {weight}")
    found = phi_BP @ known.mean_IP.T
    if weight == 0 or cold_I is None or not cold_I.any():
        return found
    cold = cold_I.nonzero()[:, 0]
    variance = torch.einsum("bp,ipq,bq->bi", phi_BP, known.covariance_IPP[cold], phi_BP)
    noise = torch.randn(variance.shape, generator=generator, device=variance.device)
    return found.index_add(1, cold, weight * variance.clamp(min=0).sqrt() * noise)


def is_cold(created_I, now, cutoff_days, exists_I=None):
    """Which items exploration may lift: younger than the cut-off at `now` (hours, as
    created_I); an item exactly at the cut-off is too old."""
    need(cutoff_days > 0, f"the cut-off age must be above 0 days, not {cutoff_days}")
    young = (now - created_I) / 24.0 < cutoff_days
    return young if exists_I is None else young & exists_I
