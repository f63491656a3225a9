"""The features of `spec` as tensor operations: on a GPU, or wherever tensors lie.

Polars only parses the files and writes the parts. Joins are look-ups in tables addressed by the
key itself, sums by group are `index_add` and `bincount`, and the cosines of two documents'
short lists compare all with all, `SLAB` slots at a time; longer lists have several slabs.

Shapes: `E` displays, `A` ads, `D` documents, `S` slabs of `W` slots, `R` rows of a batch.
Integers are int64 unless said otherwise, -1 where a key is unknown; weights are float64.
"""

import outbrain
import polars as pl
import torch

from . import spec as fs
from . import with_polars
from .folder import begin, finish
from .polars_tables import in_order, items_of
from .torch_lookups import Lookup, cosines, slabs_of, slots_of

NEVER = -(2**62)  # the time of publication where unknown


def build(raw, out, folds=0, device="cpu", check=True, batch_rows=250_000):
    """The report, a dict, of the features of folder `raw`, written to folder `out`.

    >>> build("outbrain", "features", device="cuda")["rows"]
    {'train': 209332, 'valid': 99870}

    All else is as in `with_polars.build`.
    """
    device = torch.device(device)
    output = begin(out, raw, "torch", folds, batch_rows=batch_rows)
    if output.report:
        return output.report
    with output.stage("check"):
        log = outbrain.load(raw) if check else outbrain.scan(raw)
    with output.stage("tables"):
        tables = tables_of(log, folds, device)
        clicks = in_order(log["clicks_train"].collect(engine="streaming"))
    batches = list(clicks.iter_slices(batch_rows))
    with output.stage("counts"):
        seen = [_counts(_rows(batch, tables), tables, folds) for batch in batches]
        views, clicked, *days = (sum(found) for found in zip(*seen, strict=True))
        ctr, count, fit = _finish_ads(tables, views, clicked, days, folds)
        output.json("statistics.json", fit)
    for number, batch in enumerate(batches):
        with output.stage("join"):
            found = _rows(batch, tables)
            names = {name: f"{name}/part-{number:05d}.parquet" for name in fs.SETS}
            if not all(map(output.has, names.values())):
                columns = features_of(found, tables, ctr, count, fit)
        for name, path in names.items():
            inside = found["train"] == (name == "train")
            if not output.has(path):
                with output.stage("write"), output.file(path) as temp:
                    part = {c: values[inside].cpu().numpy() for c, values in columns.items()}
                    with_polars.write_part(pl.DataFrame(part), temp)
    return finish(output, "torch")


def tables_of(log, folds, device):
    """What is known of displays, ads and documents: a dict of tensors, look-ups and `Items`."""
    meta, ads = (
        _tensors(log["documents_meta"], device),
        _tensors(log["promoted_content"], device),
    )
    events = _tensors(log["events"].drop("uuid", "geo_location"), device)
    attributes = {name: _attribute(log, name, device) for name in fs.ATTRIBUTES}
    every = [meta["document_id"], ads["document_id"], events["document_id"]]
    ids = torch.cat([*every, *(of for of, _, _ in attributes.values())]).unique()
    document = Lookup(ids)
    page, promo = document(events["document_id"]), document(ads["document_id"])
    keys, published = _about(ids, meta)
    ad_keys = {key: ads[key] for key in ("ad_id", "campaign_id", "advertiser_id")}
    ad_keys |= {f"{key}_promo": values[promo] for key, values in keys.items()}
    of_pages = _hashes(keys)
    items = {}
    for name, (of, key, confidence) in attributes.items():
        of, last = document(of), int(of.max()) if len(of) else 0
        of_pages |= slots_of(of, key, confidence, len(ids), name, fs.HOT_BUCKETS[name])
        items[name] = slabs_of(of, key, confidence, len(ids), 1 + last)
    return _displays(events, _places(log["events"], device), folds) | {
        "display": Lookup(events["display_id"]),
        "ad": Lookup(ads["ad_id"]),
        "page": page,
        "promo": promo,
        "published": published,
        "ad_keys": ad_keys,
        "pages": of_pages,
        "ads": _hashes(ad_keys),
        "items": items,
    }


