"""A deliverable of recorded speech: a zip with metadata.tsv and Audio/*.wav, written and read.

The table has the columns that the article shows, behind an index without a name. Writing is for
the `sandbox`. Reading trusts nothing; what is wrong with a row is told, and the row is kept."""

import csv
import errno
import io
import lzma
import os
import re
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections import namedtuple
from pathlib import Path, PurePosixPath

import soundfile

from .transcripts import Skipped

COLUMNS = ("RecordingId", "PromptId", "RelativeFileName", "Prompt", "Duration", "SpeakerId")
COLUMNS += ("Gender", "Age", "Manufacturer", "DeviceType", "Accent", "Domain", "SampleRate")
COLUMNS += ("BitDepth", "AudioCommunicationBand", "LivingCountry", "Native")
COLUMNS += ("RecordingEnvironment",)
TABLE = "metadata.tsv"
DAMAGES = ("no file", "not audio", "duplicate id")
MAX_TABLE_BYTES, MAX_NAME, MAX_SOUND_S, SLACK_S = 10**8, 255, 3600, 0.01
Delivery = namedtuple("Delivery", "folder rows skipped")


def read_delivery(archive, folder, max_bytes=10**10, max_files=100_000):
    """The Delivery in a zip: its `folder` unpacked, the good `rows` (dicts of strings), and the
    rows `skipped` (each a Skipped with its reason): every row is in one of them.

    >>> delivery = read_delivery("deliverable.zip", "speech")
    >>> delivery.rows[0]["Prompt"], delivery.skipped[0].reason
    ('Three one four.', 'Audio/165559631.wav is not there')

    A row is skipped for a field too many or too few, an id that an earlier row has, no prompt,
    a file name that is none or leaves the folder, a file that is missing or no sound, and a
    duration or rate other than the file's. Raises ValueError as `extract`, and for a table that
    is missing, not UTF-8, or without the article's columns."""
    folder, rows, skipped = extract(archive, folder, max_bytes, max_files), [], []
    seen = {}
    for number, row in enumerate(_table(folder / TABLE), 1):
        name = row.get("RecordingId") or ""
        reason = _problem(row, folder)
        if name and name in seen:
            reason = f"RecordingId {name} stands in row {seen[name]} already"
        seen.setdefault(name, number)
        if reason:
            skipped.append(Skipped(number, name, reason))
        else:
            rows.append({key: row[key] for key in COLUMNS})
    return Delivery(folder, rows, skipped)


