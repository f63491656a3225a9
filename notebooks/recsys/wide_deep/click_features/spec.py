"""What the features are: names, buckets, thresholds and the hash, for all three engines.

Article: "Accelerating the Wide & Deep Model Workflow from 25 Hours to 10 Minutes Using NVIDIA
GPUs" (NVIDIA Technical Blog, 29 April 2021). It counts 13 categories and 13 numbers, and seven
CTRs; the code published later has three multi-hot features more, and six CTRs, whose buckets,
widths and thresholds these are.

A row is an ad in a display, `display_id`, `ad_id`, `clicked`, and 35 columns:

    CATEGORIES  13 int32, named `<key>_hash`: the bucket of a key (0 is the key of the unknown)
    MULTI_HOT   9 int32, `topic_0` … `category_2`: the page's three of highest confidence (the
                lower key first where equal), bucket 0 where there is none; the key of an
                entity is its first 15 hexadecimal digits, and one without them is left out
    NUMBERS     13 float32, computed in float64 and rounded once:
      sim_*       cosine of page and ad's page, weights confidence · ln(N / df), N = 1 + the
                  largest document_id of the file, df the key's documents; 0 where either has
                  none; of a key that a document has twice the highest confidence counts
      *_ctr       clicks / views of the key in train; 0 below `CTR` views, and for unknown keys
      *_count     log(1 + views in train), less its mean over train rows, by their deviation
      *_age       log(1 + whole days since publication); 0 days outside [0, 3650], the median
                  of train rows where unknown

`in_train` says what train is: displays of day 0 to 10, four in five of them; the rest is valid.
Missing publishers are one each: 1 + largest publisher_id + document_id. A missing platform is
1. Own choices: the hash, folds, what an empty field is hashed as, the number of a missing
publisher, which the code published later takes from its row in the file, and which three of a
page's topics, entities and categories count: that code takes the first three of the file.
"""

import math

import numpy as np
from outbrain import DAY_MS

TRAIN_DAYS = 10  # the last day whose displays may be in train
TRAIN_SHARE = 5  # of these, all but one in so many are
MAX_AGE_DAYS = 3650

BUCKETS = {
    "document_id": 300_000,
    "ad_id": 250_000,
    "document_id_promo": 100_000,
    "campaign_id": 5_000,
    "source_id": 4_000,
    "source_id_promo": 4_000,
    "geo_location": 2_500,
    "advertiser_id": 2_500,
    "geo_location_state": 2_000,
    "publisher_id": 1_000,
    "publisher_id_promo": 1_000,
    "geo_location_country": 300,
    "platform": 4,
}
DIMS = dict.fromkeys(BUCKETS, 64) | dict.fromkeys(list(BUCKETS)[:4], 128) | {"platform": 19}
HOT_BUCKETS = {"topic": 350, "entity": 10_000, "category": 100}
HOT_DIMS = dict.fromkeys(HOT_BUCKETS, 64)
SLOTS = 3
CTR = {  # below so many views a CTR is 0
    "ad_id": 5,
    "document_id_promo": 5,
    "source_id_promo": 10,
    "publisher_id_promo": 10,
    "advertiser_id": 10,
    "campaign_id": 10,
}
COUNTS = ("ad_id", "document_id_promo")
AGES = ("publish_time", "publish_time_promo")
GEO = {"geo_location": None, "geo_location_state": 5, "geo_location_country": 2}  # characters
ATTRIBUTES = {  # multi-hot name -> its file and key column
    "topic": ("documents_topics", "topic_id"),
    "entity": ("documents_entities", "entity_id"),
    "category": ("documents_categories", "category_id"),
}

KEYS = ("display_id", "ad_id")
CATEGORIES = tuple(f"{key}_hash" for key in BUCKETS)
MULTI_HOT = tuple(f"{name}_{slot}" for name in HOT_BUCKETS for slot in range(SLOTS))
NUMBERS = (
    *(f"sim_{name}" for name in ATTRIBUTES),
    *(f"{key}_ctr" for key in CTR),
    *(f"{key}_count" for key in COUNTS),
    *(f"{key}_age" for key in AGES),
)
COLUMNS = (*KEYS, "clicked", *CATEGORIES, *MULTI_HOT, *NUMBERS)
SETS = ("train", "valid")