def _about(ids, meta):
    """(keys by name, time of publication) of documents; each missing publisher is its own."""
    at = Lookup(meta["document_id"])(ids)
    last = int(meta["publisher_id"].max()) if len(meta["publisher_id"]) else 0
    found = [ids]
    for column, missing in (("source_id", -1), ("publisher_id", -1), ("publish_time", NEVER)):
        padded = torch.cat([meta[column], meta[column].new_tensor([missing])])
        found.append(padded[at])  # -1 is the last
    ids, source, publisher, published = found
    publisher = torch.where(publisher < 0, 1 + max(last, 0) + ids, publisher)
    return {"document_id": ids, "source_id": source, "publisher_id": publisher}, published


def _displays(events, places, folds):
    """By name: timestamp, train, fold (-1 outside train), and a dict of buckets."""
    display = events["display_id"]
    train = fs.in_train(display, events["timestamp"])
    fold = fs.hash32(display + fs.FOLD_SALT) % max(folds, 1)
    platform = torch.where(events["platform"] < 0, 1, events["platform"])
    return {
        "timestamp": events["timestamp"],
        "train": train,
        "fold": torch.where(train & (folds > 0), fold, -1),
        "displays": _hashes({"platform": platform} | places),
    }


def _hashes(keys):
    """int32 buckets by column, of keys by name; -1 is hashed as key 0."""
    return {
        f"{key}_hash": (fs.hash32(values.clamp(min=0)) % fs.BUCKETS[key]).int()
        for key, values in keys.items()
    }


def _tensors(frame, device):
    """Columns as int64 tensors, -1 for null; times as milliseconds, NEVER for null."""
    time = pl.selectors.datetime()
    frame = frame.with_columns(time.dt.epoch("ms").fill_null(NEVER))
    frame = frame.with_columns(pl.all().cast(pl.Int64).fill_null(-1)).collect(
        engine="streaming"
    )
    return {c: torch.tensor(x.to_numpy(), device=device) for c, x in frame.to_dict().items()}


def _places(events, device):
    """By name of a place: its text's key for each display."""
    places = events.select(pl.col("geo_location").fill_null("")).collect(engine="streaming")
    texts = places.unique().with_row_index("code")
    codes = places.join(texts, on="geo_location", maintain_order="left")["code"]
    codes = torch.tensor(codes.cast(pl.Int64).to_numpy(), device=device)
    texts, found = texts["geo_location"], {}
    for name, length in fs.GEO.items():
        keys = [fs.text_key(text[:length]) for text in texts]
        found[name] = torch.tensor(keys, dtype=torch.int64, device=device)[codes]
    return found


def _attribute(log, name, device):
    """(document_id, key, confidence) of an attribute's file; by document, best first."""
    file, column = fs.ATTRIBUTES[name]
    frame = items_of(log[file], column).collect(engine="streaming").to_dict()
    of, key, confidence = (torch.tensor(x.to_numpy(), device=device) for x in frame.values())
    order = key.argsort(stable=True)
    order = order[confidence[order].argsort(stable=True, descending=True)]
    order = order[of[order].argsort(stable=True)]  # the last sort weighs most: all are stable
    return of[order].long(), key[order], confidence[order]


def _rows(batch, tables):
    """By name, for a batch of clicks: ids, clicked, train, and positions in the tables."""
    device = tables["page"].device
    rows = {c: torch.tensor(x.to_numpy(), device=device) for c, x in batch.to_dict().items()}
    rows["display"] = tables["display"](rows["display_id"].long())
    rows["ad"] = tables["ad"](rows["ad_id"].long())
    rows["page"], rows["promo"] = tables["page"][rows["display"]], tables["promo"][rows["ad"]]
    return rows | {name: tables[name][rows["display"]] for name in ("train", "fold")}


