"""The features of `feature_spec` by Polars: lazy frames on one machine, or on a GPU with cuDF.

Article: "Accelerating the Wide & Deep Model Workflow from 25 Hours to 10 Minutes Using NVIDIA
GPUs" (NVIDIA Technical Blog, 29 April 2021). Its pipelines join everything into one wide table
first. Most features, though, are facts of an ad or of a display, of which there are far fewer
than rows; so they are computed in tables of these, and a row is looked up:

    ads       six CTRs, two counts, six buckets, time of publication     one row an ad and fold
    documents buckets, multi-hot slots, time of publication              one row a page
    rows      join display, page and ad; two ages; three similarities    in chunks of displays

Memory is that of the tables, of the click log at 9 bytes a row and of one chunk. Files are read
and checked by `outbrain.load`, which says what becomes of bad rows and wrong timestamps; an
unseen category has a bucket like any other, CTR 0 and a count of 0.
"""

from functools import reduce
from importlib.util import find_spec

import feature_spec as fs
import outbrain
import polars as pl
from feature_files import Output

COMPRESSION = "snappy"  # as Spark's default


def build(folder_raw, folder_out, spec=None, bad="raise", partial=False, **how):
    """The report {"seconds": {stage: s}, "rows": {set: n}}; features lie in `folder_out`.

    >>> build("outbrain", "features")["rows"]
    {'train': 198301, 'valid': 110901}

    Parts are train/part-*.parquet and valid/part-*.parquet, sorted by display_id and ad_id;
    statistics.json has what was fitted on train. `bad` and `partial` are those of
    `outbrain.load`. How: `rows=500_000`, about so many a chunk; `engine`: "streaming" (CPU),
    "gpu", or "auto" for the GPU where cuDF is installed. A killed run is gone on with by the
    same call. Raises ValueError and FileNotFoundError as `outbrain.load` and `Output` do.
    """
    spec, rows = spec or fs.Spec(), how.pop("rows", 500_000)
    engine = choose_engine(**how)
    out = Output(folder_out, spec, folder_raw, bad=bad, partial=partial, rows=rows)
    if out.done:
        return out.done
    with out.stage("check"):
        log = outbrain.load(folder_raw, bad=bad, partial=partial)
    with out.stage("tables"):
        clicks = log["clicks_train"].collect(engine=engine)
        clicks = clicks if _is_sorted(clicks) else clicks.sort(fs.KEYS)
        displays = display_table(log["events"], spec).collect(engine=engine)
        documents = document_table(log, spec).collect(engine=engine)
        weights = {name: tfidf(log, name).collect(engine=engine) for name in fs.ATTRIBUTES}
    with out.stage("fit"):
        ads = ad_table(log["promoted_content"], documents, spec).collect(engine=engine)
        ads, statistics = fit(clicks, displays, documents, ads, spec, engine)
        out.write_json("statistics.json", statistics)
    tables = displays, documents, ads, weights, statistics
    for number, (first, last) in enumerate(chunks(clicks, rows)):
        if all(out.has(name, number) for name in fs.SETS):
            continue
        with out.stage("transform"):
            found = transform(clicks[first:last], tables).collect(engine=engine)
        with out.stage("write"):
            for name in fs.SETS:
                part = found.filter(pl.col("train") == (name == "train")).select(fs.COLUMNS)
                out.write(
                    name,
                    number,
                    lambda path, x=part: x.write_parquet(path, compression=COMPRESSION),
                )
    return out.finish()


def choose_engine(engine="streaming"):
    """The engine to collect with; ValueError for "gpu" where cuDF's half of Polars is missing."""
    have = find_spec("cudf_polars") is not None
    if engine not in ("streaming", "gpu", "auto") or (engine == "gpu" and not have):
        raise ValueError(
            f"engine={engine!r}; allowed are 'streaming', 'auto' and, where cudf_polars is "
            f"installed (here it is {'' if have else 'not '}), 'gpu'"
        )
    return "gpu" if have and engine != "streaming" else "streaming"


def display_table(events, spec):
    """A row a display, in order: its buckets, page, timestamp, set, and fold of train."""
    sizes, day = spec.sizes(), pl.col("display_id").cast(pl.Int64)
    places = events.select("geo_location").unique().collect()["geo_location"].to_list()
    place = {
        f"{name}_hash": [fs.hash32(fs.text_key((x or "")[:size])) % sizes[name] for x in places]
        for name, size in fs.GEO.items()
    }
    place = pl.LazyFrame({"geo_location": places} | place).cast(dict.fromkeys(place, pl.Int32))
    train = fs.in_train(pl.col("display_id").cast(pl.Int64), pl.col("timestamp"))
    fold = fs.hash32(day + fs.FOLD_SALT) % max(spec.folds, 1)
    platform = (pl.col("platform").cast(pl.Int32).fill_null(1) - 1) % sizes["platform"]
    return (
        events.join(place, on="geo_location", how="left", nulls_equal=True)
        .select(
            "display_id",
            "document_id",
            "timestamp",
            *place.collect_schema().names()[1:],
            platform_hash=platform,
            train=train,
            fold=pl.when(train).then(fold).otherwise(spec.folds).cast(pl.Int8),
        )
        .sort("display_id")
    )


