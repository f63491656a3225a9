"""The pages, ads and readers behind a drawn click log: what does not depend on a display.

Popularities follow Zipf's law. The numbers of ads, documents and readers grow as a power below
one of the displays (Heaps' law), scaled so that 16,874,593 displays have 478,950 ads, as in the
real training log; all other sizes are our choice. A document has up to six topics, of one
category mostly. An ad's quality has a part of its advertiser, a part of its campaign and a part
of its own, so that click rates at every level say something.

Shapes: `D` documents, `A` ads, `T` topics a document has at most.
"""

from dataclasses import dataclass, fields

import numpy as np

from .schemas import DAY_MS

DAYS = 13  # of the training log, counted from 0
REAL_DISPLAYS, REAL_ADS = 16_874_593, 478_950
TOPICS, CATEGORIES, TOPICS_A_DOCUMENT, SEGMENTS = 300, 97, 6, 32
_US = "CA TX NY FL PA IL OH GA NC MI NJ VA WA MA AZ TN IN MO MD WI MN CO AL SC LA KY OR OK CT"
_US = (_US + " IA UT NV AR MS KS NM NE ID WV HI NH ME RI MT DE SD AK ND DC VT WY").split()
_ABROAD = "CA GB AU IN DE ZA PH SG NZ MY MX FR IE NL IT ES PK BR AE SE JP TH KE NO PL"
_ABROAD = _ABROAD.split(" ")


@dataclass(frozen=True)
class Effects:
    """How strong each term of u is: deviations of normal effects, and factors of the rest."""

    advertiser: float = 0.35
    campaign: float = 0.35
    ad: float = 0.55
    match: float = 1.6
    age: float = 0.2
    platform: float = 0.35
    state: float = 0.3
    hour: float = 0.25
    segment: float = 0.3
    site: float = 0.4
    position: float = 0.35

    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 <= value < np.inf:
                raise ValueError(f"effect {field.name} is {value}; allowed are 0 and above")


@dataclass(frozen=True)
class Documents:
    """Pages, then the ads' landing pages. An index i is document_id `ids[i]` in the files."""

    ids: np.ndarray  # (D,) int32
    topics_DT: np.ndarray  # int16, the main topic first
    weights_DT: np.ndarray  # float32, 0 for no topic; rows of length 1
    category: np.ndarray  # (D,) int16, that of the main topic
    published_ms: np.ndarray  # (D,) int64, relative as the log's timestamps
    source: np.ndarray  # (D,) int32
    publisher: np.ndarray  # (D,) int32
    pages: int  # so many come first


@dataclass(frozen=True)
class Ads:
    """All arrays (A,), sorted by the main topic of the landing page."""

    ids: np.ndarray
    document: np.ndarray  # index into Documents
    campaign: np.ndarray
    advertiser: np.ndarray
    quality: np.ndarray  # float32
    first_ms: np.ndarray  # not shown before
    cumulated: np.ndarray  # float64, running sum of popularity
    topic_edges: np.ndarray  # (TOPICS + 1,) of that sum


@dataclass(frozen=True)
class Catalogue:
    """Everything that does not depend on a display; `tables` holds the effects by category."""

    displays: int
    seed: int
    effects: Effects
    documents: Documents
    ads: Ads
    tables: dict
    topic_category: np.ndarray
    places: tuple  # geo_location strings
    place_state: np.ndarray
    place_shares: np.ndarray


def heaps(displays, at_real, power=0.7):
    """How many different things so many displays show: `at_real` at the real log's size.

    >>> heaps(60_000, 478_950), heaps(16_874_593, 478_950)
    (9266, 478950)
    """
    return max(2, round(at_real * (displays / REAL_DISPLAYS) ** power))


