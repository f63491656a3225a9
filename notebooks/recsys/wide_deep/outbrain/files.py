"""A loader of the log's files that checks them: `load`; `scan` trusts them.

`load` takes Kaggle's files as they are once unzipped, and those of `generator.generate`, which
follow the same schemas. What it does about what it meets:

- a missing file or column, or a row with more fields than the header: refused, by name;
- a bad row (no number where one must be, a click that is neither 0 nor 1, an identifier left
  out): refused with its line, or with `bad="drop"` left out and counted;
- a file that does not end with a line end: the last line may be half of one, so it is bad;
- "\\N" and empty fields: unknown, which is allowed for platform, place, source, publisher and
  time of publication; a time that cannot be read is unknown, too;
- timestamps are milliseconds since 1465876799998. Seconds, and absolute times, are refused;
- clicks without their display's event or their ad, a display without a click, an ad shown
  twice in one: refused, since only a file cut short explains them; with `partial=True` they
  are allowed, and clicks without event or ad are left out.

An unseen category is none of its business: identifiers pass as they are, and hashing gives each
a bucket.
"""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from .schemas import LAST_MS, MAY_MISS, SCHEMAS, START_MS, TEXT, TIME

_PAGE = "https://www.kaggle.com/c/outbrain-click-prediction/data"


@dataclass(frozen=True)
class Audit:
    """What one file holds: its rows, how many are bad, and the first problem in words."""

    name: str
    rows: int
    bad: int
    problem: str


def load(folder, bad="raise", partial=False):
    """The files of `folder` as lazy frames by name, checked, with the dtypes of `SCHEMAS`.

    >>> load("outbrain")["clicks_train"].head(1).collect().columns
    ['display_id', 'ad_id', 'clicked']

    The check reads every file once. `bad`: "raise" or "drop"; `partial`: a piece of the log is
    expected (both are described above). Raises FileNotFoundError that names what is missing,
    and ValueError that lists what is wrong.
    """
    folder = Path(folder)
    if bad not in ("raise", "drop"):
        raise ValueError(f"bad={bad!r}; allowed are 'raise' and 'drop'")
    audits = check(folder)
    wrong = [audit.problem for audit in audits.values() if audit.bad]
    if wrong and bad == "raise":
        raise ValueError("\n".join([*wrong, 'bad="drop" leaves bad rows out']))
    frames = {name: _typed(folder, name, audits[name]) for name in audits}
    _check_times(frames["events"], partial)
    if partial:
        clicks, events = frames["clicks_train"], frames["events"]
        clicks = clicks.join(events, on="display_id", how="semi", maintain_order="left")
        ads = frames["promoted_content"]
        frames["clicks_train"] = clicks.join(ads, on="ad_id", how="semi", maintain_order="left")
    else:
        _check_joins(frames)
    return frames


def check(folder):
    """An `Audit` of each file in `folder` by name, files and headers checked already.

    Raises as `load` does for missing files and columns, and for rows that are too long.
    """
    folder = Path(folder)
    missing = [name for name in SCHEMAS if not (folder / f"{name}.csv").is_file()]
    if missing:
        zipped = [name for name in missing if list(folder.glob(f"{name}.csv.*"))]
        found = sorted(path.name for path in folder.glob("*")) if folder.is_dir() else "nothing"
        raise FileNotFoundError(
            f"{folder} lacks {', '.join(f'{name}.csv' for name in missing)}; it holds {found}. "
            + (f"Unzip {', '.join(zipped)} first. " if zipped else "")
            + f"The real files come from {_PAGE} after accepting the rules; "
            "`outbrain.generate(folder, 60_000)` writes others like them"
        )
    return {name: _audit(folder, name) for name in SCHEMAS}


def _audit(folder, name):
    path, schema = folder / f"{name}.csv", SCHEMAS[name]
    header = _header(path, schema)
    flags = [flag.alias(column) for column, flag in _wrong(schema).items()]
    anything = pl.any_horizontal(flags)
    # all columns are asked for, since Polars finds rows that are too long only then
    counted = _text(path).select(pl.len(), anything.sum().alias("bad"), pl.all().null_count())
    try:
        rows, bad = counted.collect(engine="streaming").row(0)[:2]
    except pl.exceptions.PolarsError as error:
        raise ValueError(
            f"{path.name}: a row has more fields than the header's {len(header)}, "
            f"or cannot be read: {str(error).splitlines()[0]}"
        ) from error
    if not bad and not _ends_whole(path):
        problem = f"{path.name}: does not end with a line end, so its last line, {rows + 1:,}, "
        return Audit(name, rows, 1, problem + "may be cut short; add one if the file is whole")
    problem = ""
    if bad:
        first = _text(path).filter(anything).head(1).collect()
        column = list(schema)[first.select(flags).row(0).index(True)]
        problem = f"{path.name}: {bad:,} of {rows:,} rows are bad; the first is line "
        problem += f"{first['line'][0]:,}, {column} is {first[column][0]!r}, {_wanted(column)}"
    return Audit(name, rows, bad, problem)


