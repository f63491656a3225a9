"""The loader of Outbrain's files: what it takes, what it refuses, and in which words."""

import shutil

import polars as pl
import pytest

import outbrain

DISPLAYS = 400


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outbrain") / "log"
    outbrain.generate(folder, DISPLAYS, seed=3)
    return folder


@pytest.fixture
def log(made, tmp_path):
    return shutil.copytree(made, tmp_path / "log")


def edit(folder, name, change):
    """Changes the lines of a file, each without its line end; the header is the first."""
    path = folder / f"{name}.csv"
    lines = change(path.read_text().splitlines())
    path.write_text("\n".join(lines) + "\n")


def swap(line, column, value):
    fields = line.split(",")
    return ",".join([*fields[:column], str(value), *fields[column + 1 :]])


def each(column, change):
    """For `edit`: a change of one field of every row."""
    return lambda lines: (
        lines[:1] + [swap(line, column, change(line.split(",")[column])) for line in lines[1:]]
    )


def one(number, column, value):
    """For `edit`: another value in one field of the line `number`, counted as editors do."""
    return lambda lines: [
        swap(line, column, value) if at == number else line for at, line in enumerate(lines, 1)
    ]


def test_every_file_comes_with_the_dtypes_of_its_schema(log):
    frames = outbrain.load(log)
    assert set(frames) == set(outbrain.SCHEMAS)
    for name, schema in outbrain.SCHEMAS.items():
        assert frames[name].collect().schema == pl.Schema(schema)


def test_rows_written_as_in_kaggles_files_are_read(log):
    real = {
        "clicks_train": "display_id,ad_id,clicked\n1,42337,0\n1,139684,1\n",
        "events": "display_id,uuid,document_id,timestamp,platform,geo_location\n"
        "1,cb8c55702adb93,379743,61,3,US>SC>519\n2,79a85fa78311b9,5,1200000000,\\N,\n",
        "promoted_content": "ad_id,document_id,campaign_id,advertiser_id\n"
        "42337,938164,5969,1499\n139684,1085937,17527,2563\n",
        "documents_meta": "document_id,source_id,publisher_id,publish_time\n"
        "1595802,1,603,2016-06-05 00:00:00\n1524246,,,\n",
        "documents_topics": "document_id,topic_id,confidence_level\n"
        "1595802,140,0.0731131601068925\n",
        "documents_entities": "document_id,entity_id,confidence_level\n"
        "1524246,f9eec25663db4cd83183f5c805186f16,0.672865314504701\n",
        "documents_categories": "document_id,category_id,confidence_level\n1595802,1611,0.92\n",
    }
    for name, text in real.items():
        (log / f"{name}.csv").write_text(text)
    frames = outbrain.load(log)
    events = frames["events"].collect()
    assert events["platform"].to_list() == [3, None]
    assert events["geo_location"].to_list() == ["US>SC>519", None]
    meta = frames["documents_meta"].collect()
    assert str(meta["publish_time"][0]) == "2016-06-05 00:00:00"
    assert meta.row(1) == (1524246, None, None, None)


def test_other_files_may_lie_beside(log):
    (log / "page_views.csv").write_text("uuid\n")
    assert "page_views" not in outbrain.load(log)


def test_missing_files_are_named_with_a_way_to_get_them(log):
    (log / "events.csv").unlink()
    (log / "documents_meta.csv").rename(log / "documents_meta.csv.zip")
    with pytest.raises(FileNotFoundError) as told:
        outbrain.load(log)
    assert "lacks events.csv, documents_meta.csv" in str(told.value)
    assert "Unzip documents_meta first" in str(told.value) and "kaggle.com" in str(told.value)


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="it holds nothing"):
        outbrain.load(tmp_path / "none")


def test_a_missing_column_is_named(log):
    edit(log, "events", lambda lines: [lines[0].replace("timestamp", "time"), *lines[1:]])
    with pytest.raises(ValueError, match=r"events\.csv: no column timestamp; its header is"):
        outbrain.load(log)


def test_an_empty_file_is_refused(log):
    (log / "events.csv").write_text("")
    with pytest.raises(ValueError, match=r"events\.csv: no column display_id"):
        outbrain.load(log)


def test_columns_may_come_in_any_order_with_others_between(log):
    want = outbrain.load(log)["promoted_content"].collect()

    def turn(lines):
        return [",".join([*line.split(",")[::-1], "x"]) for line in lines]

    edit(log, "promoted_content", turn)
    assert outbrain.load(log)["promoted_content"].collect().equals(want)