def _days(rows, tables, at):
    """Whole days since the publication of pages `at`: 0 beyond the limits, -1 where unknown."""
    published = tables["published"][rows[at]]
    days = tables["timestamp"][rows["display"]] + outbrain.START_MS - published
    days = torch.div(days, outbrain.DAY_MS, rounding_mode="floor")
    days = torch.where((days >= 0) & (days <= fs.MAX_AGE_DAYS), days, 0)
    return torch.where(published == NEVER, -1, days)


def _counts(rows, tables, folds):
    """Train rows by (fold, ad) and their clicks, then rows by 1 + days for both ages."""
    train, ads = rows["train"], len(tables["promo"])
    at = rows["fold"][train].clamp(min=0) * ads + rows["ad"][train]
    length = max(folds, 1) * ads
    views = torch.bincount(at, minlength=length)
    clicks = torch.bincount(at[rows["clicked"][train] > 0], minlength=length)
    found = [views.view(-1, ads), clicks.view(-1, ads)]
    for page in ("page", "promo"):
        days = 1 + _days(rows, tables, page)[train]
        found.append(torch.bincount(days, minlength=fs.MAX_AGE_DAYS + 2))
    return found


def _finish_ads(tables, views_FA, clicks_FA, days, folds):
    """(CTRs by column, (1 + folds, A); counts by column, (A,); what is fitted on train)."""
    days = dict(zip(fs.AGES, (found.tolist() for found in days), strict=True))
    days = {
        name: {d - 1 if d else None: n for d, n in enumerate(x)} for name, x in days.items()
    }
    ctr, views = {}, {}
    for key, least in fs.CTR.items():
        keys = tables["ad_keys"][key]
        _, group = keys.unique(return_inverse=True)
        sums = []
        for found in (views_FA, clicks_FA):
            own = found.new_zeros((len(found), len(keys))).index_add_(1, group, found)
            total = own.sum(0, keepdim=True)
            sums.append(torch.cat([total - own, total]) if folds else total)
        views[key] = sums[0][-1]
        rate = sums[1].double() / sums[0].clamp(min=1)
        rate = torch.where(sums[0] >= least, rate, 0).float()[:, group]
        ctr[f"{key}_ctr"] = torch.where(keys >= 0, rate, 0)  # fold -1 is the last
        if key in fs.COUNTS:
            views[key, "ads"] = views[key][group]
    fit = fs.fitted({key: views[key].cpu().numpy() for key in fs.COUNTS}, days)
    count = {}
    for key in fs.COUNTS:
        log = torch.log1p(views[key, "ads"].double()) - fit[f"{key}_mean"]
        count[f"{key}_count"] = (log / fit[f"{key}_deviation"]).float()
    return ctr, count, fit


def features_of(rows, tables, ctr, count, fit):
    """The features by column, in order, of the rows of a batch."""
    ad, page, promo = rows["ad"], rows["page"], rows["promo"]
    found = {name: rows[name].long() for name in fs.KEYS} | {"clicked": rows["clicked"]}
    for table, at in (("displays", rows["display"]), ("pages", page), ("ads", ad)):
        found |= {column: values[at] for column, values in tables[table].items()}
    fold = rows["fold"]
    found |= {column: rate[fold, ad] for column, rate in ctr.items()}
    found |= {column: values[ad] for column, values in count.items()}
    for name, items in tables["items"].items():
        found[f"sim_{name}"] = cosines(items, page, promo).float()
    for name, at in zip(fs.AGES, ("page", "promo"), strict=True):
        days = _days(rows, tables, at).double()
        days = torch.where(days < 0, fit[f"{name}_median"], days)
        found[f"{name}_age"] = torch.log1p(days).float()
    return {column: found[column] for column in fs.COLUMNS}
