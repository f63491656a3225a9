"""Manifests for training: JSON lines, transcripts a model can spell, splits and their leaks.

A manifest has one JSON object a line, the format of NVIDIA NeMo that the article writes; we add
`speaker` and `accent`:

    {"audio_filepath": "a.wav", "duration": 3.45, "text": "this is a transcript"}

Where we differ from the article:

- Its normaliser lowers the case and takes out marks of noise. A character outside the model's
  vocabulary that stays in ("$", "%", a Greek letter) is skipped or becomes blank in training,
  silently. Here every character is spelled, dropped by a rule and counted, or reported.
- It splits rows at random, so the same people speak in both parts. `speaker_split` keeps them
  apart; `leaks` counts what a split shares.
"""

import json
import math
import os
import re
import tempfile
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soundfile
from digit_speech import WORDS
from quartznet import VOCABULARY

_NOISE = re.compile(r"\[[a-z_]+/\]")  # "[b_s/]", "[filler/]": noises marked in a transcript
_DECIMAL = re.compile(r"(?<=[0-9])[.,:](?=[0-9])")  # "3.5", "10:30": said in many ways
_APOSTROPHES = dict.fromkeys("‘’ʼ´`", "'")  # noqa: RUF001
_UNSAID = set('.,;:!?"()[]{}…“”„«»¡¿')  # dropped
_PARTS = set("-–—/_\t\n\r")  # noqa: RUF001  these part words


@dataclass(frozen=True)
class Transcript:
    """A normalised text; `dropped` and `unknown` count characters (and marked noises).

    `unknown` are those that no rule covers. They are not in `text`, so a transcript that has
    some must not be trained on.
    """

    text: str
    dropped: Counter
    unknown: Counter


@dataclass(frozen=True)
class Skipped:
    """A row that was left out: its number (from 1), its id, why, and the row itself."""

    row: int
    name: str
    reason: str
    content: dict = field(repr=False, default_factory=dict)


@dataclass(frozen=True)
class Leaks:
    """What two parts of a split share. `test_share` is the part of the test rows whose speaker
    is also in training; `recordings` counts what single recordings both were composed from.
    """

    speakers: tuple
    test_share: float
    files: int
    texts: int
    recordings: int


def normalise(text, say_number=None):
    """A Transcript in the 28 characters of `VOCABULARY`.

    >>> normalise("The Avengers' extinction, at 7!").text
    "the avengers' extinction at seven"
    >>> normalise("50 €").unknown
    Counter({'€': 1})

    Upper case is lowered, "[b_s/]" and its like and punctuation are dropped, hyphens part
    words, letters lose their accents ("é" becomes "e"; `dropped` has the accent). A number is
    said digit by digit; `say_number` may map "26" to "twenty six" instead. A point, comma or
    colon between two digits is unknown. Raises TypeError for what is no string.
    """
    if not isinstance(text, str):
        raise TypeError(f"a transcript must be a string, got {type(text).__name__}: {text!r}")
    say_number = say_number or (lambda digits: " ".join(WORDS[int(digit)] for digit in digits))
    dropped, unknown = Counter(), Counter()
    text = text.lower()
    dropped.update(_NOISE.findall(text))
    text = _NOISE.sub(" ", text)
    unknown.update(_DECIMAL.findall(text))
    text = _DECIMAL.sub(" ", text)
    text = re.sub("[0-9]+", lambda match: f" {say_number(match[0])} ", text)
    spelled = []
    for char in unicodedata.normalize("NFD", text):
        char = _APOSTROPHES.get(char, char)
        if char in VOCABULARY:
            spelled.append(char)
        elif char in _PARTS or char.isspace():
            spelled.append(" ")
        else:
            (dropped if char in _UNSAID or unicodedata.combining(char) else unknown)[char] += 1
    return Transcript(" ".join("".join(spelled).split()), dropped, unknown)


def manifest_entries(rows, folder, max_s=16.7, say_number=None):
    """(entries, skipped) of metadata rows: entries for `write_manifest`, and a list of Skipped.

    `rows`: mappings with the article's columns, as from `crowd_delivery.read_delivery`, of
    sounds in `folder`. Skipped are rows with characters that cannot be spelled, without words,
    without a readable sound, or longer than `max_s` (QuartzNet's limit in training). Durations
    are the files' own.
    """
    entries, skipped = [], []
    for number, row in enumerate(rows, 1):
        path, duration_s = Path(folder) / row["RelativeFileName"], 0.0
        transcript, reason = normalise(row["Prompt"], say_number), None
        try:
            duration_s = soundfile.info(path).duration
        except (RuntimeError, OSError) as error:
            reason = f"{path} cannot be read: {error}"
        if transcript.unknown:
            reason = f"no spelling for {dict(transcript.unknown)} in {row['Prompt']!r}"
        elif not transcript.text:
            reason = f"no words in {row['Prompt']!r}"
        elif not reason and not 0 < duration_s <= max_s:
            reason = f"{duration_s:.2f} s long; allowed are up to {max_s} s"
        if reason:
            skipped.append(Skipped(number, row["RecordingId"], reason, dict(row)))
            continue
        entry = {"audio_filepath": str(path), "duration": duration_s, "text": transcript.text}
        entries.append({**entry, "speaker": row["SpeakerId"], "accent": row["Accent"]})
    return entries, skipped