# Engines add up in different orders: float32 values may differ by one unit in the last place,
# and near 0, where a mean was subtracted, by ABSOLUTE: the tolerances of `np.allclose`.
RELATIVE, ABSOLUTE = 2.0**-23, 1e-9

LOW = 0xFFFFFFFF
FOLD, FIRST, SECOND = 0x1E3779B1, 0x7FEB352D, 0x31848BAB  # below 2³¹, so no product overflows
SPLIT_SALT, FOLD_SALT = 1 << 32, 2 << 32  # added to a display_id for other hashes than its own
TEXT_CHARACTERS, TEXT_BASE, TEXT_MODULUS = 12, 1_000_003, 2**31 - 1
ENTITY_DIGITS = 15  # of 32 hexadecimal ones: 60 bits


def hash32(key):
    """A number in [0, 2³²) for each key in [0, 2⁶³): `hash32(7)`; int, array, tensor or column.

    The halves are folded into one, then xor, shift and multiply mix them, in signed 64-bit
    integers that never overflow; so it is the same on every engine, machine and in every
    process. Keys below 2³² never collide. Shifts are divisions, which every engine has.
    """
    key = (key & LOW) ^ ((key // (1 << 32) * FOLD) & LOW)
    key = ((key ^ (key // (1 << 16))) * FIRST) & LOW
    key = ((key ^ (key // (1 << 15))) * SECOND) & LOW
    return key ^ (key // (1 << 14))


def text_key(text):
    """The key of a text in [0, 2³¹ - 1), by its first 12 characters; 0 for None and "".

    >>> text_key("US>CA>807") % 10
    3

    Horner's rule over code points c, key · 1,000,003 + c modulo 2³¹ - 1, absent ones as 0.
    """
    key = 0
    for character in (text or "")[:TEXT_CHARACTERS].ljust(TEXT_CHARACTERS, "\0"):
        key = (key * TEXT_BASE + ord(character)) % TEXT_MODULUS
    return key


def in_train(display_id, timestamp):
    """True for displays of the train set (ints, arrays or tensors)."""
    lot = hash32(display_id + SPLIT_SALT) % TRAIN_SHARE
    return (timestamp // DAY_MS <= TRAIN_DAYS) & (lot != 0)


def fitted(views, days):
    """What is fitted on train, a dict of floats: `publish_time_median`, `ad_id_mean` …

    >>> fitted({"ad_id": [1, 3], "document_id_promo": [4]}, {...})["ad_id_mean"]
    1.2130075659799042

    views: for each of COUNTS the views in train of its keys; a key with v views stands for v
    rows. days: for each of AGES a dict of whole days to train rows, None where unknown. Sums
    are rounded once, so their order makes no difference. Without rows all means are 0.
    """
    found = {}
    for name in AGES:
        known = sorted((d, n) for d, n in days[name].items() if d is not None)
        found[f"{name}_median"] = _median(known)
    for name in COUNTS:
        v = np.asarray(views[name], np.float64)
        rows = v.sum()
        mean = math.fsum(v * np.log1p(v)) / rows if rows else 0.0
        variance = math.fsum(v * (np.log1p(v) - mean) ** 2) / rows if rows else 0.0
        found |= {f"{name}_mean": mean, f"{name}_deviation": math.sqrt(variance) or 1.0}
    return found


def _median(counted):
    """The mean of the two middle values of sorted (value, count); 0 of none."""
    if not counted:
        return 0.0
    value, count = (np.array(x) for x in zip(*counted, strict=True))
    upto = np.cumsum(count)
    middle = (upto[-1] - 1) // 2, upto[-1] // 2
    return float(value[np.searchsorted(upto, middle, "right")].mean())