def delivery_zip(entries, damage=None):
    """The bytes of a deliverable with one row for each entry of `digit_speech.save`. `damage`
    maps the index of a row to one of `DAMAGES`, to see what a client does with it. What is
    unknown of a speaker stays empty."""
    damage, rows, sounds = damage or {}, [], {}
    for index, kind in damage.items():
        if kind not in DAMAGES or not (kind == "duplicate id") <= index < len(entries):
            allowed = f"rows 0 to {len(entries) - 1}, for a duplicate from 1, and {DAMAGES}"
            raise ValueError(f"damage {kind!r} of row {index}: allowed are {allowed}")
    for index, entry in enumerate(entries):
        number, kind = 165_559_628 + index, damage.get(index)
        minutes, ms = divmod(round(entry["duration"] * 1000), 60_000)
        clock = f"{minutes // 60:02d}:{minutes % 60:02d}:{ms // 1000:02d}.{ms % 1000:03d}"
        row = dict.fromkeys(COLUMNS, "") | {"RecordingId": str(number), "Duration": clock}
        row |= {"PromptId": str(64_977_250 + index), "RelativeFileName": f"Audio/{number}.wav"}
        row |= {"Prompt": entry["text"].capitalize() + ".", "Domain": "digits"}
        row |= {"SpeakerId": entry["speaker"], "Accent": entry["accent"], "Gender": "Male"}
        row |= {"SampleRate": "16000", "BitDepth": "16", "RecordingEnvironment": "room"}
        row |= {"AudioCommunicationBand": "Narrowband"}
        if kind != "no file":
            sound = Path(entry["audio_filepath"]).read_bytes()
            sounds[row["RelativeFileName"]] = b"no sound" if kind == "not audio" else sound
        if kind == "duplicate id":
            row["RecordingId"] = rows[index - 1]["RecordingId"]
        rows.append({"": index, **row})
    table = io.StringIO()
    writer = csv.DictWriter(table, ["", *COLUMNS], delimiter="\t", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as pack:
        for name, content in [(TABLE, table.getvalue()), *sounds.items()]:
            entry = zipfile.ZipInfo(name, (2021, 3, 22, 14, 34, 36))  # the same bytes each time
            pack.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _seconds(clock):
    """Seconds of "00:00:02.815", or None where it is no such time."""
    match = re.fullmatch(r"(\d{2,4}):([0-5]\d):([0-5]\d(?:\.\d{1,9})?)", clock)
    return match and int(match[1]) * 3600 + int(match[2]) * 60 + float(match[3])


def _table(path):
    """The rows of metadata.tsv as dicts; ValueError for a table that cannot be read."""
    if not path.is_file() or path.stat().st_size > MAX_TABLE_BYTES:
        raise ValueError(f"no {path.name} of at most {MAX_TABLE_BYTES:,} bytes: {path.parent}")
    try:
        with path.open(encoding="utf-8-sig", newline="") as text:
            reader = csv.DictReader(text, delimiter="\t", strict=True)
            rows, names = list(reader), reader.fieldnames or []
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is no table of UTF-8 text with tabs: {error}") from error
    if missing := [name for name in COLUMNS if name not in names]:
        raise ValueError(f"{path} lacks the columns {missing}; it has {names[:40]}")
    return rows


def _problem(row, folder):
    """Why a row cannot be used, or None."""
    if None in row or None in row.values():
        return "a field too many or too few"
    if not row["RecordingId"] or not row["Prompt"].strip():
        return "no RecordingId" if not row["RecordingId"] else "no Prompt"
    name = row["RelativeFileName"]
    if not 0 < len(name) <= MAX_NAME:
        return f"a RelativeFileName of {len(name)} characters"
    parts = PurePosixPath(name).parts
    if {"..", "/"} & set(parts) or re.search(r"[\\:\0]", name):
        return f"RelativeFileName {name!r} leaves the folder"
    try:
        if not (folder / name).is_file():
            return f"{name} is not there"
        head = soundfile.info(folder / name)
        if head.channels != 1 or not 0 < head.duration <= MAX_SOUND_S:
            told = f"{head.channels} channels and {head.duration:.0f} s"
            return f"{name} has {told}; one channel and up to {MAX_SOUND_S} s are needed"
        sound_N, rate_hz = soundfile.read(folder / name, dtype="float32")  # a whole one?
    except (RuntimeError, OSError) as error:
        return f"{name} is no sound that can be read: {error}"
    if row["SampleRate"] != str(rate_hz):
        return f"{name} has {rate_hz} Hz, its row says {row['SampleRate']!r}"
    told_s, real_s = _seconds(row["Duration"]), len(sound_N) / rate_hz
    if told_s is None or abs(told_s - real_s) > SLACK_S:
        return f"{name} lasts {real_s:.3f} s, its row says {row['Duration']!r}"
    return None


def extract(archive, folder, max_bytes=10**10, max_files=100_000):
    """The `folder` (a `Path`) with the unpacked files of a zip archive: all, or nothing. Raises
    ValueError for a damaged archive, names that leave the folder, links, more than `max_files`
    entries or `max_bytes` bytes; FileExistsError for a folder in use."""
    archive, folder = Path(archive), Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} holds other files; name a new one for {archive.name}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    temp = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        with zipfile.ZipFile(archive) as pack:
            _unpack(pack, temp, archive.name, max_bytes, max_files)
        temp.chmod(0o755)
        os.replace(temp, folder)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError) as error:
        raise ValueError(f"{archive.name} is no whole zip archive: {error}") from error
    except OSError as error:  # EINVAL: an offset before the start
        if error.errno not in (None, errno.EINVAL) or isinstance(error, FileExistsError):
            raise
        raise ValueError(f"{archive.name} is no whole zip archive: {error}") from error
    finally:
        shutil.rmtree(temp, ignore_errors=True)
    return folder


def _unpack(pack, folder, label, max_bytes, max_files):
    """None; every entry of an archive as a file; a stream gives no more than its size."""
    entries = pack.infolist()
    if len(entries) > max_files or sum(entry.file_size for entry in entries) > max_bytes:
        raise ValueError(f"{label} refused: more than {max_files} entries or {max_bytes} bytes")
    for entry in entries:
        name = entry.filename.rstrip("/")
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise ValueError(f"{label} refused: {name!r} is no plain file")
        if {"", ".", ".."} & set(name.split("/")) or re.search(r"\\|\0|^[A-Za-z]:", name):
            raise ValueError(f"{label} refused: {name!r} is no relative name that stays below")
        target = folder / name
        (target if entry.is_dir() else target.parent).mkdir(parents=True, exist_ok=True)
        if not entry.is_dir():
            with pack.open(entry) as stream, target.open("xb") as out:
                shutil.copyfileobj(stream, out)
