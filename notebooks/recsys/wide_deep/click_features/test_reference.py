"""The features of `spec`, row after row: the plainest way, slow and to be read.

It follows the article's steps in their order and shares nothing with the three engines but the
names, sizes and hash. Floats are float64. Files are small and clean; nothing is checked. The
tests of the engines hold each of them against these loops.
"""

import csv
import math
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from outbrain import DAY_MS, START_MS

from . import spec as fs


def features_reference(raw, folds=0):
    """(features by set, each a dict of lists; what is fitted), of the files in `raw`.

    >>> features_reference("outbrain")[0]["train"]["clicked"][:3]
    [0, 0, 1]
    """
    rows, items = _joined(Path(raw)), _items(Path(raw))
    rows.sort(key=lambda row: (row["display_id"], row["ad_id"]))
    train = [row for row in rows if row["train"]]
    fit = {f"{name}_median": _median([row[name] for row in train]) for name in fs.AGES}
    for key in fs.COUNTS:
        views = Counter(row[key] for row in train)
        logs = [math.log1p(views[row[key]]) for row in train]
        fit[f"{key}_mean"] = sum(logs) / max(len(logs), 1)
        squares = [(x - fit[f"{key}_mean"]) ** 2 for x in logs]
        fit[f"{key}_deviation"] = math.sqrt(sum(squares) / max(len(logs), 1)) or 1.0
    weights = {name: _weights(found) for name, found in items.items()}
    tables = {key: _views_and_clicks(train, key, folds) for key in fs.CTR}
    found = {name: {column: [] for column in fs.COLUMNS} for name in fs.SETS}
    for row in rows:
        values = {name: row[name] for name in (*fs.KEYS, "clicked")}
        values |= _categories(row) | _multi_hot(row, items)
        values |= _numbers(row, weights, tables, fit, folds)
        for column in fs.COLUMNS:
            found["train" if row["train"] else "valid"][column].append(values[column])
    return found, fit


