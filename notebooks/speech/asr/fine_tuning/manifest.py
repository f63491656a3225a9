"""Manifests: which recordings a training reads, one JSON object a line, in NeMo's format:

    {"audio_filepath": "a.wav", "duration": 3.45, "text": "this is a transcript"}

with `speaker` and `accent` where they are known. What cannot be trained on is refused with its
line: where NeMo would skip it in silence, a figure changes and nobody knows why."""

import json
import math
import os.path
from pathlib import Path

import soundfile
import torch
from quartznet import SAMPLE_RATE_HZ, VOCABULARY
from scipy.signal import resample_poly

LOWEST_HZ = 8000  # telephone speech


def write_manifest(entries, path):
    """The `path` of a manifest with one line for each entry: whole, or not there. Raises
    ValueError for an entry that `read_manifest` would refuse."""
    path, lines = Path(path), []
    for number, entry in enumerate(entries, 1):
        if problem := _problem(entry):
            raise ValueError(f"{path}, entry {number}: {problem}")
        lines.append(json.dumps(entry, ensure_ascii=False, allow_nan=False) + "\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = path.with_name(f".{path.name}.part")
    temp.write_text("".join(lines), encoding="utf-8", newline="\n")
    return temp.replace(path)


def read_manifest(path, audio=True):
    """The entries of a manifest, dicts in the order of its lines; an empty line is none. Raises
    ValueError that names the line: no JSON object, a field missing or of a wrong type, a
    character outside `VOCABULARY`, a file twice, and, unless `audio` is False, a file that is
    not there. A relative `audio_filepath` is below the manifest's folder or the current one."""
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
                entry["audio_filepath"] = str(beside) if os.path.isfile(beside) else name
                if name in seen:
                    problem = f"{name} stands in line {seen[name]} already"
                elif audio and not os.path.isfile(entry["audio_filepath"]):
                    problem = f"no file {name}, nor one below {path.parent}"
                seen.setdefault(name, number)
            if problem:
                raise ValueError(f"{path}, line {number}: {problem}")
            entries.append(entry)
    return entries


def read_sounds(entries):
    """The signals of manifest entries, by `read_sound`, and their texts: what `train` takes."""
    signals = [read_sound(entry["audio_filepath"]) for entry in entries]
    return signals, [entry["text"] for entry in entries]


def read_sound(path):
    """The sound of a file at 16 kHz, a float32 tensor (N,); another rate is resampled, since
    read as if it were 16 kHz it would be heard at another pitch. Raises ValueError for more
    than one channel, and below 8 kHz, where words lose consonants."""
    signal_N, rate_hz = soundfile.read(path, dtype="float32")
    if rate_hz < LOWEST_HZ or signal_N.ndim != 1:
        wrong = f"{path}: {rate_hz} Hz, shape {signal_N.shape}"
        raise ValueError(f"{wrong}; needed is one channel at {LOWEST_HZ} Hz or more")
    if rate_hz != SAMPLE_RATE_HZ:
        signal_N = resample_poly(signal_N, SAMPLE_RATE_HZ, rate_hz)
    return torch.from_numpy(signal_N)


def _problem(entry):
    """What is wrong with an entry, or None."""
    if not isinstance(entry, dict):
        return f"a JSON object is needed, got {type(entry).__name__}"
    name, duration_s, text = (entry.get(key) for key in ("audio_filepath", "duration", "text"))
    if not isinstance(name, str) or not name:
        return f"audio_filepath {name!r}: the path of a sound file is needed"
    number = isinstance(duration_s, int | float) and not isinstance(duration_s, bool)
    if not number or not 0 < duration_s < math.inf:
        return f"duration {duration_s!r}: seconds above zero are needed"
    if not isinstance(text, str) or not text.strip():
        return f"text {text!r}: a transcript with words is needed"
    if unknown := sorted(set(text) - set(VOCABULARY)):
        return f"text has {unknown}, which the model cannot spell; use `normalise`"
    wrong = [key for key in ("speaker", "accent") if not isinstance(entry.get(key, ""), str)]
    return f"{wrong[0]} {entry[wrong[0]]!r}: a string is needed" if wrong else None