@pytest.mark.parametrize(
    ("name", "column", "value", "words"),
    [
        ("clicks_train", 2, "2", r"line 7, clicked is '2', 0 or 1 is wanted"),
        ("clicks_train", 2, "yes", r"clicked is 'yes'"),
        ("clicks_train", 2, "", r"clicked is None"),
        ("clicks_train", 1, "12.5", r"ad_id is '12.5', Int32 of 0 or more is wanted"),
        ("clicks_train", 0, "9999999999", r"display_id is '9999999999'"),
        ("events", 3, "2016-06-14", r"timestamp is '2016-06-14'"),
        ("events", 3, "-1", r"timestamp is '-1'"),
        ("events", 1, "", r"uuid is None, a value is wanted"),
        ("documents_topics", 2, "high", r"confidence_level is 'high'"),
        ("documents_topics", 2, "nan", r"confidence_level is 'nan'"),
        ("documents_entities", 2, "-0.5", r"confidence_level is '-0.5'"),
    ],
)
def test_a_bad_value_is_refused_with_its_line(log, name, column, value, words):
    edit(log, name, one(7, column, value))
    with pytest.raises(ValueError, match=rf"{name}\.csv: 1 of [\d,]+ rows are bad.*{words}"):
        outbrain.load(log)


def test_all_bad_files_are_reported_at_once(log):
    edit(log, "documents_topics", one(4, 1, "sports"))
    edit(log, "documents_categories", one(9, 2, "much"))
    with pytest.raises(ValueError, match=r"(?s)topics\.csv: 1 of.*categories\.csv: 1 of"):
        outbrain.load(log)


def test_a_row_with_too_many_fields_is_refused(log):
    edit(log, "events", lambda lines: [*lines[:50], lines[50] + ",1,2", *lines[51:]])
    with pytest.raises(ValueError, match=r"events\.csv: a row has more fields"):
        outbrain.load(log)


def test_unknown_places_platforms_and_times_are_allowed(log):
    edit(log, "events", one(5, 4, "\\N"))
    edit(log, "events", one(5, 5, ""))
    edit(log, "documents_meta", one(5, 3, "0000-00-00 00:00:00"))
    frames = outbrain.load(log)
    assert frames["events"].collect().row(3)[4:] == (None, None)
    assert frames["documents_meta"].collect()["publish_time"][3] is None


def test_relative_seconds_are_refused(log):
    edit(log, "events", each(3, lambda ms: int(ms) // 1000))
    with pytest.raises(ValueError, match="are these seconds"):
        outbrain.load(log)


def test_absolute_milliseconds_are_refused(log):
    edit(log, "events", each(3, lambda ms: int(ms) + outbrain.START_MS))
    with pytest.raises(ValueError, match="These are absolute: subtract 1465876799998"):
        outbrain.load(log)


def test_absolute_seconds_are_refused(log):
    edit(log, "events", each(3, lambda ms: (int(ms) + outbrain.START_MS) // 1000))
    with pytest.raises(ValueError, match="absolute seconds"):
        outbrain.load(log)


def test_a_file_cut_inside_a_line_is_refused(log):
    path = log / "clicks_train.csv"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match=r"clicks_train\.csv: 1 of [\d,]+ rows are bad"):
        outbrain.load(log)


def test_a_file_cut_before_its_last_line_end_is_refused(log):
    path = log / "documents_topics.csv"
    path.write_bytes(path.read_bytes()[:-2])  # a shorter number is a number
    with pytest.raises(
        ValueError, match=r"documents_topics\.csv: does not end with a line end"
    ):
        outbrain.load(log)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("clicks_train", "1 displays without a click"),
        ("events", r"[\d,]+ clicks of displays that events.csv lacks"),
        ("promoted_content", r"[\d,]+ clicks on ads that promoted_content.csv lacks"),
    ],
)
def test_a_file_cut_between_lines_is_refused(log, name, words):
    def cut(lines):
        if name != "clicks_train":
            return lines[: len(lines) // 2]
        last = max(at for at, line in enumerate(lines) if line.endswith(",1"))
        return lines[:last]  # the last display loses its click

    edit(log, name, cut)
    with pytest.raises(ValueError, match=f"do not belong together.*{words}"):
        outbrain.load(log)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("clicks_train", "1 displays that show an ad twice"),
        ("events", "1 displays that events.csv has twice"),
        ("promoted_content", "1 ads that promoted_content.csv has twice"),
        ("documents_meta", "1 documents that documents_meta.csv has twice"),
    ],
)
def test_repeated_keys_are_refused(log, name, words):
    edit(log, name, lambda lines: [*lines, lines[1]])
    with pytest.raises(ValueError, match=words):
        outbrain.load(log)


def test_unseen_categories_pass_as_they_are(log):
    edit(log, "documents_categories", one(5, 1, "987654321"))
    found = outbrain.load(log)["documents_categories"].collect()
    assert found["category_id"][3] == 987654321
