"""A loader of the log's files that checks them: `load`; `scan` trusts them.

`load` takes Kaggle's files as they are once unzipped, and those of `generator.generate`:

- a missing file or column, or a row with more fields than the header: refused, by name;
- a bad row (no number where one must be, a click that is neither 0 nor 1, an identifier left
  out): refused, with how many there are and the first one's line;
- a file that does not end with a line end: refused, since its last line may be half of one;
- "\\N" and empty fields: unknown, which is allowed for platform, place, source, publisher and
  time of publication; a time that cannot be read is unknown, too;
- timestamps are milliseconds since 1465876799998. Seconds, and absolute times, are refused;
- clicks without their display's event or their ad, a display without a click, an ad shown
  twice in one, an event, an ad or a document twice: refused, since only a file cut short or
  written twice explains them.
"""

from pathlib import Path

import polars as pl

from .schemas import LAST_MS, MAY_MISS, SCHEMAS, START_MS, TEXT, TIME

ONCE = (  # file, key, what the key names: each may come once
    ("events", "display_id", "displays"),
    ("promoted_content", "ad_id", "ads"),
    ("documents_meta", "document_id", "documents"),
)
KNOWN = (  # file, key, what clicks_train.csv may not hold without it
    ("events", "display_id", "clicks of displays"),
    ("promoted_content", "ad_id", "clicks on ads"),
)
_PAGE = "https://www.kaggle.com/c/outbrain-click-prediction/data"


def load(folder):
    """The files of `folder` as lazy frames by name, checked, with the dtypes of `SCHEMAS`.

    >>> load("outbrain")["clicks_train"].head(1).collect().columns
    ['display_id', 'ad_id', 'clicked']

    The check reads every file once. Raises FileNotFoundError that names what is missing, and
    ValueError that lists what is wrong.
    """
    folder = Path(folder)
    _check_names(folder)
    if wrong := list(filter(None, (_problem(folder, name) for name in SCHEMAS))):
        raise ValueError("\n".join(wrong))
    frames = scan(folder)
    times = frames["events"].select(low=pl.min("timestamp"), high=pl.max("timestamp"))
    check_times(*times.collect().row(0))
    _check_joins(frames)
    return frames


def _check_names(folder):
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


def _problem(folder, name):
    """What is wrong with one file, in words; "" if nothing."""
    path, schema = folder / f"{name}.csv", SCHEMAS[name]
    with path.open("rb") as file:
        header = file.readline().decode("utf-8", "replace").rstrip("\r\n")
        check_header(name, header)
        file.seek(-1, 2)
        whole = file.read() == b"\n"
    flags = [flag.alias(column) for column, flag in _wrong(schema).items()]
    anything = pl.any_horizontal(flags)
    # all columns are asked for, since Polars finds rows that are too long only then
    counted = _text(path).select(pl.len(), anything.sum().alias("bad"), pl.all().null_count())
    try:
        rows, bad = counted.collect(engine="streaming").row(0)[:2]
    except pl.exceptions.PolarsError as error:
        raise ValueError(
            f"{path.name}: a row has more fields than the header's {header.count(',') + 1}, "
            f"or cannot be read: {str(error).splitlines()[0]}"
        ) from error
    if bad:
        first = _text(path).filter(anything).head(1).collect()
        column = list(schema)[first.select(flags).row(0).index(True)]
        where = f"line {first['line'][0]:,}, {column} is {first[column][0]!r}"
        problem = f"{path.name}: {bad:,} of {rows:,} rows are bad; the first is "
        return f"{problem}{where}, {_wanted(column)}"
    return "" if whole else cut_short(name)


def cut_short(name):
    """The words for a file without its last line end."""
    problem = f"{name}.csv: does not end with a line end, so its last line may be cut short; "
    return problem + "add one if the file is whole"


def check_header(name, header):
    """None; raises ValueError for a header line that lacks columns."""
    if lacking := [column for column in SCHEMAS[name] if column not in header.split(",")]:
        raise ValueError(
            f"{name}.csv: no column {', '.join(lacking)}; its header is {header!r}, "
            f"{','.join(SCHEMAS[name])!r} is needed"
        )


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


def _wanted(column):
    if column == "clicked":
        return "0 or 1 is wanted"
    dtype = next(schema[column] for schema in SCHEMAS.values() if column in schema)
    return "a value is wanted" if dtype == TEXT else f"{dtype} of 0 or more is wanted"


def check_times(low, high):
    """None; raises ValueError unless times from `low` to `high` are milliseconds of the log."""
    if high is None:
        raise ValueError("events.csv has no rows")
    told = f"events.csv: timestamps run from {low:,} to {high:,}; allowed are milliseconds "
    told += f"since {START_MS}, 0 to {LAST_MS:,}"
    if high > 1_000_000_000_000:
        raise ValueError(f"{told}. These are absolute: subtract {START_MS}")
    if high > LAST_MS:
        raise ValueError(f"{told}. Are these absolute seconds?")
    if high <= LAST_MS // 1000:
        raise ValueError(
            f"{told}. All lie in the first {high // 60_000 + 1} minutes: are these seconds?"
        )


def check_counts(counts):
    """None; raises ValueError unless all counts, by what they count in words, are 0."""
    if wrong := [f"{count:,} {what}" for what, count in counts.items() if count]:
        raise ValueError(
            f"the files do not belong together, or one is cut short: {'; '.join(wrong)}"
        )


def _check_joins(frames):
    clicks = frames["clicks_train"]
    shown = clicks.group_by("display_id").agg(
        pl.col("clicked").sum(), again=pl.len() - pl.col("ad_id").n_unique()
    )
    tests = {
        "displays without a click": shown.filter(pl.col("clicked") == 0),
        "displays that show an ad twice": shown.filter(pl.col("again") > 0),
    }
    for name, key, what in KNOWN:
        tests[f"{what} that {name}.csv lacks"] = clicks.join(frames[name], on=key, how="anti")
    for name, key, what in ONCE:
        twice = frames[name].group_by(key).len().filter(pl.col("len") > 1)
        tests[f"{what} that {name}.csv has twice"] = twice
    counted = [test.select(pl.len()) for test in tests.values()]
    counts = [found.item() for found in pl.collect_all(counted, engine="streaming")]
    check_counts(dict(zip(tests, counts, strict=True)))
