"""Users, films and clicks with a known truth: the world in which every policy is tried.

The model, all of it our own choice: a user u and an item i have D latent numbers each. An
item's are those of its genres, which the catalogue shows, and a rest that it does not show. Who
examines an item is attracted with chance

    attraction(u, i, t) = sigmoid(base + u·i + quality_i - ageing min(age_i(t), 30 days)),

and place k is examined with chance 1 / k^0.6, whatever stands there: a click needs both (the
position-based model, Richardson et al. 2007). What a user has clicked attracts that user no
more. Items come at known hours; hour 0 is where the history ends.

U users, I items, G genres, D latent numbers, B requests, K positions, S slates.
"""

from dataclasses import dataclass, replace

import torch
from service_requests import need

DAY = 24.0  # hours
SLATE = 10  # items in a list
UNKNOWN = -1  # an item that is not there, or a position that nobody recorded


@dataclass
class SlateLog:
    """What was shown to whom, in which order, and clicked: one row a list."""

    user_S: torch.Tensor
    hour_S: torch.Tensor
    items_SK: torch.Tensor  # UNKNOWN where the list is shorter
    position_SK: torch.Tensor  # 0 is on top; UNKNOWN where it was not recorded
    clicks_SK: torch.Tensor  # bool

    def __len__(self):
        return len(self.user_S)

    def rows(self, index):
        """The log of these rows (an index or a mask)."""
        return SlateLog(*(value[index] for value in vars(self).values()))


@dataclass
class World:
    """The truth (tastes, qualities, times), what the catalogue shows, who has clicked what."""

    seed: int
    tastes_UD: torch.Tensor
    latent_ID: torch.Tensor
    quality_I: torch.Tensor
    genres_IG: torch.Tensor  # float, 0 or 1: what the catalogue shows
    created_I: torch.Tensor  # in hours; below 0 before the history ends
    ageing: float
    consumed_UI: torch.Tensor
    base: float = -2.6

    @property
    def users(self):
        return len(self.tastes_UD)

    @property
    def items(self):
        return len(self.latent_ID)

    def exists_I(self, hour):
        """Which items are in the catalogue at this hour."""
        return self.created_I <= hour

    def attraction(self, users_B, hour):
        """(B, I): the chance of a click on examining each item; 0 once clicked or not there."""
        taste = self.tastes_UD[users_B] @ self.latent_ID.T
        old = self.ageing * ((hour - self.created_I) / DAY).clamp(0, 30)
        chance = torch.sigmoid(self.base + taste + self.quality_I - old)
        return chance * (self.exists_I(hour) & ~self.consumed_UI[users_B])

    def generator(self, *what):
        """Random numbers of the world's seed and these numbers alone: policies share them."""
        number = self.seed
        for part in what:
            number = (number * 1_000_003 + int(part) + 1) % (2**62)
        return torch.Generator(self.tastes_UD.device).manual_seed(number)

    def requests(self, hour, count):
        """The users who come in this hour, the same ones under every policy."""
        return self.shuffled(self.generator(1, hour), self.users)[:count]

    def shuffled(self, luck, count):
        """The numbers below `count` in an order drawn by luck."""
        return torch.randperm(count, generator=luck, device=self.tastes_UD.device)

    def show(self, users_B, items_BK, hour):
        """The users' clicks (B, K) on these lists; they are remembered.

        The luck belongs to (hour, user, item) and (hour, user, place), not to the policy: two
        policies that show one user one item at one place in one hour get the same answer.
        """
        attraction = self.attraction(users_B, hour).gather(1, items_BK)
        luck, device = self.generator(2, hour), self.tastes_UD.device
        drawn = torch.rand(len(users_B), self.items, generator=luck, device=device)
        looks = torch.rand(items_BK.shape, generator=luck, device=device)
        looked = looks < examination(items_BK.shape[1], device)
        clicks = looked & (drawn.gather(1, items_BK) < attraction)
        user, place = clicks.nonzero(as_tuple=True)
        self.consumed_UI[users_B[user], items_BK[user, place]] = True
        return clicks

    def expected(self, users_B, items_BK, hour):
        """The chance of a click (B, K) for each place of these lists."""
        chances = self.attraction(users_B, hour).gather(1, items_BK)
        return chances * examination(items_BK.shape[1], chances.device)


def examination(places, device=None):
    """The chance that a user looks at each of so many places: 1 / k^0.6 for k = 1, 2, …"""
    return torch.arange(1, places + 1, device=device, dtype=torch.float32) ** -0.6


