"""Parts of the small tables that `features_polars` joins: files as lazy frames, buckets, days
since publication, the keys of documents.
"""

from pathlib import Path

import feature_spec as fs
import outbrain
import polars as pl


def scan(raw):
    """The files of `raw` as lazy frames by name, unchecked but for what Polars cannot read."""
    frames = {}
    for name, schema in outbrain.SCHEMAS.items():
        plain = {c: pl.String if t == pl.Datetime("ms") else t for c, t in schema.items()}
        path = Path(raw) / f"{name}.csv"
        if path.is_file():
            frames[name] = pl.scan_csv(
                path, schema_overrides=plain, null_values=["\\N"], quote_char=None
            )
    when = pl.col("publish_time").str.to_datetime(
        "%Y-%m-%d %H:%M:%S", time_unit="ms", strict=False
    )
    return frames | {"documents_meta": frames["documents_meta"].with_columns(when)}


def bucket(key, size):
    """The expression of `hash32(key) % size`, int32; a null is key 0."""
    return (fs.hash32(key.cast(pl.Int64).fill_null(0)) % size).cast(pl.Int32)


def _published(frame, meta, suffix):
    """`frame` with its documents' source, publisher (one each where missing) and time."""
    document = f"document_id{suffix}"
    meta = meta.rename({name: f"{name}{suffix}" for name in meta.columns})
    last = meta[f"publisher_id{suffix}"].max() or 0
    own = 1 + last + pl.col(document).cast(pl.Int64)
    publisher = pl.coalesce(pl.col(f"publisher_id{suffix}").cast(pl.Int64), own)
    frame = frame.join(meta, on=document, how="left")
    return frame.with_columns(publisher.alias(f"publisher_id{suffix}"))


def items_of(frame, column):
    """document_id, key (int64) and confidence of an attribute's file, a row a pair."""
    key = pl.col(column)
    if column == "entity_id":
        digits = pl.col(column).str.extract(rf"^([0-9a-fA-F]{{{fs.ENTITY_DIGITS}}})")
        key = digits.str.to_integer(base=16, dtype=pl.Int64)
    items = frame.select("document_id", key=key.cast(pl.Int64), confidence="confidence_level")
    items = items.drop_nulls("key")
    return items.group_by("document_id", "key").agg(pl.col("confidence").max())


def _top(items, name, spec):
    """A row a document: `NAME_0` … of its keys of highest confidence."""
    order = items.sort(["document_id", "confidence", "key"], descending=[False, True, False])
    hot = 1 + bucket(pl.col("key"), spec.hot_sizes()[name] - 1)
    lists = order.group_by("document_id", maintain_order=True).agg(
        hot.head(fs.SLOTS).alias("hot")
    )
    slots = range(fs.SLOTS)
    return lists.select(
        "document_id",
        *(
            pl.col("hot").list.get(slot, null_on_oob=True).alias(f"{name}_{slot}")
            for slot in slots
        ),
    )


def _days(published):
    """Whole days since publication, int32: 0 beyond the limits, null where unknown."""
    days = (pl.col("timestamp") + fs.START_MS - pl.col(published)) // fs.DAY_MS
    days = pl.when(days.is_between(0, fs.MAX_AGE_DAYS)).then(days).otherwise(days * 0)
    return days.cast(pl.Int32)


def in_order(clicks):
    """Clicks by display_id and ad_id, as they mostly are."""
    row = pl.col("display_id").cast(pl.Int64) * 2**32 + pl.col("ad_id")
    rises = clicks.select((row.diff() >= 0).all()).item()
    return clicks if rises else clicks.sort("display_id", "ad_id")
