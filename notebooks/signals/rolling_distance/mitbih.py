"""The MIT-BIH Arrhythmia Database as arrays: two-lead ECG and the cardiologists' beat labels.

Each record is three files. `100.hea` is text: sampling rate, length, gain, zero and a
checksum for each lead. `100.dat` packs two 12-bit samples in three bytes ("format 212").
`100.atr` holds the annotations: 16-bit words, six bits of label and ten bits of time since the
last one.

Sources: Moody and Mark 2001; the WFDB file-format pages `header(5)`, `signal(5)` and
`annot(5)` of PhysioNet. We read format 212 with one segment and a plain gain, which is all this
database uses, and refuse the rest.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

# annotation codes of annot(5) that stand for a beat, with the letter of cardiologists' tables
BEATS = dict(enumerate("NLRaVFJASEj/Q", start=1)) | {34: "e", 38: "f"}
_SKIP, _NUM, _SUB, _CHN, _AUX = 59, 60, 61, 62, 63

RECORDS = ("100", "105", "106", "119", "200", "208", "213", "221", "228", "233")


@dataclass(frozen=True)
class Record:
    """One recording: `leads_mv` maps a lead's name to float64 millivolts, shape (N,)."""

    name: str
    rate_hz: float
    leads_mv: dict[str, np.ndarray]
    beat_samples: np.ndarray  # (B,) int64, where each beat was marked
    beat_labels: np.ndarray  # (B,) one letter each: N normal, V ventricular, A atrial, ...
    notes: str = ""  # what the cardiologists wrote into the header


def read_record(folder, name):
    """One record with its beats, from the three files `name.hea`, `name.dat` and `name.atr`.

    >>> record = read_record("mitbih", "100")
    >>> record.leads_mv["MLII"].shape, record.beat_labels[:3]
    ((650000,), array(['N', 'N', 'N'], dtype='<U1'))

    Raises `FileNotFoundError` for a missing file; `ValueError` for another format, a file of
    the wrong length, or a lead whose samples do not add up to the checksum in its header.
    """
    folder = Path(folder)
    head, leads = _read_header(folder / f"{name}.hea")
    packed = (folder / f"{name}.dat").read_bytes()
    raw_2N = unpack_212(packed, 2 * head["length"]).reshape(-1, 2).T
    leads_mv = {}
    for samples, (lead, gain, zero, checksum) in zip(raw_2N, leads, strict=True):
        total = int(samples.sum(dtype=np.int64)) & 0xFFFF
        if total != checksum:
            raise ValueError(
                f"{name}.dat, lead {lead}: samples add up to {total}, its header {checksum} "
                "(modulo 65536): the file is damaged, delete it and fetch it again"
            )
        leads_mv[lead] = (samples - zero) / gain
    times, codes = read_annotations((folder / f"{name}.atr").read_bytes())
    beat = np.isin(codes, list(BEATS))
    labels = np.array([BEATS[code] for code in codes[beat].tolist()], dtype="<U1")
    return Record(name, head["rate_hz"], leads_mv, times[beat], labels, head["notes"])


def long_stream(folder, points, lead="MLII"):
    """One lead of all `RECORDS` in a row, repeated if need be: float64, in mV, (points,)."""
    whole = np.concatenate([read_record(folder, name).leads_mv[lead] for name in RECORDS])
    return np.resize(whole, points)


def unpack_212(packed, count):
    """`count` samples as int16 from format 212: two signed 12-bit samples in three bytes.

    >>> unpack_212(bytes([0x34, 0xF1, 0xFF]), 2)
    array([308,  -1], dtype=int16)

    Byte 0 is the low part of the first sample, byte 2 that of the second; byte 1 holds both
    high parts, the first in its low half. Raises `ValueError` when `packed` is not exactly as
    long as `count` needs.
    """
    want = (count + 1) // 2 * 3
    if len(packed) != want:
        raise ValueError(
            f"format 212 needs {want} bytes for {count} samples, got {len(packed)}: cut short?"
        )
    low, mixed, high = np.frombuffer(packed, np.uint8).reshape(-1, 3).astype(np.int16).T
    pairs = np.stack([low | (mixed & 0x0F) << 8, high | (mixed & 0xF0) << 4], axis=1)
    samples = pairs.reshape(-1)[:count]
    return np.where(samples > 2047, samples - 4096, samples).astype(np.int16)


def read_annotations(packed):
    """Sample numbers and annotation codes, int64 (A,), from the bytes of an `.atr` file;
    `ValueError` where they end without the closing zero word."""
    words = np.frombuffer(packed[: len(packed) // 2 * 2], "<u2").astype(np.int64)
    times, codes, now, at = [], [], 0, 0
    while at < len(words) and words[at] != 0:
        code, step = words[at] >> 10, words[at] & 0x3FF
        if code == _SKIP:  # the next two words are a long interval, high word first
            both = words[at + 1 : at + 3].astype(">u2").tobytes()
            now += int.from_bytes(both, "big", signed=True)
            at += 2
        elif code == _AUX:  # a text of `step` bytes, padded to a whole word
            at += (step + 1) // 2
        elif code not in (_NUM, _SUB, _CHN):
            now += step
            times.append(now)
            codes.append(code)
        at += 1
    if at >= len(words):
        raise ValueError(
            f"annotations of {len(packed)} bytes end without their closing zero: cut short?"
        )
    return np.array(times, dtype=np.int64), np.array(codes, dtype=np.int64)


def _read_header(path):
    text = [line for line in path.read_text().splitlines() if line.strip()]
    lines = [line for line in text if not line.startswith("#")]
    _, leads, rate_hz, length = lines[0].split()[:4]
    notes = " ".join(line[1:].strip() for line in text if line.startswith("#"))
    head, found = {"rate_hz": float(rate_hz), "length": int(length), "notes": notes}, []
    for line in lines[1 : 1 + int(leads)]:
        _, form, gain, _, zero, _, checksum, _, name = line.split(maxsplit=8)
        if form != "212" or leads != "2" or not gain.isdigit():
            raise ValueError(
                f"{path.name}: {leads} leads of format {form}, gain {gain}; "
                "only two leads of format 212 are read, with a plain number as their gain"
            )
        found.append((name, int(gain), int(zero), int(checksum) & 0xFFFF))
    return head, found
