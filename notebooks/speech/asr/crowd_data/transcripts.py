"""Transcripts that a recogniser can spell, from what people wrote.

The article's normaliser lowers the case and takes out marks of noise. A character outside the
model's vocabulary that stays in ("$", "%", a Greek letter) is skipped or becomes blank in
training, silently. Here every character is spelled, dropped by a rule and counted, or reported.
"""

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import soundfile
from digit_speech import WORDS
from quartznet import VOCABULARY

__all__ = ["Skipped", "Transcript", "manifest_entries", "normalise"]

_NOISE = re.compile(r"\[[a-z_]+/\]")  # "[b_s/]", "[filler/]": noises marked in a transcript
_DECIMAL = re.compile(r"(?<=[0-9])[.,:](?=[0-9])")  # "3.5", "10:30": said in many ways
_APOSTROPHES = dict.fromkeys("‘’ʼ´`", "'")  # noqa: RUF001
_UNSAID = set('.,;:!?"()[]{}…“”„«»¡¿')  # dropped
_PARTS = set("-–—/_\t\n\r")  # noqa: RUF001  these part words


@dataclass(frozen=True)
class Transcript:
    """A normalised text; `dropped` and `unknown` count characters (and marked noises).

    `unknown` are those that no rule covers; a transcript that has some must not be trained on.
    """

    text: str
    dropped: Counter
    unknown: Counter


@dataclass(frozen=True)
class Skipped:
    """A row that was left out: its number (from 1), its id, and why."""

    row: int
    name: str
    reason: str


def normalise(text):
    """A Transcript in the 28 characters of `VOCABULARY`.

    >>> normalise("The Avengers' extinction, at 7!").text
    "the avengers' extinction at seven"
    >>> normalise("50 €").unknown
    Counter({'€': 1})

    Upper case is lowered, "[b_s/]" and its like and punctuation are dropped, hyphens part
    words, letters lose their accents ("é" becomes "e"; `dropped` has the accent). A number is
    said digit by digit. A point, comma or colon between two digits is unknown. Raises TypeError
    for what is no string.
    """
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

    `rows`: mappings with the article's columns, as from `read_delivery`, of sounds in `folder`,
    which it has read. Skipped are rows with characters that cannot be spelled, without words,
    or longer than `max_s` (QuartzNet's limit in training). Durations are the files' own.
    """
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
