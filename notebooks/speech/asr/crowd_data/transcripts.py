"""Transcripts that a recogniser can spell, from what people wrote; and what a split shares.

The article's normaliser lowers the case and takes out marks of noise; a character outside the
vocabulary that stays in ("$", a Greek letter) is skipped or becomes blank in training,
silently. Here every character is spelled, dropped by a rule and counted, or reported."""

import math
import re
import unicodedata
from collections import Counter, namedtuple
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


# `dropped` and `unknown` count characters and marked noises; those that no rule covers are
# unknown, and a text that holds some must not be trained on
Transcript = namedtuple("Transcript", "text dropped unknown")
Skipped = namedtuple("Skipped", "row name reason")  # a row that was left out
# the speakers in both parts, and the part of the test rows whose speaker is also in training
Leaks = namedtuple("Leaks", "speakers test_share")


def normalise(text):
    """A Transcript in the 28 characters of `VOCABULARY`; TypeError for what is no string.

    >>> normalise("The Avengers' extinction, at 7!").text
    "the avengers' extinction at seven"
    >>> normalise("50 €").unknown
    Counter({'€': 1})

    Upper case is lowered, "[b_s/]" and its like and punctuation are dropped, hyphens part
    words, letters lose their accents (`dropped` has them). A number is said digit by digit; a
    point, comma or colon between two digits is unknown."""
    if not isinstance(text, str):
        raise TypeError(f"a transcript must be a string, got {type(text).__name__}: {text!r}")
    dropped, unknown = Counter(), Counter()
    text = text.lower()
    dropped.update(_NOISE.findall(text))
    text = _NOISE.sub(" ", text)
    unknown.update(_DECIMAL.findall(text))
    text = _DECIMAL.sub(" ", text)
    text = re.sub("[0-9]", lambda digit: f" {WORDS[int(digit[0])]} ", text)
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


def manifest_entries(rows, folder, max_s=16.7):
    """(entries, skipped) of metadata rows: entries for `write_manifest`, and a list of Skipped.
    `rows`: mappings as from `read_delivery`, of sounds in `folder`, which it has read. Skipped
    are rows with characters that cannot be spelled, without words, or longer than `max_s`
    (QuartzNet's limit in training). Durations are the files' own."""
    entries, skipped = [], []
    for number, row in enumerate(rows, 1):
        path, transcript = Path(folder) / row["RelativeFileName"], normalise(row["Prompt"])
        duration_s, reason = soundfile.info(path).duration, None
        if transcript.unknown:
            reason = f"no spelling for {dict(transcript.unknown)} in {row['Prompt']!r}"
        elif not transcript.text:
            reason = f"no words in {row['Prompt']!r}"
        elif not 0 < duration_s <= max_s:
            reason = f"{duration_s:.2f} s long; allowed are up to {max_s} s"
        if reason:
            skipped.append(Skipped(number, row["RecordingId"], reason))
            continue
        entry = {"audio_filepath": str(path), "duration": duration_s, "text": transcript.text}
        entries.append({**entry, "speaker": row["SpeakerId"], "accent": row["Accent"]})
    return entries, skipped


def random_split(entries, test_fraction=0.1, seed=1):
    """(train, test), rows drawn at random; ValueError for a fraction that empties a part."""
    sane = 0 < test_fraction < 1
    count = math.ceil(len(entries) * test_fraction) if sane else 0
    if not 0 < count < len(entries):
        what = f"a test part of {test_fraction} of {len(entries)} rows"
        raise ValueError(f"{what} leaves a part empty; each needs at least one row")
    test = set(np.random.default_rng(seed).permutation(len(entries))[:count].tolist())
    parts = ([], [])
    for number, entry in enumerate(entries):
        parts[number in test].append(entry)
    return parts


def speaker_split(entries, test_speakers):
    """(train, test) that share no speaker: the test part has the rows of these names. Raises
    ValueError for an entry without a speaker, an unknown name, or an empty part."""
    if nameless := [n for n, entry in enumerate(entries, 1) if not entry.get("speaker")]:
        raise ValueError(f"entries {nameless[:5]} have no speaker; this split needs one")
    known, chosen = {entry["speaker"] for entry in entries}, set(test_speakers)
    if not chosen or not chosen < known:
        allowed = f"allowed are some, not all, of {sorted(known)}"
        raise ValueError(f"test speakers {sorted(chosen)}: {allowed}")
    parts = ([], [])
    for entry in entries:
        parts[entry["speaker"] in chosen].append(entry)
    return parts


def leaks(train, test):
    """The Leaks between two lists of entries."""
    trained, tested = ({entry.get("speaker") for entry in part} for part in (train, test))
    speakers = trained & tested - {None}
    known = sum(entry.get("speaker") in speakers for entry in test)
    return Leaks(tuple(sorted(speakers)), known / len(test) if test else 0.0)