def document_table(log, spec):
    """A row a document: its buckets, publisher and source (null unknown), ms of publication,
    and the slots of its multi-hot features."""
    publisher, document = pl.col("publisher_id"), pl.col("document_id").cast(pl.Int64)
    alone = publisher.max().fill_null(0).cast(pl.Int64) + 1 + document
    meta = log["documents_meta"].select(
        "document_id",
        "source_id",
        publisher_id=publisher.cast(pl.Int64).fill_null(alone),
        publish_ms=pl.col("publish_time").dt.epoch("ms") - fs.START_MS,
    )
    found = [meta, *(slots(log, name, spec) for name in fs.ATTRIBUTES)]
    every = pl.concat(
        [log["events"].select("document_id"), log["promoted_content"].select("document_id")]
    )
    table = reduce(
        lambda left, right: left.join(right, on="document_id", how="left"),
        found,
        every.unique(),
    )
    return table.with_columns(
        *(bucket(name, spec) for name in ("document_id", "source_id", "publisher_id")),
        pl.col(fs.MULTI_HOT).fill_null(0),
    )


def bucket(key, spec, column=None):
    """The expression of `<key>_hash`, int32, from a column of whole numbers (null: key 0)."""
    number = fs.hash32(pl.col(column or key).cast(pl.Int64).fill_null(0))
    return (number % spec.sizes()[key]).cast(pl.Int32).alias(f"{key}_hash")


def attributes(log, name):
    """A row a document and attribute: document_id, key (int64), confidence (added up)."""
    file, column = fs.ATTRIBUTES[name]
    key = pl.col(column).cast(pl.Int64) if name != "entity" else _entity_key(pl.col(column))
    frame = log[file].select("document_id", "confidence_level", key=key).drop_nulls("key")
    return frame.group_by("document_id", "key").agg(confidence=pl.col("confidence_level").sum())


def _entity_key(text):
    whole = text.str.contains("^[0-9a-fA-F]{32}$")
    return pl.when(whole).then(
        text.str.head(fs.ENTITY_DIGITS).str.to_integer(base=16, dtype=pl.Int64, strict=False)
    )


def slots(log, name, spec):
    """A row a document: the buckets of its three attributes of highest confidence."""
    bucket_of = fs.hash32(pl.col("key")) % (spec.hot_sizes()[name] - 1) + 1
    best = (
        attributes(log, name)
        .sort("document_id", "confidence", "key", descending=[False, True, False])
        .group_by("document_id", maintain_order=True)
        .agg(hot=bucket_of.head(fs.SLOTS))
    )
    slot = [
        pl.col("hot").list.get(at, null_on_oob=True).cast(pl.Int32).alias(f"{name}_{at}")
        for at in range(fs.SLOTS)
    ]
    return best.select("document_id", *slot)


def tfidf(log, name):
    """A row a document and attribute: `document_id`, `key` (0, 1, …), `weight` of norm 1."""
    found, share = (
        attributes(log, name),
        pl.col("confidence") * (pl.col("documents") / pl.col("df")).log(),
    )
    top = log[fs.ATTRIBUTES[name][0]].select(documents=pl.col("document_id").max() + 1)
    norm = (pl.col("weight") ** 2).sum().over("document_id").sqrt()
    return (
        found.with_columns(df=pl.len().over("key"))
        .join(top, how="cross")
        .select("document_id", key=pl.col("key").rank("dense").cast(pl.Int32) - 1, weight=share)
        .filter(norm > 0)
        .with_columns(weight=pl.col("weight") / norm)
    )


def ad_table(promoted, documents, spec):
    """A row an ad: its keys, their buckets, and when its page was published."""
    pages = documents.lazy().select(
        "publish_ms",
        "document_id",
        *(pl.col(key).name.suffix("_promo") for key in ("source_id", "publisher_id")),
    )
    keys = [key for key in fs.CTR if key != "ad_id"]
    return (
        promoted.join(pages, on="document_id", how="left")
        .rename({"document_id": "document_id_promo", "publish_ms": "publish_ms_promo"})
        .with_columns(bucket(key, spec) for key in ("ad_id", *keys))
    )


def age(published, now="timestamp"):
    """The expression of days since publication, null where unknown, 0 outside [0, 3650]."""
    days = (pl.col(now) - pl.col(published)) // fs.DAY_MS
    return pl.when(days.is_between(0, fs.MAX_AGE_DAYS) | days.is_null()).then(days).otherwise(0)


