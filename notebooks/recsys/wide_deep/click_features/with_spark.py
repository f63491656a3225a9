"""The features of `spec` with PySpark, the article's engine for CPUs, on a cluster or not.

The plan is that of `with_polars`: facts of displays, pages and ads in tables, then look-ups for
each row. Spark decides how to join: small tables are sent to all workers, large ones and rows
meet by key. Nothing runs in Python but the plan: no UDF, and only histograms come to the
driver. Similarities are sums over the page's list of look-ups in the map of the ad's page.

    spark-submit --master spark://… --driver-memory 4g click_features/submit.py RAW OUT

`RAW` and `OUT` are addresses that all workers read. Who starts Spark chooses master, heap and
settings. PySpark is a peer: without it this module can be read, not called.
"""

import time

from outbrain import DAY_MS, START_MS

from . import spec as fs
from .folder import begin
from .spark_log import (
    F,
    HadoopStore,
    Window,
    load,
    scan,
    session,
    text_key,
    with_buckets,
    with_hashes,
)


def build(raw, out, folds=0, check=True, parts=8):
    """The report, a dict, of the features of folder `raw`, written to folder `out`.

    >>> build("outbrain", "features")["rows"]
    {'train': 209332, 'valid': 99870}

    The session is `spark_log.session`'s and is left running. parts: ranges of displays, a task
    each. check: look for what is wrong with the files, in one more pass; False trusts them. A
    killed run leaves hidden files at most, and is begun again. Raises what `spark_log.load` and
    `folder.begin` raise.
    """
    began = time.perf_counter()
    spark = session()
    raw, out = HadoopStore(spark, raw), HadoopStore(spark, out)
    output = begin(out, raw, "spark", folds, parts=parts)
    if output.report:
        return output.report
    output.seconds["start"] = time.perf_counter() - began
    with output.stage("check"):
        log = load(spark, raw) if check else scan(spark, raw)
    with output.stage("fit"):
        displays, pages, ads = _tables(log, folds)
        ads, fit = _counted(log["clicks_train"], displays, ads, folds)
        output.json("statistics.json", fit)
    with output.stage("write"):
        rows = _features(log["clicks_train"], displays, pages, ads, fit, parts)
        _write(rows, out)
    for frame in (displays, pages, ads):
        frame.unpersist()
    held = {name: f"{out.path}/{name}" for name in fs.SETS if out.has(name)}
    counts = {name: spark.read.parquet(path).count() for name, path in held.items()}
    rows = dict.fromkeys(fs.SETS, 0) | counts
    heap = spark.sparkContext.getConf().get("spark.driver.memory", "1g")
    started = {"master": spark.sparkContext.master, "heap": heap}
    return output.finish(engine="spark", seconds=output.seconds, rows=rows, **started)


def _tables(log, folds):
    """(displays, pages, ads), cached: a row for each of these."""
    meta = log["documents_meta"].withColumn(
        "published",
        F.unix_millis(F.try_to_timestamp("publish_time", F.lit("yyyy-MM-dd HH:mm:ss"))),
    )
    meta = meta.drop("publish_time")
    last = meta.agg(F.max("publisher_id")).first()[0] or 0
    events = log["events"].join(meta.select("document_id", "published"), "document_id", "left")
    displays = _displays(events, folds).cache()
    lists = {name: _lists(_items(log, name), name) for name in fs.ATTRIBUTES}
    pages = _published(displays.select("document_id").distinct(), meta, last, "")
    ads = log["promoted_content"].withColumnRenamed("document_id", "document_id_promo")
    ads = _published(ads, meta, last, "_promo")
    for name, found in lists.items():
        found.cache()
        pages = pages.join(found.drop(f"{name}_map"), "document_id", "left")
        promo = found.select(F.col("document_id").alias("document_id_promo"), f"{name}_map")
        ads = ads.join(promo, "document_id_promo", "left")
    size, own = fs.BUCKETS, ("document_id", "source_id", "publisher_id")
    pages = with_buckets(pages, {key: F.col(key) for key in own}, size)
    ads = with_buckets(ads, {key: F.col(key) for key in fs.CTR}, size)
    return displays, pages.drop("source_id", "publisher_id", "published").cache(), ads.cache()


