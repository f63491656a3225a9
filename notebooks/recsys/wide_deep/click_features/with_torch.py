"""The features of `spec` as tensor operations: on a GPU, or wherever tensors lie.

What is done for each row of the log: joins are look-ups in tables addressed by the key itself,
sums by group are `index_add` and `bincount`, and a key of the page is found among those of the
ad's page by binary search. The files and the small tables of displays, pages and ads are
`polars_tables`'.

Shapes: `A` ads, `F` folds, `R` rows of a batch. Integers are int64 unless said otherwise, NEVER
where a key or a time is unknown; weights are float64.
"""

import outbrain
import polars as pl
import torch

from . import spec as fs
from . import with_polars
from .folder import begin, finish
from .polars_tables import in_order
from .polars_tables import tables_of as small_tables

NEVER = -(2**62)


class Lookup:
    """Positions of ids in a list of ids: `Lookup(ids)(wanted)`, -1 for those that it lacks.

    >>> Lookup(torch.tensor([7, 3]))(torch.tensor([3, 4, 7]))
    tensor([ 1, -1,  0])

    ids: int64, different, 0 or more. They are addresses of a table, so the largest is its size.
    """

    def __init__(self, ids):
        self.last = int(ids.max()) if len(ids) else -1
        self.table = ids.new_full((self.last + 2,), -1)
        self.table[ids] = torch.arange(len(ids), device=ids.device)

    def __call__(self, wanted):
        inside = (wanted >= 0) & (wanted <= self.last)
        return self.table[torch.where(inside, wanted, self.last + 1)]


class Items:
    """Weighted keys of documents: `Items(of, key, weight, documents)`, listed in any order.

    Document d has `many[d]` of them from `first[d]` on. `code`, d · keys + the number of the
    key, rises, so that a pair of document and key is found by a binary search.
    """

    def __init__(self, of, key, weight, documents):
        names, key = key.unique(return_inverse=True)
        self.keys, self.many = len(names), torch.bincount(of, minlength=documents)
        self.first = self.many.cumsum(0) - self.many
        self.code, order = (of * self.keys + key).sort()
        self.weight = weight[order]


def cosines(items, page, promo):
    """The sum over common keys of products of weights, float64 (R,), of documents (R,)."""
    many = items.many[page]
    row = torch.arange(len(page), device=page.device).repeat_interleave(many)
    start = items.first[page] - (many.cumsum(0) - many)
    at = start[row] + torch.arange(len(row), device=page.device)  # all keys of all pages
    wanted = items.code[at] + (promo - page)[row] * items.keys  # the same key, of the ad's page
    other = torch.searchsorted(items.code, wanted).clamp(max=len(items.code) - 1)
    products = items.weight[at] * items.weight[other]
    products = torch.where(items.code[other] == wanted, products, 0)
    return items.weight.new_zeros(len(page)).index_add_(0, row, products)


def build(raw, out, folds=0, device="cpu", check=True, batch_rows=250_000):
    """The report, a dict, of the features of folder `raw`, written to folder `out`.

    >>> build("outbrain", "features", device="cuda")["rows"]
    {'train': 209332, 'valid': 99870}

    All else is as in `with_polars.build`.
    """
    output = begin(out, raw, "torch", folds, batch_rows=batch_rows)
    if output.report:
        return output.report
    with output.stage("check"):
        log = outbrain.load(raw) if check else outbrain.scan(raw)
    with output.stage("tables"):
        tables = tables_of(log, folds, torch.device(device))
        clicks = in_order(log["clicks_train"].collect(engine="streaming"))
    batches = list(clicks.iter_slices(batch_rows))
    with output.stage("counts"):
        seen = [_counts(_rows(batch, tables), tables, folds) for batch in batches]
        views, clicked, *days = (sum(found) for found in zip(*seen, strict=True))
        ctr, count, fit = _finish_ads(tables["ads"], views, clicked, days, folds)
        output.json("statistics.json", fit)
    with_polars.write_parts(
        output, batches, lambda batch: _features(batch, tables, ctr, count, fit)
    )
    return finish(output, "torch")


def tables_of(log, folds, device):
    """By name: columns of displays, pages and ads, `Lookup`s of their keys, and `Items`."""
    small = small_tables(log, folds)
    found = {name: _tensors(small[name], device) for name in ("displays", "pages", "ads")}
    keys = {"displays": "display_id", "pages": "document_id", "ads": "ad_id"}
    found["at"] = {name: Lookup(found[name][key]) for name, key in keys.items()}
    documents = [found["pages"]["document_id"], found["ads"]["document_id_promo"]]
    units = {name: _tensors(small[f"unit_{name}"], device) for name in fs.ATTRIBUTES}
    documents += [unit["document_id"] for unit in units.values()]
    many = 1 + max(int(ids.max()) for ids in documents if len(ids))
    return found | {
        "items": {name: Items(*unit.values(), many) for name, unit in units.items()}
    }


