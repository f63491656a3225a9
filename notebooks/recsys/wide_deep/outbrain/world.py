"""A latent world of pages, ads and readers, from which Outbrain-like click logs are drawn.

In a display with ads j = 1 ... J exactly one ad is clicked (so it is in the real log), by a
conditional logit (McFadden 1974):

    P(click j) = exp(u_j) / sum_k exp(u_k)
    u_j = quality(ad, its campaign, its advertiser)      what click rates can learn
        + match * cos(topics of page, topics of ad)      what similarities can learn
        - age * ln(1 + days since the ad's page appeared)
        + tables[platform, state, hour, segment of readers][category of the ad's page]
        + <site vector, advertiser vector>               which sites suit which advertisers
        - position * ln(position on the page)            never written to a file

The first five lines are the ad's *appeal*. Positions are drawn at random, so ranking by appeal
is the best that anyone can do who does not know them. Their bias follows Craswell et al. 2008
in spirit: odds fall as a power of it. A display has 5.16 ads on average, as in the real log.

Shapes: `N` displays of a chunk, `R` their rows (one an ad).
"""

from dataclasses import dataclass

import numpy as np

from .catalogue import DAYS, SEGMENTS, TOPICS_A_DOCUMENT, by_share, zipf_draws
from .schemas import DAY_MS

SEEN = ("quality", "match", "age", "platform", "state", "site")  # terms some feature tells of
CHUNK = 50_000  # displays drawn at once: bounds memory, and is part of what a seed means
SPARE = 6  # slots beyond a display's size, for repeated and inactive ads
_SIZES = np.arange(2, 13)
_SIZE_SHARES = np.array([10, 13, 26, 12, 17, 6, 6, 4, 3, 1, 2]) / 100  # mean 5.16
# traffic by hour in New York: quiet nights, a long day, a second peak after dinner
_HOURS = np.array([5, 4, 3, 2, 2, 3, 5, 7, 8, 9, 9, 9, 10, 9, 9, 9, 9, 9, 9, 10, 11, 11, 10, 8])


@dataclass(frozen=True)
class Displays:
    """A chunk of displays: (N,) arrays of each display, (R,) arrays of each ad shown.

    Rows are sorted by display and ad_id, as in the real files; `size` says how many each has.
    """

    display_id: np.ndarray
    user: np.ndarray  # uint64, written as 14 hexadecimal digits
    page: np.ndarray
    timestamp_ms: np.ndarray
    platform: np.ndarray
    place: np.ndarray
    size: np.ndarray
    ad: np.ndarray  # (R,) index into Ads, as all below
    position: np.ndarray
    appeal: np.ndarray
    probability: np.ndarray
    clicked: np.ndarray
    terms: dict  # what each line of u adds, the position's aside, by the name in Effects