def _displays(events, folds):
    """display_id, document_id, timestamp, train, fold, publish_time (days), four buckets."""
    place, number = F.coalesce("geo_location", F.lit("")), F.col("display_id").cast("bigint")
    events = events.withColumn("geo_location", place)
    cut = {name: F.substring("geo_location", 1, n or 99) for name, n in fs.GEO.items()}
    places = events.select("geo_location").distinct()
    keys = {name: text_key(text) for name, text in cut.items()}
    places = with_buckets(places, keys, fs.BUCKETS)
    platform = {"platform": F.coalesce("platform", F.lit(1))}
    found = with_buckets(events.join(places, "geo_location"), platform, fs.BUCKETS)
    found = with_hashes(found, {"lot": number + fs.SPLIT_SALT, "fold": number + fs.FOLD_SALT})
    early = F.floor(F.col("timestamp") / DAY_MS) <= fs.TRAIN_DAYS
    train = early & (F.col("lot") % fs.TRAIN_SHARE != 0)
    fold = F.when(train & F.lit(folds > 0), F.col("fold") % max(folds, 1))
    return found.select(
        "display_id",
        "document_id",
        "timestamp",
        train.alias("train"),
        fold.otherwise(-1).cast("int").alias("fold"),
        _days("published").alias("publish_time"),
        *(f"{name}_hash" for name in (*fs.GEO, "platform")),
    )


def _published(frame, meta, last, suffix):
    """`frame` with its documents' source, publisher (one each where missing) and time."""
    document, publisher = f"document_id{suffix}", F.col(f"publisher_id{suffix}").cast("bigint")
    meta = meta.select(*(F.col(name).alias(f"{name}{suffix}") for name in meta.columns))
    own = 1 + last + F.col(document).cast("bigint")
    return frame.join(meta, document, "left").withColumn(
        f"publisher_id{suffix}", F.coalesce(publisher, own)
    )


def _days(published):
    """Whole days since publication: 0 beyond the limits, null where unknown."""
    days = F.floor((F.col("timestamp") + START_MS - F.col(published)) / DAY_MS)
    days = F.when(days.between(0, fs.MAX_AGE_DAYS), days).when(days.isNotNull(), 0)
    return days.cast("int")


def _items(log, name):
    """document_id, key, confidence and weight: a document's weights have length 1."""
    file, column = fs.ATTRIBUTES[name]
    key, digits = F.col(column), F.substring(column, 1, fs.ENTITY_DIGITS)
    if column == "entity_id":
        whole = digits.rlike(f"^[0-9a-fA-F]{{{fs.ENTITY_DIGITS}}}$")
        key = F.when(whole, F.conv(digits, 16, 10))
    found = log[file].select("document_id", key.cast("bigint").alias("key"), "confidence_level")
    found = found.where("key IS NOT NULL").groupBy("document_id", "key")
    found = found.agg(F.max("confidence_level").alias("confidence"))
    documents = 1 + (log[file].agg(F.max("document_id")).first()[0] or 0)
    df = F.count("*").over(Window.partitionBy("key"))
    weight = F.col("confidence") * F.log(F.lit(float(documents)) / df)
    found = found.withColumn("weight", weight)
    length = F.sqrt(F.sum(F.col("weight") ** 2).over(Window.partitionBy("document_id")))
    return found.withColumn("weight", F.try_divide("weight", length))


def _lists(items, name):
    """A row for each document: `NAME_0` …, and its weights as `NAME_list` and as `NAME_map`."""
    items = with_buckets(items, {name: F.col("key")}, {name: fs.HOT_BUCKETS[name] - 1})
    both = F.struct("key", F.coalesce("weight", F.lit(0.0)).alias("weight"))
    best = F.struct((-F.col("confidence")).alias("order"), "key", f"{name}_hash")
    found = items.groupBy("document_id").agg(
        F.slice(F.sort_array(F.collect_list(best)), 1, fs.SLOTS).alias("best"),
        F.collect_list(both).alias(f"{name}_list"),
    )
    hot = [F.map_from_entries(f"{name}_list").alias(f"{name}_map")]
    for slot in range(fs.SLOTS):
        bucket = 1 + F.try_element_at("best", F.lit(slot + 1))[f"{name}_hash"]
        hot.append(F.coalesce(bucket, F.lit(0)).alias(f"{name}_{slot}"))
    return found.select("document_id", f"{name}_list", *hot)