def _header(path, schema):
    with path.open("rb") as file:
        header = file.readline().decode("utf-8", "replace").rstrip("\r\n").split(",")
    if lacking := [column for column in schema if column not in header]:
        raise ValueError(
            f"{path.name}: no column {', '.join(lacking)}; its header is {','.join(header)!r}, "
            f"{','.join(schema)!r} is needed"
        )
    return header


def _ends_whole(path):
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read() == b"\n"


def _text(path):
    """All columns as text, with the number of the line in the file."""
    return pl.scan_csv(
        path,
        infer_schema=False,
        null_values=["\\N"],
        quote_char=None,
        row_index_name="line",
        row_index_offset=2,
    )


def _wrong(schema):
    """An expression for each column of text that is true where its value is bad."""
    wrong = {}
    for column, dtype in schema.items():
        raw, value = pl.col(column), _value(column, dtype)
        wrong[column] = pl.lit(False) if column in MAY_MISS else raw.is_null()
        if dtype in (TEXT, TIME):
            continue
        fits = value.is_in([0, 1]) if column == "clicked" else value >= 0
        if dtype == pl.Float64:
            fits = fits & value.is_finite()
        wrong[column] = wrong[column] | (raw.is_not_null() & ~fits.fill_null(False))
    return wrong


def _value(column, dtype):
    if dtype == TIME:
        return pl.col(column).str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="ms", strict=False)
    return pl.col(column).cast(dtype, strict=False)


def scan(folder):
    """The files of `folder` as lazy frames by name, taken as they are."""
    return {name: _scan(Path(folder), name) for name in SCHEMAS}


def _scan(folder, name):
    schema = SCHEMAS[name]
    plain = {c: TEXT if dtype == TIME else dtype for c, dtype in schema.items()}
    frame = pl.scan_csv(
        folder / f"{name}.csv", schema_overrides=plain, null_values=["\\N"], quote_char=None
    ).select(list(schema))
    times = [_value(c, dtype).alias(c) for c, dtype in schema.items() if dtype == TIME]
    return frame.with_columns(times)


def _typed(folder, name, audit):
    if not audit.bad:
        return _scan(folder, name)
    path, schema = folder / f"{name}.csv", SCHEMAS[name]
    frame = _text(path).filter(~pl.any_horizontal(list(_wrong(schema).values())))
    if not _ends_whole(path):
        frame = frame.filter(pl.col("line") <= audit.rows)
    return frame.select(_value(column, dtype) for column, dtype in schema.items())


def _wanted(column):
    if column == "clicked":
        return "0 or 1 is wanted"
    dtype = next(schema[column] for schema in SCHEMAS.values() if column in schema)
    return "a value is wanted" if dtype == TEXT else f"{dtype} of 0 or more is wanted"


def _check_times(events, partial):
    low, high = (
        events.select(pl.min("timestamp").alias("low"), pl.max("timestamp").alias("high"))
        .collect(engine="streaming")
        .row(0)
    )
    if high is None:
        raise ValueError("events.csv has no rows")
    told = (
        f"events.csv: timestamps run from {low:,} to {high:,}; allowed are milliseconds since "
    )
    told += f"{START_MS}, 0 to {LAST_MS:,}"
    if high > 1_000_000_000_000:
        raise ValueError(f"{told}. These are absolute: subtract {START_MS}")
    if high > LAST_MS:
        raise ValueError(f"{told}. Are these absolute seconds?")
    if high <= LAST_MS // 1000 and not partial:
        raise ValueError(
            f"{told}. All lie in the first {high // 60_000 + 1} minutes: are these seconds? "
            "If they are milliseconds of a piece of the log, say partial=True"
        )


def _check_joins(frames):
    clicks = frames["clicks_train"]
    shown = clicks.group_by("display_id").agg(
        pl.col("clicked").sum(), again=pl.len() - pl.col("ad_id").n_unique()
    )
    tests = {
        "clicks of displays that events.csv lacks": clicks.join(
            frames["events"], on="display_id", how="anti"
        ),
        "clicks on ads that promoted_content.csv lacks": clicks.join(
            frames["promoted_content"], on="ad_id", how="anti"
        ),
        "displays without a click": shown.filter(pl.col("clicked") == 0),
        "displays that show an ad twice": shown.filter(pl.col("again") > 0),
        "displays that events.csv has twice": _twice(frames["events"], "display_id"),
        "ads that promoted_content.csv has twice": _twice(frames["promoted_content"], "ad_id"),
        "documents that documents_meta.csv has twice": _twice(
            frames["documents_meta"], "document_id"
        ),
    }
    counted = [test.select(pl.len()) for test in tests.values()]
    counts = [found.item() for found in pl.collect_all(counted, engine="streaming")]
    wrong = [f"{count:,} {what}" for what, count in zip(tests, counts, strict=True) if count]
    if wrong:
        raise ValueError(
            f"the files do not belong together, or one is cut short: {'; '.join(wrong)}. "
            "If they are a piece of the log, say partial=True"
        )


def _twice(frame, key):
    return frame.group_by(key).len().filter(pl.col("len") > 1)
