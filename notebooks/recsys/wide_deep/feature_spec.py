"""What the features of a shown ad are: one source of truth for every engine that makes them.

Article: "Accelerating the Wide & Deep Model Workflow from 25 Hours to 10 Minutes Using NVIDIA
GPUs" (NVIDIA Technical Blog, 2021), which speaks of 13 categorical and 13 numerical features;
its repository, later, of 16 categorical ones, three of them with several values, and so do we.
It says seven click rates; its code has six, and so do we.

- **split**: displays of the first eleven days go to training, all but a fifth of them; that
  fifth and the last two days to validation. A display is never torn apart;
- **fills**: no platform is platform 1. A page without source or publisher gets one of its own,
  so that the unknown do not look alike. No place is place 0;
- **days**: whole days from publication to display; out of 0 to 3650 counts as 0, and unknown as
  the median of training;
- **click rates**: clicks over views of a key, in training alone; 0 below `least` views;
- **similarities**: cosine of page and ad's page, a component an attribute: confidence times
  ln(documents / documents that have it);
- **counts and days**: ln(1 + x), then mean 0 and deviation 1 over training;
- **buckets**: Carter and Wegman (1979), ((a x + b) mod p) mod m with p = 2^31 - 1 and numbers
  a, b of the feature: the same in every engine and process, no overflow in 64 bits. The three
  attributes of an ad's page with most confidence are kept; bucket 0 is an empty slot.

A row's click counts in the click rates of that row: the label leaks into its own features, in
the article's code as here. With `folds` a training row's rates come from the displays of other
folds instead, and the chapter measures what that does.
"""

import random
from dataclasses import dataclass

__all__ = [
    "ATTRIBUTES", "CATEGORIES", "COUNTS", "DAYS", "HOT", "NUMBERS", "PRIME", "RATES", "SLOTS",
    "SIMILARITIES", "Spec", "hashing", "layout",
]  # fmt: skip

PRIME = 2**31 - 1
OWN = 3_000_000_000  # + document_id: the source or publisher of a page that names none
LAST_TRAIN_DAY, TRAIN_SHARE = 10, 80  # days from 0; percent of the displays of those days
DAY_MS, START_MS = 86_400_000, 1_465_876_799_998
MOST_DAYS = 3650
SLOTS = 3
GEO_BYTES = 7  # "US>CA>807" without its marks; more could overflow 64 bits
ENTITY_DIGITS = 13  # hexadecimal digits of an entity's name that make its number

# categorical features in the order of the model's tables
CATEGORIES = (
    "document_id", "ad_id", "document_id_promo", "campaign_id", "source_id", "source_id_promo",
    "geo_location", "advertiser_id", "geo_state", "publisher_id", "publisher_id_promo",
    "geo_country", "platform",
)  # fmt: skip
ATTRIBUTES = {"topic": "topic_id", "entity": "entity_id", "category": "category_id"}
HOT = tuple(f"{name}_{slot}" for name in ATTRIBUTES for slot in range(SLOTS))
RATES = {  # key of a click rate: fewest views
    "ad_id": 5,
    "document_id_promo": 5,
    "publisher_id_promo": 10,
    "source_id_promo": 10,
    "advertiser_id": 10,
    "campaign_id": 10,
}
COUNTS = ("ad_id", "document_id_promo")
DAYS = ("days", "days_promo")
SIMILARITIES = tuple(f"similar_{name}" for name in ATTRIBUTES)
NUMBERS = (
    *(f"{key}_ctr" for key in RATES),
    *(f"{key}_count" for key in COUNTS),
    *DAYS,
    *SIMILARITIES,
)
PUBLISHED = (300_000, 250_000, 100_000, 5000, 4000, 4000, 2500, 2500, 2000, 1000, 1000, 300, 4)
PUBLISHED_HOT = (350, 10_000, 100)


@dataclass(frozen=True)
class Spec:
    """How many buckets each feature has, and whether rates are taken out of fold.

    >>> Spec().buckets[:2], Spec(folds=5).folds
    ((300000, 250000), 5)

    folds: 0, as the article, or at least 2. Raises ValueError for other lengths, fewer than two
    buckets, and other folds.
    """

    buckets: tuple = PUBLISHED
    hot_buckets: tuple = PUBLISHED_HOT
    folds: int = 0

    def __post_init__(self):
        lengths = (len(self.buckets), len(self.hot_buckets))
        if lengths != (len(CATEGORIES), len(ATTRIBUTES)):
            raise ValueError(f"{lengths} bucket counts; 13 and 3 are needed, as in CATEGORIES")
        if min(*self.buckets, *self.hot_buckets) < 2:
            raise ValueError(f"buckets {self.buckets}, {self.hot_buckets}: 2 at least each")
        if self.folds < 0 or self.folds == 1:
            raise ValueError(f"folds={self.folds}: 0 (none), or 2 and more, are allowed")


def hashing(name):
    """(a, b) of the feature or purpose `name`: the same in every process."""
    drawn = random.Random(f"wide_deep {name}")
    return drawn.randrange(1, PRIME), drawn.randrange(PRIME)


def bucket(name, number, count):
    """The bucket of a number of 0 or more, one at a time: what every engine must agree with."""
    a, b = hashing(name)
    return ((number % PRIME) * a + b) % PRIME % count


def layout():
    """The columns' places for `click_files.write`."""
    from click_files import Layout

    return Layout(CATEGORIES, HOT, NUMBERS, SLOTS)
