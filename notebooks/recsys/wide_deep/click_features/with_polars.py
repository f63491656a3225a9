"""The features of `spec` with Polars: one machine, all its cores, little memory.

Nearly every feature is a function of a display, of a page or of an ad, and there are far fewer
of these than rows; all six keys of a CTR are functions of the ad, so one count by ad gives six
CTRs. These small tables are made first. Then the clicks are joined, finished and written batch
by batch. Memory holds the tables, nine bytes per row of the log, and one batch.
"""

import outbrain
import polars as pl

from . import spec as fs
from .folder import begin, finish
from .polars_tables import days_since, in_order, tables_of


def build(raw, out, folds=0, check=True, batch_rows=250_000):
    """The report, a dict, of the features of folder `raw`, written to folder `out`.

    >>> build("outbrain", "features")["rows"]
    {'train': 209344, 'valid': 99858}

    folds: 0 computes the CTR of a train row from all of train, its own click included, as the
    article's code does; k ≥ 2 from the k - 1 other folds of displays.
    check: read the files through `outbrain.load`, which refuses what is wrong with them and
    reads them once more for it; False trusts them. A finished folder is left as it is, a killed
    run is gone on with. Raises what `outbrain.load` and `folder.begin` raise.
    """
    output = begin(out, raw, "polars", folds, batch_rows=batch_rows)
    if output.report:
        return output.report
    with output.stage("check"):
        log = outbrain.load(raw) if check else outbrain.scan(raw)
    with output.stage("tables"):
        tables = tables_of(log, folds)
    with output.stage("counts"):
        clicks = in_order(log["clicks_train"].collect(engine="streaming"))
        ads, fit = _counted(clicks.lazy(), tables, folds)
        output.json("statistics.json", fit)
    batches = clicks.iter_slices(batch_rows)
    write_parts(output, batches, lambda batch: _features(batch, tables, ads, fit))
    return finish(output, "polars")


def write_parts(output, batches, features_of):
    """None; writes a part of each set for each batch of clicks, but for those that are there.

    features_of: the finished rows of a batch, and `train`.
    """
    for number, batch in enumerate(batches):
        paths = {name: f"{name}/part-{number:05d}.parquet" for name in fs.SETS}
        if all(map(output.has, paths.values())):
            continue
        with output.stage("join"):
            features = features_of(batch)
        for name in [name for name in fs.SETS if not output.has(paths[name])]:
            ours = pl.col("train") if name == "train" else ~pl.col("train")
            with output.stage("write"), output.file(paths[name]) as temp:
                write_part(features.filter(ours).select(fs.COLUMNS), temp)


def write_part(features, path):
    """Writes a part: lz4 is fast, and nobody asks for ranges of columns."""
    features.write_parquet(path, compression="lz4", statistics=False)


def _counted(clicks, tables, folds):
    """(Finished ads by fold, what is fitted on train)."""
    displays, ads = tables["displays"].lazy().filter("train"), tables["ads"].lazy()
    displays = displays.join(tables["pages"].lazy(), on="document_id")
    displays = displays.select(
        "display_id", "fold", "timestamp", publish_time=days_since("published")
    )
    train = clicks.join(displays, on="display_id")
    train = train.join(ads.select("ad_id", "published_promo"), on="ad_id")
    train = train.with_columns(publish_time_promo=days_since("published_promo"))
    queries = {name: train.group_by(name).agg(rows=pl.len()) for name in fs.AGES}
    queries["seen"] = train.group_by("ad_id", "fold").agg(
        views=pl.len().cast(pl.Int64), clicks=pl.col("clicked").cast(pl.Int64).sum()
    )
    found = pl.collect_all(list(queries.values()), engine="streaming")
    found = dict(zip(queries, found, strict=True))
    days = {name: dict(found[name].iter_rows()) for name in fs.AGES}
    counted = tables["ads"].join(found["seen"], on="ad_id")
    totals = {key: _sums(counted, key) for key in fs.CTR}
    fit = fs.fitted({key: totals[key]["views"] for key in fs.COUNTS}, days)
    ads = _with_counts(tables["ads"], totals, fit)
    finished = [_with_rates(ads, totals, -1)]
    for fold in range(folds):
        others = counted.filter(pl.col("fold") != fold)
        finished.append(_with_rates(ads, {key: _sums(others, key) for key in fs.CTR}, fold))
    return pl.concat(finished), fit