def fit(clicks, displays, documents, ads, spec, engine):
    """The ads with CTRs and counts, a row an ad and fold; the statistics of train (a dict)."""
    pages = documents.lazy().select("document_id", "publish_ms")
    shown = displays.lazy().filter("train").join(pages, on="document_id", how="left")
    times = ads.lazy().select("ad_id", "publish_ms_promo")
    rows = clicks.lazy().join(shown, on="display_id").join(times, on="ad_id")
    rows = rows.select(
        "ad_id",
        "fold",
        "clicked",
        publish_time=age("publish_ms"),
        publish_time_promo=age("publish_ms_promo"),
    )
    found = [
        rows.group_by("ad_id", "fold").agg(
            views=pl.len(), clicks=pl.col("clicked").cast(pl.Int64).sum()
        )
    ]
    found += [rows.group_by(name).len().drop_nulls() for name in fs.AGES]
    counted, *days = pl.collect_all(found, engine=engine)
    folds = pl.DataFrame({"fold": range(spec.folds + 1)}, schema={"fold": pl.Int8})
    ads = ads.join(folds, how="cross").join(counted, on=["ad_id", "fold"], how="left")
    ads = ads.with_columns(pl.col("views", "clicks").fill_null(0).cast(pl.Int64))
    statistics = {
        "train_rows": int(counted["views"].sum()),
        "age": {
            name: fs.median_of_counts(*found) for name, found in zip(fs.AGES, days, strict=True)
        },
        "count": {key: fs.scale_of_counts(_views(ads, key)) for key in fs.COUNTS},
    }
    columns = [x for key in fs.CTR for x in ctr(key, spec, statistics["count"].get(key))]
    return ads.select(
        pl.exclude("views", "clicks", *fs.BUCKETS), "ad_id", "document_id_promo", *columns
    ), statistics


def _views(ads, key):
    return ads.group_by(key).agg(pl.col("views").sum())["views"].to_numpy()


def ctr(key, spec, scale):
    """Expressions of `<key>_ctr` and, given its scale, `<key>_count`, from views and clicks."""
    views, clicks = (pl.col(name).sum().over(key) for name in ("views", "clicks"))
    everyone = views
    if spec.folds:
        views, clicks = (
            all_of - pl.col(name).sum().over(key, "fold")
            for name, all_of in (("views", views), ("clicks", clicks))
        )
    rate = pl.when((views >= fs.CTR[key]) & pl.col(key).is_not_null()).then(clicks / views)
    yield rate.otherwise(0.0).cast(pl.Float32).alias(f"{key}_ctr")
    if scale:
        scaled = (everyone.log1p() - scale["mean"]) / scale["deviation"]
        yield scaled.cast(pl.Float32).alias(f"{key}_count")


def chunks(clicks, rows):
    """Pairs (first, last) of rows of clicks: whole displays, about so many rows each."""
    display, first = clicks["display_id"], 0
    while first < len(display):
        last = min(first + rows, len(display))
        last = display.search_sorted(display[last - 1], "right")
        yield first, last
        first = last


def transform(clicks, tables):
    """The lazy features of these clicks, sorted as they are, with the column `train`."""
    displays, documents, ads, weights, statistics = tables
    first, last = (
        displays["display_id"].search_sorted(clicks["display_id"][at]) for at in (0, -1)
    )
    shown = (
        displays[first : last + 1].lazy().join(documents.lazy(), on="document_id", how="left")
    )
    rows = clicks.lazy().with_row_index("row").join(shown, on="display_id")
    rows = rows.join(ads.lazy(), on=["ad_id", "fold"])
    pairs = rows.select("row", "document_id", "document_id_promo")
    for name, weight in weights.items():
        rows = rows.join(similarity(pairs, weight.lazy(), name), on="row", how="left")
    ages = []
    for name, published in zip(fs.AGES, ("publish_ms", "publish_ms_promo"), strict=True):
        days = age(published).fill_null(statistics["age"][name])
        ages.append(days.log1p().cast(pl.Float32).alias(f"{name}_age"))
    kinds = (
        pl.col(fs.KEYS).cast(pl.Int64),
        pl.col([f"sim_{x}" for x in weights]).fill_null(0).cast(pl.Float32),
    )
    return rows.sort("row").with_columns(*kinds, *ages).select("train", *fs.COLUMNS)


def similarity(pairs, weight, name):
    """The lazy cosines `sim_<name>` of pairs of documents that share an attribute, by row."""
    keys, promo = (
        ["document_id_promo", "key"],
        {"document_id": "document_id_promo", "weight": "other"},
    )
    shared = pairs.join(weight, on="document_id").join(weight.rename(promo), on=keys)
    return shared.group_by("row").agg(
        (pl.col("weight") * pl.col("other")).sum().alias(f"sim_{name}")
    )


def _is_sorted(clicks):
    order = pl.col("display_id").cast(pl.Int64) * 2**32 + pl.col("ad_id")
    return clicks.select(order.is_sorted()).item()
