"""The log as Spark reads it: a session, the files with their types, the checks of
`outbrain.load`, and the hashes of `spec`.
"""

from pathlib import Path

import outbrain
import polars as pl
from helpers import device

from . import spec as fs

try:  # a peer, which the page can show where it is not installed
    from pyspark.sql import SparkSession, Window
    from pyspark.sql import functions as F
except ImportError:
    F = SparkSession = Window = None

TYPES = {
    pl.Int32: "int",
    pl.Int8: "tinyint",
    pl.Int64: "bigint",
    pl.Float64: "double",
    pl.String: "string",
    outbrain.SCHEMAS["documents_meta"]["publish_time"]: "string",
}

LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.autoBroadcastJoinThreshold": "256m",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "256m",
}


def session(master=None, memory="2g", threads=None):
    """A SparkSession: that of a `master`, or local, with so much heap and so many threads.

    threads: None means all that this process may use.
    """
    builder = SparkSession.builder.master(master or f"local[{threads or device.cores()}]")
    local = LOCAL | {"spark.driver.memory": memory}
    for name, value in (SETTINGS if master else SETTINGS | local).items():
        builder = builder.config(name, value)
    found = builder.getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    return found


def heap(raw):
    """The heap that a local session needs for a folder of files: `session(memory=heap(raw))`.

    A gigabyte for each 25 MB of clicks, two at least: the tables of ads and pages are sent to
    all workers whole, and those of five million clicks do not fit into two.
    """
    clicks = Path(raw, "clicks_train.csv")
    size = clicks.stat().st_size if clicks.is_file() else 0
    return f"{max(2, -(-size // 25_000_000))}g"


def scan(spark, raw, text=False):
    """The files of `raw` by name, with the types of `outbrain.SCHEMAS` or as text."""
    frames = {}
    for name, schema in outbrain.SCHEMAS.items():
        path = Path(raw) / f"{name}.csv"
        with path.open(encoding="utf-8") as file:
            header = file.readline().rstrip("\r\n").split(",")
        if missing := [column for column in schema if column not in header]:
            raise ValueError(f"{path.name} lacks the columns {missing}; its header is {header}")
        kinds = {column: "string" if text else TYPES[kind] for column, kind in schema.items()}
        kinds = ", ".join(f"`{column}` {kinds.get(column, 'string')}" for column in header)
        reader = spark.read.schema(kinds).options(header=True, quote="", nullValue="\\N")
        frames[name] = reader.csv(str(path.resolve())).select(*schema)
    return frames


def load(spark, raw, bad="raise"):
    """As `scan`, checked as `outbrain.load` checks; bad rows are refused or left out.

    Raises ValueError that says what is wrong.
    """
    frames, problems = {}, []
    for name, frame in scan(spark, raw, text=True).items():
        wrong, columns = F.lit(False), []
        for column, kind in outbrain.SCHEMAS[name].items():
            text = F.when(F.col(column) != "", F.col(column))
            value = text if TYPES[kind] == "string" else text.try_cast(TYPES[kind])
            fits = value.isNotNull()
            if column == "clicked":
                fits = fits & value.isin(0, 1)
            elif TYPES[kind] != "string":
                fits = fits & (value >= 0) & (value < float("inf"))
            fits = F.coalesce(fits, F.lit(False))
            wrong = wrong | ~(fits | text.isNull() if column in outbrain.MAY_MISS else fits)
            columns.append(value.alias(column))
        rows, count = frame.agg(F.count("*"), F.count_if(wrong)).first()
        if count:
            problems.append(f"{name}.csv: {count:,} of {rows:,} rows are bad")
        frames[name] = (frame.where(~wrong) if count else frame).select(columns)
    if problems and bad == "raise":
        raise ValueError("; ".join(problems) + '. bad="drop" leaves bad rows out')
    _check_together(frames)
    return frames


def _check_together(frames):
    clicks, last = frames["clicks_train"], frames["events"].agg(F.max("timestamp")).first()[0]
    if last is None or not outbrain.LAST_MS // 1000 < last <= outbrain.LAST_MS:
        raise ValueError(
            f"events.csv: timestamps end at {last}; allowed are milliseconds since "
            f"{outbrain.START_MS}, up to {outbrain.LAST_MS:,}. Are these seconds?"
        )
    for name, key in (("events", "display_id"), ("promoted_content", "ad_id")):
        if lost := clicks.join(frames[name], key, "left_anti").count():
            raise ValueError(f"{lost:,} clicks have a {key} that {name}.csv lacks")


def with_hashes(frame, keys):
    """`frame` with `spec.hash32` of columns: `with_hashes(frame, {"name": key})`.

    A null is key 0. Each line is a projection of its own: in one expression, a key that is
    named twice in each would be computed 16 times.
    """
    steps = (
        lambda key: F.coalesce(key.cast("bigint"), F.lit(0)),
        lambda key: _low(key).bitwiseXOR(_low(F.shiftright(key, 32) * fs.FOLD)),
        lambda key: _low(key.bitwiseXOR(F.shiftright(key, 16)) * fs.FIRST),
        lambda key: _low(key.bitwiseXOR(F.shiftright(key, 15)) * fs.SECOND),
        lambda key: key.bitwiseXOR(F.shiftright(key, 14)),
    )
    for step in steps:
        frame = frame.withColumns({name: step(key) for name, key in keys.items()})
        keys = {name: F.col(name) for name in keys}
    return frame


def _low(key):
    return key.bitwiseAND(F.lit(fs.LOW))


def with_buckets(frame, keys, size):
    """`frame` with the int columns `<key>_hash` of columns by key."""
    frame = with_hashes(frame, {f"{key}_hash": column for key, column in keys.items()})
    buckets = {f"{key}_hash": (F.col(f"{key}_hash") % size[key]).cast("int") for key in keys}
    return frame.withColumns(buckets)


def text_key(text):
    """`spec.text_key` of a column."""
    key = F.lit(0).cast("bigint")
    for at in range(1, fs.TEXT_CHARACTERS + 1):
        character = F.coalesce(F.ascii(F.substring(text, at, 1)), F.lit(0))
        key = (key * fs.TEXT_BASE + character) % fs.TEXT_MODULUS
    return key