def write_manifest(entries, path):
    """The `path` (a Path) of a manifest with one line for each entry: whole, or not there.

    Raises ValueError for an entry that `read_manifest` would refuse.
    """
    path, lines = Path(path), []
    for number, entry in enumerate(entries, 1):
        if problem := _problem(entry):
            raise ValueError(f"{path}, entry {number}: {problem}")
        lines.append(json.dumps(entry, ensure_ascii=False, allow_nan=False) + "\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temp = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as out:
            out.writelines(lines)
        os.chmod(temp, 0o644)
        os.replace(temp, path)
    except BaseException:
        os.unlink(temp)
        raise
    return path


def read_manifest(path, audio=True):
    """The entries of a manifest, dicts in the order of its lines; an empty line is none.

    Raises ValueError that names the line: no JSON object, a field missing or of a wrong type,
    a character outside `VOCABULARY`, a file twice, and, unless `audio` is False, a file that
    is not there. A relative `audio_filepath` is below the manifest's folder, or else the
    current one.
    """
    path, entries, seen = Path(path), [], {}
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                entry = json.loads(line)
                problem = _problem(entry)
            except (ValueError, RecursionError) as error:
                problem = f"no JSON ({error})"
            if not problem:
                name = str(entry["audio_filepath"])
                beside = path.parent / name
                entry["audio_filepath"] = str(beside) if _is_file(beside) else name
                if name in seen:
                    problem = f"{name} stands in line {seen[name]} already"
                elif audio and not _is_file(entry["audio_filepath"]):
                    problem = f"no file {name}, nor one below {path.parent}"
                seen.setdefault(name, number)
            if problem:
                raise ValueError(f"{path}, line {number}: {problem}")
            entries.append(entry)
    return entries


def random_split(entries, test_fraction=0.1, seed=1):
    """(train, test), rows drawn at random as in the article: the same people may be in both."""
    count = _test_rows(entries, test_fraction)
    test = set(np.random.default_rng(seed).permutation(len(entries))[:count].tolist())
    parts = ([], [])
    for number, entry in enumerate(entries):
        parts[number in test].append(entry)
    return parts


def speaker_split(entries, test_speakers=None, test_fraction=0.1, seed=1):
    """(train, test) that share no speaker.

    `test_speakers` names those of the test part; without it speakers are drawn, one at a time,
    until the test part has at least `test_fraction` of the rows. Raises ValueError for an entry
    without a speaker, a name that no entry has, or a part that would be empty.
    """
    if nameless := [number for number, e in enumerate(entries, 1) if not e.get("speaker")]:
        raise ValueError(
            f"entries {nameless[:5]} have no speaker; a split by speakers needs one"
        )
    rows = Counter(entry["speaker"] for entry in entries)
    if test_speakers is None:
        count, chosen = _test_rows(entries, test_fraction), set()
        for speaker in np.random.default_rng(seed).permutation(sorted(rows)).tolist():
            if sum(rows[name] for name in chosen) < count:
                chosen.add(speaker)
    else:
        chosen = {test_speakers} if isinstance(test_speakers, str) else set(test_speakers)
    if not chosen <= set(rows) or not 0 < len(chosen) < len(rows):
        raise ValueError(
            f"test speakers {sorted(chosen)}: allowed are some, not all, of {sorted(rows)}"
        )
    train = [entry for entry in entries if entry["speaker"] not in chosen]
    return train, [entry for entry in entries if entry["speaker"] in chosen]


def leaks(train, test):
    """The Leaks between two lists of entries: speakers, files, transcripts, recordings."""

    def shared(key):
        return set(map(key, train)) & set(map(key, test))

    speakers = shared(lambda entry: entry.get("speaker")) - {None}
    known = sum(entry.get("speaker") in speakers for entry in test)
    of = [
        {name for entry in part for name in entry.get("recordings", ())}
        for part in (train, test)
    ]
    return Leaks(
        speakers=tuple(sorted(speakers)),
        test_share=known / len(test) if test else 0.0,
        files=len(shared(lambda entry: entry["audio_filepath"])),
        texts=len(shared(lambda entry: entry["text"])),
        recordings=len(of[0] & of[1]),
    )


def _problem(entry):
    """What is wrong with an entry, or None."""
    if not isinstance(entry, dict):
        return f"a JSON object is needed, got {type(entry).__name__}"
    name, duration_s, text = (entry.get(key) for key in ("audio_filepath", "duration", "text"))
    if not isinstance(name, str) or not name:
        return f"audio_filepath {name!r}: the path of a sound file is needed"
    number = isinstance(duration_s, int | float) and not isinstance(duration_s, bool)
    if not number or not math.isfinite(duration_s) or duration_s <= 0:
        return f"duration {duration_s!r}: seconds above zero are needed"
    if not isinstance(text, str) or not text.strip():
        return f"text {text!r}: a transcript with words is needed"
    if unknown := sorted(set(text) - set(VOCABULARY)):
        return f"text has {unknown}, which the model cannot spell; use `normalise`"
    for key in ("speaker", "accent"):
        if not isinstance(entry.get(key, ""), str):
            return f"{key} {entry[key]!r}: a string is needed"
    return None


def _is_file(path):
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # a name that is too long, or has a zero byte
        return False


def _test_rows(entries, test_fraction):
    sane = 0 < test_fraction < 1
    count = math.ceil(len(entries) * test_fraction) if sane else 0
    if not 0 < count < len(entries):
        raise ValueError(
            f"a test part of {test_fraction} of {len(entries)} rows leaves a part empty; "
            "allowed are fractions between 0 and 1 that leave at least one row in each"
        )
    return count
