"""The features of `spec` as tensor operations: on a GPU, or wherever tensors lie.

What is done for each row of the log: joins are look-ups in tables addressed by the key itself,
sums by group are `index_add` and `bincount`, and the cosines of two documents' short lists
compare all with all, `SLAB` slots at a time; longer lists have several slabs. The files and the
small tables of displays, pages and ads are `polars_tables`'.

Shapes: `E` displays, `P` pages, `A` ads, `D` 1 + the largest document_id, `S` slabs of `W`
slots, `R` rows of a batch. Integers are int64 unless said otherwise, NEVER where a key or a
time is unknown; weights are float64.
"""

from dataclasses import dataclass

import outbrain
import polars as pl
import torch

from . import spec as fs
from . import with_polars
from .folder import begin, finish
from .polars_tables import in_order
from .polars_tables import tables_of as small_tables

NEVER = -(2**62)
SLAB = 8


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


@dataclass(frozen=True)
class Items:
    """The lists of an attribute: document d has `many[d]` slabs from `first[d]` on."""

    key_SW: torch.Tensor  # int32, numbers of keys; -1 where empty
    weight_SW: torch.Tensor
    first: torch.Tensor
    many: torch.Tensor


def slabs_of(of, key, weight, documents):
    """The Items of as many documents, whose weighted keys are listed in any order."""
    order = of.argsort(stable=True)
    of, key, weight = of[order], key[order], weight[order]
    many = torch.bincount(of, minlength=documents)
    rank = torch.arange(len(of), device=of.device) - (many.cumsum(0) - many)[of]
    slabs = -(-many // SLAB)
    first = slabs.cumsum(0) - slabs
    key_SW = key.new_full((int(slabs.sum()), SLAB), -1, dtype=torch.int32)
    weight_SW = weight.new_zeros(key_SW.shape)
    at = first[of] + rank // SLAB, rank % SLAB
    key_SW[at] = key.unique(return_inverse=True)[1].int()
    weight_SW[at] = weight
    return Items(key_SW, weight_SW, first, slabs)


def cosines(items, page, promo):
    """The sum over common keys of products of weights, float64 (R,), of documents (R,)."""
    found = items.weight_SW.new_zeros(len(page))
    slabs = items.many[page], items.many[promo]
    for s in range(int(slabs[0].max()) if len(page) else 0):
        for t in range(int(slabs[1].max())):
            at = torch.nonzero((slabs[0] > s) & (slabs[1] > t))[:, 0]
            one, other = items.first[page[at]] + s, items.first[promo[at]] + t
            key_RW, weight_RW = items.key_SW[other], items.weight_SW[other]
            total = found[at]
            for slot in range(SLAB):
                key = items.key_SW[one, slot]
                same_RW = (key[:, None] == key_RW) & (key >= 0)[:, None]
                total += items.weight_SW[one, slot] * (weight_RW * same_RW).sum(1)
            found[at] = total
    return found


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
        "items": {name: slabs_of(*unit.values(), many) for name, unit in units.items()}
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


def features_of(rows, tables, ctr, count, fit):
    """The features by column, in order, of the rows of a batch."""
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
    return {column: found[column] for column in fs.COLUMNS}