def _sums(counted, key):
    return counted.drop_nulls(key).group_by(key).agg(pl.col("views", "clicks").sum())


def _with_counts(ads, totals, fit):
    for key in fs.COUNTS:
        ads = ads.join(totals[key].select(key, "views"), on=key, how="left")
        count = pl.col("views").fill_null(0).cast(pl.Float64).log1p() - fit[f"{key}_mean"]
        count = (count / fit[f"{key}_deviation"]).cast(pl.Float32)
        ads = ads.with_columns(count.alias(f"{key}_count")).drop("views")
    return ads


def _with_rates(ads, sums, fold):
    """Ads with CTRs from `sums` of views and clicks, for rows of `fold` (-1: not in train)."""
    for key, least in fs.CTR.items():
        enough = sums[key].filter(pl.col("views") >= least)
        rate = (pl.col("clicks") / pl.col("views")).cast(pl.Float32)
        ads = ads.join(enough.select(key, rate.alias(f"{key}_ctr")), on=key, how="left")
    rates = pl.col([f"{key}_ctr" for key in fs.CTR]).fill_null(0)
    return ads.drop(fs.CTR.keys() - {"ad_id", "document_id_promo"}).with_columns(
        rates, fold=pl.lit(fold, pl.Int32)
    )


def _features(batch, tables, ads, fit):
    """The finished rows of a batch of clicks in order, and `train`."""
    displays = tables["displays"]
    first, last = batch["display_id"].min(), batch["display_id"].max()
    start, end = displays["display_id"].search_sorted(pl.Series([first, last + 1]))
    displays = displays.slice(start, end - start).lazy()
    on = ["ad_id", "fold"] if ads["fold"].max() >= 0 else ["ad_id"]
    rows = batch.lazy().join(displays, on="display_id", maintain_order="left")
    rows = rows.join(ads.lazy(), on=on, maintain_order="left")
    rows = rows.join(tables["pages"].lazy(), on="document_id", maintain_order="left")
    rows = rows.with_row_index("row").collect().lazy()  # once for four uses
    for name in fs.ATTRIBUTES:
        cosine = _cosines(rows, tables[f"unit_{name}"])
        rows = rows.join(cosine, on="row", how="left", maintain_order="left")
        rows = rows.rename({"cosine": f"sim_{name}"})
    ages = []
    for name in fs.AGES:
        days = days_since("published" + name.removeprefix("publish_time"))
        days = days.fill_null(fit[f"{name}_median"])
        ages.append(days.cast(pl.Float64).log1p().cast(pl.Float32).alias(f"{name}_age"))
    sims = pl.col([f"sim_{name}" for name in fs.ATTRIBUTES]).fill_null(0).cast(pl.Float32)
    rows = rows.with_columns(pl.col(fs.KEYS).cast(pl.Int64), sims, *ages)
    return rows.select(*fs.COLUMNS, "train").collect()


def _cosines(rows, unit):
    """row, cosine, for rows whose page and whose ad's page have a key in common."""
    pairs = rows.select("row", "document_id", "document_id_promo")
    promo = unit.lazy().select("key", document_id_promo="document_id", other="weight")
    both = pairs.join(unit.lazy(), on="document_id")
    both = both.join(promo, on=["document_id_promo", "key"])
    return both.group_by("row").agg(cosine=(pl.col("weight") * pl.col("other")).sum())