def chunks(world):
    """The Displays of a Catalogue, `CHUNK` at a time, in the order of time."""
    for number in range(-(-world.displays // CHUNK)):
        yield draw(world, number)


def draw(world, number):
    """The Displays of one chunk; its random numbers are its own, so any may be drawn first."""
    rng = np.random.default_rng([world.seed, 1, number])
    first = number * CHUNK
    count = min(CHUNK, world.displays - first)
    when = _timestamps(rng, first, count, world.displays)
    readers = max(2, round(2 * world.displays**0.95))
    user = splitmix64((readers * rng.random(count) ** 1.3).astype(np.uint64), world.seed)
    place = by_share(world.place_shares, _unit(user, 1))
    main = np.searchsorted([0.45, 0.88], _unit(user, 2))  # desktop, mobile, tablet
    platform = np.where(rng.random(count) < 0.9, main, rng.integers(0, 3, count))
    documents = world.documents
    page = zipf_draws(rng, count, documents.pages, 0.7)
    size = rng.choice(_SIZES, count, p=_SIZE_SHARES)
    of, ad, position = _shown(rng, world, page, when, size)
    seen = {"platform": platform, "state": world.place_state[place]}
    seen |= {"hour": when // 3_600_000 % 24, "segment": (user >> np.uint64(7)) % SEGMENTS}
    seen = {name: at[of] for name, at in seen.items()}
    terms = _terms(world, seen, page[of], when[of], ad)
    appeal = sum(terms.values())
    score = appeal - world.effects.position * np.log(position)
    starts = np.flatnonzero(np.diff(of, prepend=-1))
    share = np.exp(score - np.maximum.reduceat(score, starts)[of])
    share /= np.add.reduceat(share, starts)[of]
    race = score + rng.gumbel(size=len(score))  # the largest wins: exactly the logit's shares
    return Displays(
        np.arange(first + 1, first + count + 1),
        user,
        page,
        when,
        platform + 1,
        place,
        np.diff(starts, append=len(of)),
        ad,
        position.astype(np.int8),
        appeal.astype(np.float32),
        share.astype(np.float32),
        (race == np.maximum.reduceat(race, starts)[of]).astype(np.int8),
        terms,
    )


def splitmix64(values, seed=0):
    """uint64 numbers mixed into others, one to one (Steele, Lea and Flood 2014).

    >>> hex(splitmix64(np.array([0], dtype=np.uint64))[0])
    '0xe220a8397b1dcdaf'
    """
    with np.errstate(over="ignore"):
        x = np.asarray(values, np.uint64) + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 % 2**64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _terms(world, seen, page, when, ad):
    """The summands of u without the position, by name, float64 of shape (R,)."""
    documents, ads, effects = world.documents, world.ads, world.effects
    target = ads.document[ad]
    category = documents.category[target]
    same = documents.topics_DT[page][:, :, None] == documents.topics_DT[target][:, None, :]
    cosine = np.einsum(
        "ri,rij,rj->r", documents.weights_DT[page], same, documents.weights_DT[target]
    )
    days = np.maximum(0, when - documents.published_ms[target]) / DAY_MS
    site = world.tables["site"][documents.source[page]]
    terms = {name: world.tables[name][at, category] for name, at in seen.items()}
    terms["quality"], terms["match"] = ads.quality[ad], effects.match * cosine
    terms["age"] = -effects.age * np.log1p(days)
    terms["site"] = (site * world.tables["advertiser"][ads.advertiser[ad]]).sum(1)
    return terms


def _shown(rng, world, page, when, size):
    """(display, ad, position) of each row, by display and ad_id; no ad comes twice in one.

    Half of the slots look for ads on a topic of the page, the others for popular ads. Repeated
    ads and those that have not begun make room for spare slots; the last two, always active,
    see to it that each display has two ads at least.
    """
    ads, documents = world.ads, world.documents
    slots = size + SPARE
    of = np.repeat(np.arange(len(page)), slots)
    slot = np.arange(len(of)) - np.repeat(np.cumsum(slots) - slots, slots)
    weights = np.cumsum(documents.weights_DT[page] ** 2, axis=1)[of]
    pick = (rng.random((len(of), 1)) * weights[:, -1:] > weights).sum(1)
    topic = documents.topics_DT[page[of], np.minimum(pick, TOPICS_A_DOCUMENT - 1)]
    low, high = ads.topic_edges[topic], ads.topic_edges[topic + 1]
    wide = (rng.random(len(of)) < 0.5) | (high <= low)
    low, high = np.where(wide, 0, low), np.where(wide, ads.cumulated[-1], high)
    ad = np.searchsorted(ads.cumulated, low + rng.random(len(of)) * (high - low), "right")
    ad = np.minimum(ad, len(ads.ids) - 1)
    last = np.repeat(slots, slots) - slot  # 1 and 2: the two that are always active
    always = np.flatnonzero(ads.first_ms == 0)[:2]
    ad = np.where(last <= 2, always[last % 2], ad)
    order = np.lexsort((slot, ad, of))
    new = np.diff(of[order].astype(np.int64) * len(ads.ids) + ad[order], prepend=-1) != 0
    good = order[new & (ads.first_ms[ad[order]] <= when[of[order]])]
    good.sort()
    turn = np.arange(len(good)) - np.searchsorted(of[good], of[good])
    good = good[turn < size[of[good]]]
    shuffled = np.lexsort((rng.random(len(good)), of[good]))  # repeats had moved some forward
    position = np.empty(len(good), np.int64)
    position[shuffled] = 1 + np.arange(len(good)) - np.searchsorted(of[good], of[good])
    order = np.lexsort((ads.ids[ad[good]], of[good]))
    return of[good][order], ad[good][order], position[order]


def _timestamps(rng, first, count, total):
    """Sorted milliseconds of displays `first` to `first + count` of `total`, int64.

    A non-homogeneous Poisson process whose rate follows the hour: given the number of displays,
    their times are sorted draws from the rate; each chunk draws from its own stretch of it.
    """
    edges = np.concatenate([[0], np.cumsum(np.tile(_HOURS, DAYS))]).astype(float)
    shares = (first + np.sort(rng.random(count)) * count) / total
    hours = np.interp(shares * edges[-1], edges, np.arange(len(edges)))
    return np.minimum(hours * 3_600_000, DAYS * DAY_MS - 1).astype(np.int64)


def _unit(user, stream):
    return (splitmix64(user, stream) >> np.uint64(11)).astype(float) * 2.0**-53