def _read(raw, name):
    with open(raw / f"{name}.csv", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield {k: None if v in ("", "\\N") else v for k, v in row.items()}


def _joined(raw):
    """Dicts of rows of clicks_train: all keys, and both ages in days (None where unknown)."""
    events = {int(row["display_id"]): row for row in _read(raw, "events")}
    ads = {int(row["ad_id"]): row for row in _read(raw, "promoted_content")}
    meta = {int(row["document_id"]): row for row in _read(raw, "documents_meta")}
    last = max((int(row["publisher_id"] or 0) for row in meta.values()), default=0)
    rows = []
    for click in _read(raw, "clicks_train"):
        row = {name: int(value) for name, value in click.items()}
        event, ad = events[row["display_id"]], ads[row["ad_id"]]
        shown, place = int(event["timestamp"]), event["geo_location"]
        row |= {
            "train": fs.in_train(row["display_id"], shown),
            "platform": event["platform"] or 1,
        }
        row |= {name: fs.text_key(place and place[:length]) for name, length in fs.GEO.items()}
        row |= {name: ad[name] for name in ("campaign_id", "advertiser_id")}
        for suffix, page in (("", event["document_id"]), ("_promo", ad["document_id"])):
            about = meta.get(int(page), {})
            row[f"document_id{suffix}"], row[f"source_id{suffix}"] = (
                page,
                about.get("source_id"),
            )
            row[f"publisher_id{suffix}"] = about.get("publisher_id") or 1 + last + int(page)
            row[f"publish_time{suffix}"] = _days(about.get("publish_time"), shown)
        rows.append(row)
    return rows


def _days(published, shown):
    try:
        when = datetime.strptime(published or "", "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    days = (shown + START_MS - round(when.timestamp() * 1000)) // DAY_MS
    return days if 0 <= days <= fs.MAX_AGE_DAYS else 0


def _median(days):
    return float(median([d for d in days if d is not None] or [0]))


def _items(raw):
    """By attribute: document -> {key: confidence}."""
    found = {name: defaultdict(dict) for name in fs.ATTRIBUTES}
    for name, (file, column) in fs.ATTRIBUTES.items():
        for row in _read(raw, file):
            base, digits = (16, fs.ENTITY_DIGITS) if column == "entity_id" else (10, None)
            try:
                key = int(row[column][:digits], base)
            except ValueError:
                continue
            page = found[name][int(row["document_id"])]
            page[key] = max(page.get(key, 0.0), float(row["confidence_level"]))
    return found


def _weights(items):
    """document -> {key: TF-IDF weight}, of length 1."""
    df = Counter(key for page in items.values() for key in page)
    documents, found = 1 + max(items, default=0), {}
    for document, page in items.items():
        weights = {key: c * math.log(documents / df[key]) for key, c in page.items()}
        length = math.sqrt(sum(w * w for w in weights.values()))
        found[document] = {key: w / length for key, w in weights.items()} if length else {}
    return found


def _views_and_clicks(train, key, folds):
    """(key, fold) -> [views, clicks]; fold None is all of train."""
    found = defaultdict(lambda: [0, 0])
    for row in train:
        for fold in {None, _fold(row, folds)}:
            found[row[key], fold][0] += 1
            found[row[key], fold][1] += row["clicked"]
    return found


def _fold(row, folds):
    inside = row["train"] and folds
    return fs.hash32(row["display_id"] + fs.FOLD_SALT) % folds if inside else None


def _ctr(row, key, table, folds):
    views, clicks = table.get((row[key], None), (0, 0)) if row[key] is not None else (0, 0)
    if (fold := _fold(row, folds)) is not None and row[key] is not None:
        own = table.get((row[key], fold), (0, 0))
        views, clicks = views - own[0], clicks - own[1]
    return clicks / views if views >= fs.CTR[key] else 0.0


def _categories(row):
    keys = {key: int(row[key] or 0) for key in fs.BUCKETS}
    return {f"{key}_hash": fs.hash32(keys[key]) % size for key, size in fs.BUCKETS.items()}


def _multi_hot(row, items):
    values = {}
    for name, size in fs.HOT_BUCKETS.items():
        page = items[name].get(int(row["document_id"]), {})
        order = sorted(page, key=lambda key: (-page[key], key)) + [None] * fs.SLOTS
        for slot, key in enumerate(order[: fs.SLOTS]):
            values[f"{name}_{slot}"] = 0 if key is None else 1 + fs.hash32(key) % (size - 1)
    return values


def _numbers(row, weights, tables, fit, folds):
    values = {f"{key}_ctr": _ctr(row, key, tables[key], folds) for key in fs.CTR}
    for name, of in weights.items():
        page, promo = (of.get(int(row[d]), {}) for d in ("document_id", "document_id_promo"))
        values[f"sim_{name}"] = sum(w * promo.get(key, 0.0) for key, w in page.items())
    for key in fs.COUNTS:
        log = math.log1p(tables[key].get((row[key], None), (0, 0))[0])
        values[f"{key}_count"] = (log - fit[f"{key}_mean"]) / fit[f"{key}_deviation"]
    for name in fs.AGES:
        days = fit[f"{name}_median"] if row[name] is None else row[name]
        values[f"{name}_age"] = math.log1p(days)
    return values


def test_days_since_a_publication():
    assert _days("2016-06-14 04:00:00", 86_400_000 * 3 + 7) == 3
    assert _days("2016-06-15 04:00:00", 0) == _days("1979-01-01 00:00:00", 0) == 0
    assert _days("0000-00-00 00:00:00", 0) is _days(None, 0) is None


def test_a_rate_counts_the_other_folds_alone():
    rows = [{"display_id": n, "ad_id": 7, "clicked": n % 2, "train": True} for n in range(40)]
    table = _views_and_clicks(rows, "ad_id", 3)
    own = [row for row in rows if _fold(row, 3) == _fold(rows[0], 3)]
    others = [row["clicked"] for row in rows if row not in own]
    assert 5 < len(others) < 40
    assert _ctr(rows[0], "ad_id", table, 3) == sum(others) / len(others)
    assert _ctr(rows[0] | {"train": False}, "ad_id", table, 3) == 0.5