def _tensors(frame, device):
    """Columns as tensors, integers as int64, NEVER for null."""
    whole = pl.selectors.integer() | pl.selectors.boolean()
    frame = frame.with_columns(whole.cast(pl.Int64).fill_null(NEVER))
    return {c: torch.tensor(x.to_numpy(), device=device) for c, x in frame.to_dict().items()}


def _rows(batch, tables):
    """By name, for a batch of clicks: ids, clicked, train, fold, positions in the tables."""
    displays, at = tables["displays"], tables["at"]
    rows = _tensors(batch, displays["fold"].device)
    rows |= {"display": at["displays"](rows["display_id"]), "ad": at["ads"](rows["ad_id"])}
    of = rows["display"]
    rows |= {"document": displays["document_id"][of], "fold": displays["fold"][of]}
    rows |= {"page": at["pages"](rows["document"]), "train": displays["train"][of] > 0}
    return rows


def _days(rows, tables):
    """Whole days since the publication of page and ad's page: 0 beyond the limits, -1 where
    unknown.
    """
    now = tables["displays"]["timestamp"][rows["display"]] + outbrain.START_MS
    pages, ads = tables["pages"]["published"], tables["ads"]["published_promo"]
    for published in (pages[rows["page"]], ads[rows["ad"]]):
        days = torch.div(now - published, outbrain.DAY_MS, rounding_mode="floor")
        days = torch.where((days >= 0) & (days <= fs.MAX_AGE_DAYS), days, 0)
        yield torch.where(published == NEVER, -1, days)


def _counts(rows, tables, folds):
    """Train rows by (fold, ad) and their clicks, then rows by 1 + days for both ages."""
    train, ads = rows["train"], len(tables["ads"]["ad_id"])
    at = rows["fold"][train].clamp(min=0) * ads + rows["ad"][train]
    length = max(folds, 1) * ads
    views = torch.bincount(at, minlength=length)
    clicks = torch.bincount(at[rows["clicked"][train] > 0], minlength=length)
    found = [views.view(-1, ads), clicks.view(-1, ads)]
    for days in _days(rows, tables):
        found.append(torch.bincount(1 + days[train], minlength=fs.MAX_AGE_DAYS + 2))
    return found


def _finish_ads(ads, views_FA, clicks_FA, days, folds):
    """(CTRs by column, (1 + folds, A); counts by column, (A,); what is fitted on train)."""
    days = dict(zip(fs.AGES, (found.tolist() for found in days), strict=True))
    days = {
        name: {d - 1 if d else None: n for d, n in enumerate(x)} for name, x in days.items()
    }
    ctr, views = {}, {}
    for key, least in fs.CTR.items():
        _, group = ads[key].unique(return_inverse=True)
        sums = []
        for found in (views_FA, clicks_FA):
            own = found.new_zeros((len(found), len(group))).index_add_(1, group, found)
            total = own.sum(0, keepdim=True)
            sums.append(torch.cat([total - own, total]) if folds else total)
        views[key] = sums[0][-1]
        rate = sums[1].double() / sums[0].clamp(min=1)
        rate = torch.where(sums[0] >= least, rate, 0).float()[:, group]
        ctr[f"{key}_ctr"] = torch.where(ads[key] >= 0, rate, 0)  # fold -1 is the last
        if key in fs.COUNTS:
            views[key, "ads"] = views[key][group]
    fit = fs.fitted({key: views[key].cpu().numpy() for key in fs.COUNTS}, days)
    count = {}
    for key in fs.COUNTS:
        log = torch.log1p(views[key, "ads"].double()) - fit[f"{key}_mean"]
        count[f"{key}_count"] = (log / fit[f"{key}_deviation"]).float()
    return ctr, count, fit


def _features(batch, tables, ctr, count, fit):
    """The finished rows of a batch of clicks, a frame, and `train`."""
    rows = _rows(batch, tables)
    ad, fold = rows["ad"], rows["fold"]
    found = {name: rows[name] for name in fs.KEYS} | {"clicked": rows["clicked"].to(torch.int8)}
    for name, at in (("displays", "display"), ("pages", "page"), ("ads", "ad")):
        for column in tables[name].keys() & {*fs.CATEGORIES, *fs.MULTI_HOT}:
            found[column] = tables[name][column][rows[at]].int()
    found |= {column: rate[fold, ad] for column, rate in ctr.items()}
    found |= {column: values[ad] for column, values in count.items()}
    promo = tables["ads"]["document_id_promo"][ad]
    for name, items in tables["items"].items():
        found[f"sim_{name}"] = cosines(items, rows["document"], promo).float()
    for name, days in zip(fs.AGES, _days(rows, tables), strict=True):
        days = torch.where(days < 0, fit[f"{name}_median"], days.double())
        found[f"{name}_age"] = torch.log1p(days).float()
    found["train"] = rows["train"]
    return pl.DataFrame({c: found[c].cpu().numpy() for c in (*fs.COLUMNS, "train")})
