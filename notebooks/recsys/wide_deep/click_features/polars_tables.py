"""The small tables that rows look into, on one machine: displays, pages, ads, weights.

Nearly every feature is a function of a display, of a page or of an ad, and there are far fewer
of these than rows. `with_polars` joins rows with them, `with_torch` has them as tensors.
"""

import polars as pl
from outbrain import DAY_MS, START_MS

from . import spec as fs


def tables_of(log, folds):
    """The small tables by name: displays, pages, ads, and `unit_*`, weights of documents."""
    time = pl.col("publish_time").dt.epoch("ms")
    meta = log["documents_meta"].select(
        "document_id", "source_id", "publisher_id", published=time
    )
    meta = meta.collect(engine="streaming")
    displays = _displays(log["events"], folds)
    pages = _published(displays.select("document_id").unique(), meta, "")
    pages = pages.with_columns(_hashes(("document_id", "source_id", "publisher_id")))
    pages = pages.drop("source_id", "publisher_id")
    ads = log["promoted_content"].rename({"document_id": "document_id_promo"})
    ads = _published(ads.collect(engine="streaming"), meta, "_promo")
    ads = ads.with_columns(_hashes(fs.CTR))
    tables = {"displays": displays, "ads": ads}
    for name, (file, column) in fs.ATTRIBUTES.items():
        items = items_of(log[file], column).collect(engine="streaming")
        pages = pages.join(_top(items, name), on="document_id", how="left")
        tables[f"unit_{name}"] = unit_weights(items)
    return tables | {"pages": pages.with_columns(pl.col(fs.MULTI_HOT).fill_null(0))}


def _hashes(keys):
    return [bucket(pl.col(key), fs.BUCKETS[key]).alias(f"{key}_hash") for key in keys]


def bucket(key, size):
    """The expression of `hash32(key) % size`, int32; a null is key 0."""
    return (fs.hash32(key.cast(pl.Int64).fill_null(0)) % size).cast(pl.Int32)


def _displays(events, folds):
    """Displays, sorted: page, timestamp, set (`train`), fold and four buckets of each."""
    size, number = fs.BUCKETS, pl.col("display_id").cast(pl.Int64)
    fold = fs.hash32(number + fs.FOLD_SALT) % max(folds, 1)
    displays = events.select(
        "display_id",
        "document_id",
        "timestamp",
        "geo_location",
        bucket(pl.col("platform").fill_null(1), size["platform"]).alias("platform_hash"),
        train=fs.in_train(number, pl.col("timestamp")),
        fold=fold.cast(pl.Int32),
    )
    fold = pl.when(pl.col("train") & pl.lit(folds > 0)).then("fold").otherwise(-1)
    displays = displays.with_columns(fold=fold.cast(pl.Int32)).collect(engine="streaming")
    places = displays.select("geo_location").unique()
    for name, length in fs.GEO.items():
        keys = [fs.text_key(text and text[:length]) for text in places["geo_location"]]
        key = pl.Series(keys, dtype=pl.Int64)
        places = places.with_columns(bucket(pl.lit(key), size[name]).alias(f"{name}_hash"))
    displays = displays.join(places, on="geo_location", how="left", nulls_equal=True)
    return displays.drop("geo_location").sort("display_id")


def _published(frame, meta, suffix):
    """`frame` with its documents' source, publisher (one each where missing) and time."""
    document = f"document_id{suffix}"
    meta = meta.rename({name: f"{name}{suffix}" for name in meta.columns})
    last = meta[f"publisher_id{suffix}"].max() or 0
    own = 1 + last + pl.col(document).cast(pl.Int64)
    publisher = pl.coalesce(pl.col(f"publisher_id{suffix}").cast(pl.Int64), own)
    frame = frame.join(meta, on=document, how="left")
    return frame.with_columns(publisher.alias(f"publisher_id{suffix}"))


def days_since(published):
    """Whole days since publication, int32: 0 beyond the limits, null where unknown."""
    days = (pl.col("timestamp") + START_MS - pl.col(published)) // DAY_MS
    days = pl.when(days.is_between(0, fs.MAX_AGE_DAYS)).then(days).otherwise(days * 0)
    return days.cast(pl.Int32)


def items_of(frame, column):
    """document_id, key (int64) and confidence of an attribute's file, a row for each pair."""
    key = pl.col(column)
    if column == "entity_id":
        digits = pl.col(column).str.extract(rf"^([0-9a-fA-F]{{{fs.ENTITY_DIGITS}}})")
        key = digits.str.to_integer(base=16, dtype=pl.Int64)
    items = frame.select("document_id", key=key.cast(pl.Int64), confidence="confidence_level")
    items = items.drop_nulls("key")
    return items.group_by("document_id", "key").agg(pl.col("confidence").max())


def _top(items, name):
    """A row for each document: `NAME_0` … of its keys of highest confidence."""
    order = items.sort(["document_id", "confidence", "key"], descending=[False, True, False])
    hot = 1 + bucket(pl.col("key"), fs.HOT_BUCKETS[name] - 1)
    lists = order.group_by("document_id", maintain_order=True).agg(
        hot.head(fs.SLOTS).alias("hot")
    )
    slots = {
        f"{name}_{slot}": pl.col("hot").list.get(slot, null_on_oob=True)
        for slot in range(fs.SLOTS)
    }
    return lists.select("document_id", **slots)


def unit_weights(items):
    """document_id, key, weight: the TF-IDF weights, of length 1 for each document."""
    documents = 1 + (items["document_id"].max() or 0)
    idf = (documents / pl.len().over("key")).log()
    weight = pl.col("confidence") * idf
    length = (pl.col("weight") ** 2).sum().over("document_id").sqrt()
    weighed = items.select("document_id", "key", weight=weight).filter(pl.col("weight") != 0)
    return weighed.with_columns(pl.col("weight") / length)


def in_order(clicks):
    """Clicks by display_id and ad_id, as they mostly are."""
    row = pl.col("display_id").cast(pl.Int64) * 2**32 + pl.col("ad_id")
    rises = clicks.select((row.diff() >= 0).all()).item()
    return clicks if rises else clicks.sort("display_id", "ad_id")
