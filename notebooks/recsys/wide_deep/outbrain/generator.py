"""Outbrain's files, written from a drawn world, and the truth beside them.

`generate` writes the CSV files with Kaggle's names, headers and habits: "\\N" for an unknown
platform, places with and without a state, documents without a source, a date or a topic, dates
that cannot be. Confidences are noisy, so that similarities computed from the files follow those
of the world without being them. What nobody could know from the files is drawn again from the
seed when it is asked for. The files are written chunk by chunk, in bounded memory.
"""

import json
import os
import shutil
import tempfile
from binascii import hexlify
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from .catalogue import TOPICS, Effects, catalogue, heaps, zipf_draws
from .schemas import START_MS
from .world import SEEN, chunks, splitmix64

_FORMAT = 2  # raised when the same arguments begin to mean other files


@dataclass(frozen=True)
class World:
    """A generated log and what is true of it.

    The arrays follow the rows of clicks_train.csv: `appeal` (what the reader likes about an ad,
    the position on the page aside), `probability` (of a click, the position included), `ad_id`
    and `display_id`.
    """

    folder: Path
    displays: int
    seed: int
    effects: Effects

    appeal = property(lambda self: self._drawn[0])
    probability = property(lambda self: self._drawn[1])
    ad_id = property(lambda self: self._drawn[2])
    display_id = property(lambda self: self._drawn[3])

    @cached_property
    def _drawn(self):
        ids = self.catalogue().ads.ids
        chunked = [
            (one.appeal, one.probability, ids[one.ad], np.repeat(one.display_id, one.size))
            for one in chunks(self.catalogue())
        ]
        return [np.concatenate(parts) for parts in zip(*chunked, strict=True)]

    def rows(self, display_id, ad_id):
        """The rows of clicks_train.csv (from 0) that show these ads, int64 like `display_id`.

        Raises ValueError for an ad that its display does not show.
        """
        wanted = np.asarray(display_id, np.int64) * 2**32 + np.asarray(ad_id)
        rows = self.display_id * 2**32 + self.ad_id  # ascending, as the file is
        found = np.searchsorted(rows, wanted).clip(max=len(rows) - 1)
        if (lost := rows[found] != wanted).any():
            display, ad = divmod(int(wanted[lost][0]), 2**32)
            raise ValueError(f"display {display} does not show ad {ad}")
        return found

    def catalogue(self):
        """The Catalogue of pages, ads and effects, drawn again from the seed."""
        return catalogue(self.displays, self.seed, self.effects)

    def seen(self, terms=SEEN):
        """The sum of terms of the utility, drawn again: float64, in the rows' order."""
        drawn = chunks(self.catalogue())
        return np.concatenate([sum(one.terms[name] for name in terms) for one in drawn])


def generate(folder, n_displays, seed=0, effects=None):
    """The World of a new log in `folder`: 60,000 displays take about a second.

    >>> world = generate("outbrain", 60_000)
    >>> outbrain.load("outbrain")["events"].select(pl.len()).collect().item()
    60000

    The same arguments write the same bytes. A folder that holds this log is kept as it is;
    ValueError for one that holds anything else. A run that is killed leaves no `folder`.
    """
    folder, effects = Path(folder), effects or Effects()
    about = {"format": _FORMAT, "displays": n_displays, "seed": seed}
    about |= {"effects": asdict(effects)}
    if folder.exists() and any(folder.iterdir()):
        if _about(folder) != about:
            raise ValueError(
                f"{folder} holds something else ({_about(folder) or 'no generated log'}); "
                "name an empty or a new folder"
            )
        return World(folder, n_displays, seed, effects)
    world = catalogue(n_displays, seed, effects)
    folder.parent.mkdir(parents=True, exist_ok=True)
    temp = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        _write_documents(world, temp)
        _write_displays(world, temp)
        (temp / "about.json").write_text(json.dumps(about, indent=1) + "\n")
        temp.chmod(0o755)
        os.replace(temp, folder)  # an empty folder may be replaced, a full one not
    except BaseException:
        shutil.rmtree(temp, ignore_errors=True)
        raise
    return World(folder, n_displays, seed, effects)


def _about(folder):
    path = folder / "about.json"
    return json.loads(path.read_text()) if path.is_file() else None


def _write_documents(world, folder):
    """The five files that say what pages and ads are."""
    rng = np.random.default_rng([world.seed, 2])
    documents, ads = world.documents, world.ads
    ids, count = documents.ids, len(documents.ids)
    order = np.argsort(ads.ids)
    promoted = {
        "ad_id": ads.ids,
        "document_id": ids[ads.document],
        "campaign_id": ads.campaign + 1,
        "advertiser_id": ads.advertiser + 1,
    }
    _csv(folder, "promoted_content", {name: x[order] for name, x in promoted.items()})
    known = np.flatnonzero(rng.random(count) < 0.99)
    published_ms = documents.published_ms[known] + START_MS
    absurd = rng.random(len(known)) < 0.005
    published_ms[absurd] = rng.choice([2.9e11, 1.79e12], absurd.sum()).astype(np.int64)
    meta = {
        "document_id": ids[known],
        "source_id": _with_gaps(rng, documents.source[known] + 1, 0.01),
        "publisher_id": _with_gaps(rng, documents.publisher[known] + 1, 0.03),
        "publish_time": _with_gaps(rng, published_ms, 0.15),
    }
    times = pl.from_epoch("publish_time", "ms").dt.to_string("%Y-%m-%d %H:%M:%S")
    _csv(folder, "documents_meta", pl.DataFrame(meta).with_columns(times))
    _write_attributes(world, folder, rng)


