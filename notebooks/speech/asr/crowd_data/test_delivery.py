"""Deliverables: what is written is read, and what is wrong with one is told."""

import csv
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from fine_tuning import read_manifest, write_manifest

from .client import CrowdClient
from .delivery import COLUMNS, DAMAGES, _seconds, delivery_zip, read_delivery
from .sandbox import CrowdServer
from .transcripts import manifest_entries


@pytest.fixture
def entries(tmp_path):
    """Six manifest entries with sounds of 0.5, 0.6, ... seconds."""
    made = []
    for number in range(6):
        seconds = 0.5 + number / 10
        path = tmp_path / f"{number}.wav"
        soundfile.write(path, np.sin(np.arange(round(16_000 * seconds)) / 9) / 2, 16_000)
        one = {
            "audio_filepath": str(path),
            "duration": seconds,
            "text": f"one {'two ' * number}".strip(),
        }
        made.append(one | {"speaker": "theo", "accent": "USA"})
    return made


def read(packed, tmp_path, **limits):
    (tmp_path / "d.zip").write_bytes(packed)
    return read_delivery(tmp_path / "d.zip", tmp_path / "out", **limits)


def changed(packed, **files):
    """`packed` with files replaced (bytes), removed (None) or changed (a function)."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(packed)) as old, zipfile.ZipFile(out, "w") as new:
        contents = {name: old.read(name) for name in old.namelist()}
        for name, change in files.items():
            contents[name] = change(contents[name]) if callable(change) else change
        for name, content in contents.items():
            if content is not None:
                new.writestr(name, content)
    return out.getvalue()


def table(packed):
    with zipfile.ZipFile(io.BytesIO(packed)) as pack:
        text = pack.read("metadata.tsv").decode()
    return list(csv.reader(io.StringIO(text), delimiter="\t"))


def with_cell(packed, row, column, value):
    """`packed` with one cell of its table changed."""
    rows = table(packed)
    rows[row][rows[0].index(column)] = value
    text = "\n".join("\t".join(cells) for cells in rows) + "\n"
    return changed(packed, **{"metadata.tsv": text.encode()})


def test_the_table_has_the_columns_of_the_article(entries):
    rows = table(delivery_zip(entries))
    assert rows[0] == ["", *COLUMNS] and len(rows) == 7
    first = dict(zip(rows[0], rows[1], strict=True))
    assert first[""] == "0" and first["RelativeFileName"] == "Audio/165559628.wav"
    assert first["Prompt"] == "One." and first["Duration"] == "00:00:00.500"
    assert first["SpeakerId"] == "theo" and first["Age"] == ""


def test_pandas_reads_the_table_as_the_article_does(entries):
    pandas = pytest.importorskip("pandas")
    with zipfile.ZipFile(io.BytesIO(delivery_zip(entries))) as pack:
        dataset = pandas.read_csv(pack.open("metadata.tsv"), sep="\t", index_col=[0])
    assert list(dataset.columns) == list(COLUMNS) and len(dataset) == 6


def test_the_same_entries_give_the_same_bytes(entries):
    assert delivery_zip(entries) == delivery_zip(entries)
    with zipfile.ZipFile(io.BytesIO(delivery_zip(entries))) as pack:
        assert {entry.date_time[0] for entry in pack.infolist()} == {2021}


def test_reads_what_was_written(entries, tmp_path):
    found = read(delivery_zip(entries), tmp_path)
    assert [row["Prompt"] for row in found.rows] == [
        e["text"].capitalize() + "." for e in entries
    ]
    assert not found.skipped and list(found.rows[0]) == list(COLUMNS)
    for row, entry in zip(found.rows, entries, strict=True):
        sound = (found.folder / row["RelativeFileName"]).read_bytes()
        assert sound == Path(entry["audio_filepath"]).read_bytes()


@pytest.mark.parametrize("seconds", [0.0004, 59.9996, 3599.9999, 36_000.5])
def test_durations_are_written_as_a_clock(entries, seconds):
    row = dict(zip(*table(delivery_zip([entries[0] | {"duration": seconds}])), strict=True))
    hours, minutes, rest = row["Duration"].split(":")
    assert abs(int(hours) * 3600 + int(minutes) * 60 + float(rest) - seconds) < 0.0006
    assert len(rest) == 6 and float(rest) < 60


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("no file", "165559630.wav is not there"),
        ("not audio", "no sound that can be read"),
        ("duplicate id", "RecordingId 165559629 stands in row 2 already"),
    ],
)
def test_a_damaged_row_is_skipped_with_its_reason(entries, tmp_path, kind, said):
    assert kind in DAMAGES
    found = read(delivery_zip(entries, {2: kind}), tmp_path)
    assert len(found.rows) == 5 and [skip.row for skip in found.skipped] == [3]
    assert said in found.skipped[0].reason


def test_every_row_is_used_or_told(entries, tmp_path):
    found = read(delivery_zip(entries, dict(enumerate(DAMAGES, 1))), tmp_path)
    assert len(found.rows) == len(found.skipped) == 3


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("SampleRate", "8000", "has 16000 Hz, its row says '8000'"),
        ("Duration", "00:00:00.700", "lasts 0.500 s, its row says '00:00:00.700'"),
        ("Duration", "0.5", "lasts 0.500 s, its row says '0.5'"),
        ("Duration", "00:00:61.000", "its row says"),
        ("Prompt", "  ", "no Prompt"),
        ("RecordingId", "", "no RecordingId"),
        ("RelativeFileName", "", "of 0 characters"),
        ("RelativeFileName", "../../Audio/165559628.wav", "leaves the folder"),
        ("RelativeFileName", "/etc/passwd", "leaves the folder"),
        ("RelativeFileName", "..\\..\\x.wav", "leaves the folder"),
        ("RelativeFileName", "C:x.wav", "leaves the folder"),
        ("RelativeFileName", "Audio", "Audio is not there"),
        ("RelativeFileName", "x" * 9000, "of 9000 characters"),
        ("RelativeFileName", "metadata.tsv", "no sound that can be read"),
        ("Native", "True\textra", "a field too many"),
    ],
)
def test_a_row_that_does_not_fit_is_skipped(entries, tmp_path, column, value, said):
    found = read(with_cell(delivery_zip(entries), 1, column, value), tmp_path)
    assert [skip.row for skip in found.skipped] == [1] and said in found.skipped[0].reason
    assert len(found.rows) == 5


def test_a_row_cut_short_is_skipped(entries, tmp_path):
    packed = changed(delivery_zip(entries), **{"metadata.tsv": lambda text: text[:-40]})
    found = read(packed, tmp_path)
    assert [skip.row for skip in found.skipped] == [6] and "too few" in found.skipped[0].reason


def test_a_sound_cut_short_is_skipped(entries, tmp_path):
    name = "Audio/165559628.wav"
    found = read(changed(delivery_zip(entries), **{name: lambda b: b[: len(b) // 2]}), tmp_path)
    assert [skip.row for skip in found.skipped] == [1]


def test_an_empty_sound_is_skipped(entries, tmp_path):
    found = read(changed(delivery_zip(entries), **{"Audio/165559628.wav": b""}), tmp_path)
    assert "no sound that can be read" in found.skipped[0].reason


def test_sounds_of_two_channels_are_skipped(entries, tmp_path):
    sound = io.BytesIO()
    soundfile.write(sound, np.zeros((8000, 2)), 16_000, format="WAV")
    found = read(
        changed(delivery_zip(entries), **{"Audio/165559628.wav": sound.getvalue()}), tmp_path
    )
    assert "2 channels" in found.skipped[0].reason


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no metadata.tsv"),
        (b"", "lacks the columns"),
        (b"\xff\xfe\x00", "no table of UTF-8"),
        (b"a\tb\n1\t2\n", "lacks the columns"),
        (b'\t"\n', "no table"),
        ("\t".join(COLUMNS).encode() + b'\n"' + b"x" * 200_000, "no table"),
    ],
)
def test_refuses_a_table_that_cannot_be_read(entries, tmp_path, content, said):
    with pytest.raises(ValueError, match=said):
        read(changed(delivery_zip(entries), **{"metadata.tsv": content}), tmp_path)


def test_a_quote_that_never_ends_swallows_no_rows(entries, tmp_path):
    with pytest.raises(ValueError, match="no table of UTF-8 text"):
        read(with_cell(delivery_zip(entries), 2, "Prompt", '"One two.'), tmp_path)


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-30], lambda b: b"PK" + b[100:], lambda b: b""]
)
def test_refuses_a_corrupt_zip_and_leaves_nothing(entries, tmp_path, damage):
    with pytest.raises(ValueError, match="no whole zip"):
        read(damage(delivery_zip(entries)), tmp_path)
    assert not (tmp_path / "out").exists()


def test_refuses_a_zip_with_a_wrong_byte(entries, tmp_path):
    packed = bytearray(delivery_zip(entries))
    packed[len(packed) // 2] ^= 0xFF
    with pytest.raises(ValueError, match="no whole zip"):
        read(bytes(packed), tmp_path)


def test_refuses_names_that_leave_the_folder_links_and_bombs(entries, tmp_path):
    packed = delivery_zip(entries)
    with pytest.raises(ValueError, match="refused"):
        read(changed(packed, **{"../evil.wav": b"x"}), tmp_path)
    with pytest.raises(ValueError, match="more than"):
        read(packed, tmp_path, max_bytes=10_000)
    with pytest.raises(ValueError, match="more than"):
        read(packed, tmp_path, max_files=3)
    link, out = zipfile.ZipInfo("Audio/link.wav"), io.BytesIO()
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(out, "w") as pack:
        pack.writestr(link, "/etc/passwd")
    with pytest.raises(ValueError, match="no plain file"):
        read(out.getvalue(), tmp_path)
    assert not (tmp_path / "out").exists() and not (tmp_path / "evil.wav").exists()


@pytest.mark.parametrize(
    "clock", ["00:00:60.0", "00:60:00.0", "0:00:01", "1.5", "", "-0:00:01"]
)
def test_a_time_that_is_none_is_not_read(clock):
    assert _seconds(clock) is None
    assert _seconds("01:02:03.25") == 3723.25


def test_the_way_from_the_api_to_a_manifest_loses_no_row(entries, tmp_path):
    packed = delivery_zip(entries, {1: "not audio", 4: "no file"})
    with CrowdServer(packed) as server:
        account = server.url, server.url, server.client_id, server.client_secret
        server.faults.drop_after_bytes, server.faults.expired_tokens = [1000], 1
        with CrowdClient(*account, backoff_s=0.001) as client:
            found = client.deliverables(server.project_id)
            archive = client.download(server.project_id, found[0]["id"], tmp_path / "d.zip")
    delivery = read_delivery(archive, tmp_path / "out")
    made, unspelled = manifest_entries(delivery.rows, delivery.folder)
    again = read_manifest(write_manifest(made, tmp_path / "m.jsonl"))
    assert [e["text"] for e in again] == [entries[i]["text"] for i in (0, 2, 3, 5)]
    assert len(again) + len(delivery.skipped) + len(unspelled) == len(entries)


@pytest.mark.parametrize(
    "damage", [{9: "no file"}, {-1: "no file"}, {0: "fire"}, {0: "duplicate id"}]
)
def test_refuses_damage_that_does_not_exist(entries, damage):
    with pytest.raises(ValueError, match="allowed are rows 0 to 5"):
        delivery_zip(entries, damage)
