"""The files of the Outbrain click log: their columns and types, and where their clock starts.

Kaggle's competition has one file more, page_views.csv, which no feature of the article uses.
"""

import polars as pl

START_MS = 1_465_876_799_998  # timestamps count from here: 2016-06-14 04:00 UTC
DAY_MS = 86_400_000
LAST_MS = 16 * DAY_MS  # the log spans 15 days

_ID, TEXT, TIME = pl.Int32, pl.String, pl.Datetime("ms")
SCHEMAS = {
    "clicks_train": {"display_id": _ID, "ad_id": _ID, "clicked": pl.Int8},
    "events": {
        "display_id": _ID,
        "uuid": TEXT,
        "document_id": _ID,
        "timestamp": pl.Int64,
        "platform": pl.Int8,
        "geo_location": TEXT,
    },
    "promoted_content": {
        "ad_id": _ID,
        "document_id": _ID,
        "campaign_id": _ID,
        "advertiser_id": _ID,
    },
    "documents_meta": {
        "document_id": _ID,
        "source_id": _ID,
        "publisher_id": _ID,
        "publish_time": TIME,
    },
    "documents_topics": {"document_id": _ID, "topic_id": _ID, "confidence_level": pl.Float64},
    "documents_entities": {
        "document_id": _ID,
        "entity_id": TEXT,
        "confidence_level": pl.Float64,
    },
    "documents_categories": {
        "document_id": _ID,
        "category_id": _ID,
        "confidence_level": pl.Float64,
    },
}
MAY_MISS = {"platform", "geo_location", "source_id", "publisher_id", "publish_time"}