def catalogue(displays, seed=0, effects=None):
    """The Catalogue of a log with so many displays; the same for the same arguments.

    Raises ValueError for less than one display.
    """
    if displays < 1:
        raise ValueError(f"{displays} displays; at least 1 is needed")
    rng = np.random.default_rng([seed, 0])
    effects = effects or Effects()
    topic_category = rng.permutation(np.arange(TOPICS) % CATEGORIES).astype(np.int16)
    n_ads = heaps(displays, REAL_ADS)
    n_advertisers = max(2, n_ads // 60)
    ad_advertiser = zipf_draws(rng, n_ads, n_advertisers, 0.8).astype(np.int32)
    documents, landing = _documents(rng, displays, ad_advertiser, topic_category)
    ads = _ads(rng, effects, documents, landing, ad_advertiser)
    places, state, shares = _places()
    kinds = {"platform": 3, "state": state.max() + 1, "hour": 24, "segment": SEGMENTS}
    tables = {
        name: getattr(effects, name) * rng.standard_normal((count, CATEGORIES))
        for name, count in kinds.items()
    }
    for name, count in (("site", documents.source.max() + 1), ("advertiser", n_advertisers)):
        tables[name] = np.sqrt(effects.site) * rng.standard_normal((count, 4)) / np.sqrt(2)
    tables = {name: table.astype(np.float32) for name, table in tables.items()}
    return Catalogue(
        displays, seed, effects, documents, ads, tables, topic_category, places, state, shares
    )


def _documents(rng, displays, ad_advertiser, topic_category):
    """(Documents, landing page of each ad)."""
    n_pages, n_sources = heaps(displays, 715_000), heaps(displays, 9_000, power=0.4)
    per_advertiser = np.bincount(ad_advertiser)
    first = np.cumsum(per_advertiser // 3 + 1) - (per_advertiser // 3 + 1)
    own = first[ad_advertiser] + (
        rng.random(len(ad_advertiser)) * (per_advertiser[ad_advertiser] // 3 + 1)
    ).astype(np.int64)
    n_landing = int(first[-1] + per_advertiser[-1] // 3 + 1)
    owner = np.searchsorted(first, np.arange(n_landing), "right") - 1
    total = n_pages + n_landing
    main = zipf_draws(rng, total, TOPICS, 0.6)
    alike = rng.integers(0, TOPICS // CATEGORIES + 1, (total, TOPICS_A_DOCUMENT))
    by_category = np.argsort(topic_category, kind="stable")
    edge = np.searchsorted(topic_category[by_category], topic_category[main])
    near = by_category[np.minimum(edge[:, None] + alike, TOPICS - 1)]
    far = rng.integers(0, TOPICS, near.shape)
    topics = np.where(rng.random(near.shape) < 0.5, near, far)
    topics[:, 0] = main
    weights = rng.exponential(1, topics.shape) * 0.6 ** np.arange(TOPICS_A_DOCUMENT)
    weights[:, 0] += 1
    weights[np.arange(TOPICS_A_DOCUMENT) >= rng.integers(3, 8, (total, 1))] = 0
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    age_days = np.exp(rng.normal(np.log(40), 1.6, total)).clip(0.05, 3_000)
    page_source = zipf_draws(rng, n_pages, n_sources, 0.9)
    source = np.concatenate([page_source, n_sources + owner])
    publishers = max(2, n_sources // 4)
    return Documents(
        (1 + rng.permutation(total)).astype(np.int32),
        topics.astype(np.int16),
        weights.astype(np.float32),
        topic_category[main],
        (-age_days * DAY_MS).astype(np.int64),
        source.astype(np.int32),
        np.where(source < n_sources, source % publishers, source).astype(np.int32),
        n_pages,
    ), n_pages + own


def _ads(rng, effects, documents, landing, advertiser):
    count = len(landing)
    order = np.argsort(documents.topics_DT[landing, 0], kind="stable")
    landing, advertiser = landing[order], advertiser[order]
    per_campaign = landing // 4  # neighbouring landing pages share a campaign
    campaign = np.unique(per_campaign, return_inverse=True)[1].astype(np.int32)
    quality = effects.ad * rng.standard_normal(count)
    quality += effects.campaign * rng.standard_normal(campaign.max() + 1)[campaign]
    quality += effects.advertiser * rng.standard_normal(advertiser.max() + 1)[advertiser]
    popularity = (1.0 + rng.permutation(count)) ** -0.8
    first_ms = np.where(rng.random(count) < 0.15, rng.random(count) * DAYS * DAY_MS, 0)
    first_ms[:2] = 0
    cumulated = np.cumsum(popularity)
    edges = np.searchsorted(documents.topics_DT[landing, 0], np.arange(TOPICS + 1))
    return Ads(
        (1 + rng.permutation(count)).astype(np.int32),
        landing,
        campaign,
        advertiser,
        quality.astype(np.float32),
        first_ms.astype(np.int64),
        cumulated,
        np.concatenate([[0.0], cumulated])[edges],
    )


def _places():
    """(geo_location strings, the number of each one's state, cumulated shares)."""
    names, states, shares = [], [], []
    for number, state in enumerate(_US):
        for area in range(3):
            names.append(f"US>{state}>{500 + 7 * number + 2 * area}")
            states.append(number)
            shares.append(0.8 / (number + 3) / (area + 1))
    for number, country in enumerate(_ABROAD):
        for region in range(4):
            names.append(f"{country}>{region:02d}" if region else country)
            states.append(len(_US) + 4 * number + region)
            shares.append(0.25 / (number + 3) / (region + 1))
    return tuple(names), np.array(states), np.cumsum(shares) / np.sum(shares)


def zipf_draws(rng, count, kinds, power):
    """`count` draws of 0 ... kinds - 1 with probabilities proportional to rank ** -power."""
    shares = np.cumsum((1.0 + np.arange(kinds)) ** -power)
    return by_share(shares / shares[-1], rng.random(count))


def by_share(cumulated, unit):
    return np.minimum(np.searchsorted(cumulated, unit, "right"), len(cumulated) - 1)