def _write_attributes(world, folder, rng):
    """Topics, categories and entities of every page."""
    documents, ids = world.documents, world.documents.ids
    topics, weights = documents.topics_DT.astype(np.int64), documents.weights_DT
    share = weights / weights.sum(1, keepdims=True)
    _attributes(rng, folder, "topics", ids, topics, share, 0.832)
    kinds = world.topic_category[topics[:, :2]].astype(np.int64)
    split = share[:, :2] / share[:, :2].sum(1, keepdims=True)
    _attributes(rng, folder, "categories", ids, 1000 + 9 * kinds, split, 0.943)
    pool = max(8, heaps(world.displays, 1_000_000) // TOPICS)
    entity = topics * pool + zipf_draws(rng, topics.size, pool, 1).reshape(topics.shape)
    entity = np.where(rng.random(entity.shape) < 0.8, entity, -1)
    strength = np.where(entity >= 0, 0.3 + 0.7 * rng.random(entity.shape), 0)
    _attributes(rng, folder, "entities", ids, entity, strength * (weights > 0), 0.8)


def _attributes(rng, folder, kind, ids, what_DK, share_DK, known):
    """documents_<kind>.csv: rows where the share is above zero, of a part of the documents."""
    confidence = share_DK * np.exp(0.25 * rng.standard_normal(share_DK.shape))
    confidence = np.round(np.clip(confidence, 0, 1), 9)
    confidence *= (rng.random(len(ids)) < known)[:, None]
    name = {"topics": "topic_id", "categories": "category_id", "entities": "entity_id"}[kind]
    at, slot = np.nonzero(confidence > 0.008)
    value = what_DK[at, slot]
    if kind == "entities":
        mixed = [splitmix64(value.astype(np.uint64), k) for k in (7, 8)]
        value = _hex(np.stack(mixed, 1), 32)
    found = {"document_id": ids[at], name: value, "confidence_level": confidence[at, slot]}
    frame = pl.DataFrame(found)
    once = frame.unique(["document_id", name], keep="first", maintain_order=True)
    _csv(folder, f"documents_{kind}", once)


def _write_displays(world, folder):
    places = pl.Series(world.places)
    for number, drawn in enumerate(chunks(world)):
        rng = np.random.default_rng([world.seed, 3, number])
        _csv(folder, "events", _events(rng, world, drawn, places), number == 0)
        shown = {"display_id": np.repeat(drawn.display_id, drawn.size)}
        shown |= {"ad_id": world.ads.ids[drawn.ad], "clicked": drawn.clicked}
        _csv(folder, "clicks_train", shown, number == 0)


def _events(rng, world, drawn, places):
    count = len(drawn.page)
    geo = places.gather(drawn.place)
    parts = pl.Series(rng.choice(4, count, p=[0.003, 0.02, 0.01, 0.967]).astype(np.uint8))
    return pl.DataFrame(
        {
            "display_id": drawn.display_id,
            "uuid": _hex(drawn.user[:, None], 14),
            "document_id": world.documents.ids[drawn.page],
            "timestamp": drawn.timestamp_ms,
            "platform": drawn.platform,
            "geo_location": geo,
        }
    ).with_columns(
        platform=pl.when(pl.Series(rng.random(count) < 0.0005))
        .then(pl.lit("\\N"))
        .otherwise(pl.col("platform").cast(pl.String)),
        geo_location=pl.when(parts > 0).then(
            pl.col("geo_location").str.split(">").list.head(pl.lit(parts)).list.join(">")
        ),
    )


def _csv(folder, name, columns, header=True):
    """Appends columns to `name`.csv, after a header if asked for."""
    with open(folder / f"{name}.csv", "ab") as file:
        pl.DataFrame(columns).write_csv(file, include_header=header)


def _with_gaps(rng, values, share):
    return pl.Series(values).zip_with(
        pl.Series(rng.random(len(values)) >= share), pl.Series([None], dtype=pl.Int64)
    )


def _hex(numbers_NK, digits):
    """The first `digits` hexadecimal digits of rows of uint64."""
    text = np.frombuffer(hexlify(numbers_NK.astype(">u8").tobytes()), "S1")
    text = text.reshape(len(numbers_NK), -1)[:, :digits]
    return np.ascontiguousarray(text).view(f"S{digits}").ravel().astype(f"U{digits}")