def draw(
    seed, users=600, warm=1740, cold=191, each_day=24, days=8, *, ageing=0.0, youngest=35.0,
    known=0.7, latent=8, genres=18, device="cpu",
):  # fmt: skip
    """A new world: items with a past of `youngest` to 400 days, items that come at hour 0, and
    some in each day, evenly.

    `known` is the share of variance in what users like of an item that its genres tell.

    >>> draw(0, users=5, warm=20, cold=3, each_day=2, days=2).items
    27
    """
    sizes = {"users": users, "warm": warm, "latent": latent, "genres": genres}
    for name, value in sizes.items():
        need(value >= 1, f"{name} must be 1 or more to make a world, not {value}")
    need(0 <= known <= 1, f"known must lie in 0 to 1, a share of variance, not {known}")
    luck, new = torch.Generator().manual_seed(seed), each_day * days
    count = warm + cold + new
    genres_IG = torch.zeros(count, genres)
    order = torch.rand(count, genres, generator=luck).argsort(1)
    many = torch.randint(1, 4, (count,), generator=luck).clamp(max=genres)
    genres_IG.scatter_(1, order, (torch.arange(genres) < many[:, None]).float())
    told = genres_IG @ torch.randn(genres, latent, generator=luck)
    own = (1 - known) ** 0.5 * torch.randn(count, latent, generator=luck)
    latent_ID = (known**0.5 * told / told.std() + own) * 1.5 / latent**0.5
    before = -DAY * (youngest + (400 - youngest) * torch.rand(warm, generator=luck))
    later = torch.arange(new) * DAY * days / max(new, 1)
    created = torch.cat([before, torch.zeros(cold), later])
    tastes = torch.randn(users, latent, generator=luck)
    quality = 0.8 * torch.randn(count, generator=luck)
    fields = (field.to(device) for field in (tastes, latent_ID, quality, genres_IG, created))
    nothing = torch.zeros(users, count, dtype=torch.bool, device=device)
    return World(seed, *fields, ageing, nothing)


def history(world, days=14, visits=2, quality=0.5):
    """The log before hour 0, and the world remembers its clicks.

    An older recommender of middling quality made the lists: ten of the items that were there,
    drawn without return with odds exp(quality x true logit) (Plackett-Luce, by Gumbel noise).
    """
    found, device = [], world.tastes_UD.device
    for visit in range(days * visits):
        hour = -DAY * days + DAY * visit / visits
        users = world.shuffled(world.generator(3, visit), world.users)
        chance = world.attraction(users, hour).double().clamp(1e-9, 1 - 1e-9)
        luck, kind = world.generator(4, visit), {"device": device, "dtype": torch.float64}
        noise = torch.rand(chance.shape, generator=luck, **kind).clamp(1e-12, 1 - 1e-12)
        odds = quality * torch.logit(chance) - torch.log(-torch.log(noise))
        hidden = ~world.exists_I(hour) | world.consumed_UI[users]
        items = odds.masked_fill(hidden, -torch.inf).topk(SLATE).indices
        found.append(slates(users, hour, items, world.show(users, items, hour)))
    return join(found)


def slates(users_B, hour, items_BK, clicks_BK):
    """The log of lists that were shown in one hour, positions as shown."""
    place = torch.arange(items_BK.shape[1], device=items_BK.device).expand_as(items_BK)
    hours = torch.full_like(users_B, hour, dtype=torch.float32)
    return SlateLog(users_B, hours, items_BK, place, clicks_BK)


def join(logs):
    """One log of several, in their order."""
    columns = zip(*(vars(log).values() for log in logs), strict=True)
    return SlateLog(*map(torch.cat, columns))


def noisy_genres(world, share):
    """(I, G): the catalogue with this share of its items' genres taken from another item."""
    luck, device = world.generator(5), world.tastes_UD.device
    wrong = torch.rand(world.items, generator=luck, device=device) < share
    others = world.genres_IG[world.shuffled(luck, world.items)]
    return torch.where(wrong[:, None], others, world.genres_IG)


def as_sent(log, sends="all"):
    """(what a service is sent of a log, the list of each row): "all", "no places", "lists with
    a click" alone, or "clicks" without their lists, one a row."""
    rows = torch.arange(len(log), device=log.user_S.device)
    if sends == "all":
        return log, rows
    if sends == "no places":
        return replace(log, position_SK=torch.full_like(log.position_SK, UNKNOWN)), rows
    if sends == "lists with a click":
        rows = log.clicks_SK.any(1).nonzero()[:, 0]
        return log.rows(rows), rows
    need(sends == "clicks", f"nobody sends {sends!r}")
    row, place = log.clicks_SK.nonzero(as_tuple=True)
    items = log.items_SK[row, place][:, None]
    nowhere, yes = torch.full_like(items, UNKNOWN), torch.ones_like(items, dtype=torch.bool)
    return SlateLog(log.user_S[row], log.hour_S[row], items, nowhere, yes), row
