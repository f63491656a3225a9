"""The log as Spark reads it: a session, the file systems that Spark knows, the files with their
types, the checks of `outbrain.load`, and the hashes of `spec`.
"""

import outbrain
import polars as pl
from outbrain import files

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

SETTINGS = {  # where whoever starts Spark has set nothing else
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.autoBroadcastJoinThreshold": "256m",
    "spark.sql.adaptive.autoBroadcastJoinThreshold": "256m",
}


def session():
    """The SparkSession that is there, or one of the master and the heap that Spark was started
    with: by `spark-submit`, by PYSPARK_SUBMIT_ARGS, or else Spark's own choice, this machine.
    """
    spark = SparkSession.builder.getOrCreate()
    given = spark.sparkContext.getConf()
    for name, value in SETTINGS.items():
        if not given.contains(name):
            spark.conf.set(name, value)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class HadoopStore:
    """What `folder.Store` does, at any address that Spark reads: a path, `hdfs://…`, `s3a://…`.

    Raises OSError where a file cannot get its name.
    """

    def __init__(self, spark, path):
        self.hadoop = spark._jvm.org.apache.hadoop
        self.path, conf = str(path).rstrip("/"), spark._jsc.hadoopConfiguration()
        root = self.hadoop.fs.Path(self.path)
        self.fs = root.getFileSystem(conf)
        self.path = self.fs.makeQualified(root).toString()

    def at(self, name):
        return self.hadoop.fs.Path(f"{self.path}/{name}")

    def names(self):
        self.fs.mkdirs(self.at(""))
        found = (status.getPath().getName() for status in self.fs.listStatus(self.at("")))
        return sorted(name for name in found if name[0] != ".")

    def has(self, name):
        return self.fs.exists(self.at(name))

    def read(self, name, first=0, count=None):
        """The text of a file, or of `count` bytes from `first` on."""
        stream = self.fs.open(self.at(name))
        try:
            stream.seek(first)
            found = stream.readNBytes(2**31 - 1 if count is None else count)
        finally:
            stream.close()
        return bytes(found).decode("utf-8", "replace")

    def write(self, name, text):
        stream = self.fs.create(self.at(name), True)
        stream.write(bytearray(text.encode()))
        stream.close()

    def publish(self, hidden, name):
        """As in `Store`; a file system of objects, such as s3a, copies."""
        self.remove(name)
        if not self.fs.rename(self.at(hidden), self.at(name)):
            raise OSError(f"{self.path}/{hidden} could not be renamed to {name}")

    def remove(self, name):
        self.fs.delete(self.at(name), True)

    def stamp(self, name):
        found = self.fs.getFileStatus(self.at(name))
        return [found.getLen(), found.getModificationTime()]


def scan(spark, raw, mark=()):
    """The files of the store `raw` by name, with the types of `outbrain.SCHEMAS`.

    mark: names of columns that are added, true for a line whose fields are too many, too few
    or of other types.
    """
    frames = {}
    for name, schema in outbrain.SCHEMAS.items():
        header = raw.read(f"{name}.csv", 0, 4096).partition("\n")[0].rstrip("\r")
        files.check_header(name, header)
        kinds = [
            f"`{column}` {TYPES.get(schema.get(column), 'string')}"
            for column in header.split(",")
        ]
        kinds += [f"`{column}` string" for column in mark]
        reader = spark.read.schema(", ".join(kinds)).options(
            header=True,
            quote="",
            nullValue="\\N",
            columnNameOfCorruptRecord="".join(mark) or None,
        )
        frames[name] = reader.csv(f"{raw.path}/{name}.csv").select(*schema, *mark)
    return frames


def load(spark, raw):
    """As `scan`, checked as `outbrain.load` checks; ValueError says what is wrong."""
    raw = raw if hasattr(raw, "stamp") else HadoopStore(spark, raw)
    problems = []
    for name, frame in scan(spark, raw, ("unread",)).items():
        wrong = F.col("unread").isNotNull()
        for column, kind in outbrain.SCHEMAS[name].items():
            value = F.col(column)
            if column == "clicked":
                fits = value.isin(0, 1)
            elif TYPES[kind] == "string":
                fits = value.isNotNull()
            else:
                fits = (value >= 0) & (value < float("inf"))
            known = value.isNull() if column in outbrain.MAY_MISS else F.lit(False)
            wrong = wrong | ~F.coalesce(fits | known, known)
        rows, count = frame.agg(F.count("*"), F.count_if(wrong)).first()
        if count:
            problems.append(f"{name}.csv: {count:,} of {rows:,} rows are bad")
        elif raw.read(f"{name}.csv", raw.stamp(f"{name}.csv")[0] - 1, 1) != "\n":
            problems.append(files.cut_short(name))
    if problems:
        raise ValueError("\n".join(problems))
    frames = scan(spark, raw)
    files.check_times(*frames["events"].agg(F.min("timestamp"), F.max("timestamp")).first())
    _check_together(frames)
    return frames


def _check_together(frames):
    clicks, counts = frames["clicks_train"], {}
    for name, key, what in files.KNOWN:
        lost = clicks.join(frames[name].select(key), key, "left_anti").count()
        counts[f"{what} that {name}.csv lacks"] = lost
    shown = clicks.groupBy("display_id").agg(
        F.max("clicked").alias("clicked"),
        (F.count("*") - F.countDistinct("ad_id")).alias("again"),
    )
    silent, again = shown.agg(
        F.count_if(F.col("clicked") == 0), F.count_if(F.col("again") > 0)
    ).first()
    counts |= {"displays without a click": silent, "displays that show an ad twice": again}
    for name, key, what in files.ONCE:
        twice = frames[name].groupBy(key).count().where("count > 1").count()
        counts[f"{what} that {name}.csv has twice"] = twice
    files.check_counts(counts)


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