def _counted(clicks, displays, ads, folds):
    """(Ads by fold with CTRs and counts, what is fitted on train)."""
    train = clicks.join(displays.where("train"), "display_id")
    promo = _days("published_promo").alias("publish_time_promo")
    train = train.join(ads.select("ad_id", "published_promo"), "ad_id")
    train = train.select("ad_id", "fold", "clicked", "publish_time", promo).cache()
    seen = train.groupBy("ad_id", "fold")
    seen = seen.agg(F.count("*").alias("views"), F.sum("clicked").alias("clicks"))
    days = {name: dict(train.groupBy(name).count().collect()) for name in fs.AGES}
    every = F.explode(F.array(*(F.lit(fold) for fold in range(-1, folds))))
    counted = ads.select("ad_id", *fs.CTR.keys() - {"ad_id"}, every.alias("fold"))
    counted = counted.join(seen, ["ad_id", "fold"], "left").fillna(0, ["views", "clicks"])
    for key, least in fs.CTR.items():
        counted = _with_rate(counted, key, least, folds)
    counted = counted.cache()
    views = {}
    for key in fs.COUNTS:
        table = counted.where("fold = -1").select(key, f"{key}_views").distinct()
        views[key] = [row[0] for row in table.select(f"{key}_views").collect()]
    fit = fs.fitted(views, days)
    for key in fs.COUNTS:
        log = (F.log1p(f"{key}_views") - fit[f"{key}_mean"]) / fit[f"{key}_deviation"]
        counted = counted.withColumn(f"{key}_count", log.cast("float"))
    rates = [name for name in counted.columns if name.endswith(("_ctr", "_count"))]
    train.unpersist()
    return ads.drop(*fs.CTR.keys() - {"ad_id", "document_id_promo"}).join(
        counted.select("ad_id", "fold", *rates), "ad_id"
    ), fit


def _with_rate(counted, key, least, folds):
    """With `KEY_ctr`, which in a fold counts the other folds alone, and `KEY_views` of all."""
    whole, own = Window.partitionBy(key), Window.partitionBy(key, "fold")
    views, clicks = (F.sum(name).over(whole) for name in ("views", "clicks"))
    counted = counted.withColumn(f"{key}_views", views)
    if folds:
        views, clicks = views - F.sum("views").over(own), clicks - F.sum("clicks").over(own)
    rate = F.when((views >= least) & F.col(key).isNotNull(), F.try_divide(clicks, views))
    return counted.withColumn(f"{key}_ctr", F.coalesce(rate, F.lit(0.0)).cast("float"))


def _features(clicks, displays, pages, ads, fit, parts):
    """The finished rows and their `set`, in ranges of displays, sorted in each."""
    low, high = displays.agg(F.min("display_id"), F.max("display_id")).first()
    part = F.floor((F.col("display_id") - low).cast("bigint") * parts / (high - low + 1)).cast(
        "int"
    )
    rows = clicks.join(displays, "display_id").join(ads, ["ad_id", "fold"], "left")
    rows = rows.join(pages, "document_id", "left")
    kind = F.when(F.col("train"), F.lit(fs.SETS[0])).otherwise(F.lit(fs.SETS[1])).alias("set")
    found = [F.col(name).cast("bigint").alias(name) for name in fs.KEYS] + [F.col("clicked")]
    found += [F.col(name) for name in fs.CATEGORIES]
    found += [F.coalesce(name, F.lit(0)).alias(name) for name in fs.MULTI_HOT]
    found += [_cosine(name).cast("float").alias(f"sim_{name}") for name in fs.ATTRIBUTES]
    found += [F.col(name) for name in fs.NUMBERS if name.endswith(("_ctr", "_count"))]
    ages = F.col("publish_time"), _days("published_promo")
    for name, days in zip(fs.AGES, ages, strict=True):
        days = F.coalesce(days.cast("double"), F.lit(fit[f"{name}_median"]))
        found.append(F.log1p(days).cast("float").alias(f"{name}_age"))
    found = rows.select(kind, *found).repartitionById(parts, part)  # narrow by now
    return found.sortWithinPartitions("set", *fs.KEYS)


def _cosine(name):
    """The sum over the page's list of weights times those in the map of the ad's page."""
    found = F.aggregate(
        f"{name}_list",
        F.lit(0.0),
        lambda total, item: (
            total + item["weight"] * F.coalesce(F.col(f"{name}_map")[item["key"]], F.lit(0.0))
        ),
    )
    return F.coalesce(found, F.lit(0.0))


def _write(rows, out):
    """Writes both sets in one pass; they get their names when all is written."""
    rows.write.mode("overwrite").partitionBy("set").parquet(f"{out.path}/.sets.partial")
    for name in fs.SETS:
        if out.has(f".sets.partial/set={name}"):
            out.publish(f".sets.partial/set={name}", name)
    out.remove(".sets.partial")
