"""Columns to compress: real ones of four data sets, and generated ones that say so.

Real: ECG samples (MIT-BIH, 11 bits in int16), pixels (Fashion-MNIST, uint8), links between
articles (Wikispeedia, int32 identifiers, sorted by source), text (GSM8K, bytes). Generated, in
the manner of TPC-H's `lineitem` (order keys, dates, flags, quantities) and of a click log
(sorted times, repeated pages): such columns are what the article's "analytical workloads" hold.
The generators are ours, not `dbgen`; the card says so."""

import gzip
from pathlib import Path

import numpy as np


def ecg(folder, name="208"):
    """Both leads of one record, one after the other, int16 of shape (1,300,000).

    Format 212 holds two 12-bit samples in three bytes; ValueError unless they come in threes.
    """
    packed = np.frombuffer((Path(folder) / f"{name}.dat").read_bytes(), np.uint8)
    if len(packed) % 3:
        raise ValueError(f"{name}.dat has {len(packed)} bytes; format 212 packs three together")
    low, mixed, high = packed.reshape(-1, 3).astype(np.int16).T
    first, second = low | (mixed & 15) << 8, high | (mixed & 240) << 4
    return np.concatenate([np.where(x > 2047, x - 4096, x) for x in (first, second)]).astype(
        "i2"
    )


def pixels(folder, images=2000):
    """The first test images of Fashion-MNIST, uint8 of shape (images, 28, 28)."""
    with gzip.open(Path(folder) / "t10k-images-idx3-ubyte.gz") as file:
        raw = file.read(16 + images * 784)
    if raw[:4] != b"\0\0\x08\x03" or len(raw) != 16 + images * 784:
        raise ValueError(f"{images} images of 28 x 28 are wanted from an idx3 file; cut short?")
    return np.frombuffer(raw, np.uint8, offset=16).reshape(images, 28, 28)


def links(folder):
    """(sources, targets) of all links, int32 identifiers in alphabetical order of the titles,
    sorted by source and then by target."""
    lines = (Path(folder) / "links.tsv").read_text(encoding="utf-8").splitlines()
    pairs = np.array([line.split("\t") for line in lines if line and line[0] != "#"])
    _, numbers = np.unique(pairs, return_inverse=True)
    sources, targets = numbers.reshape(-1, 2).astype(np.int32).T
    order = np.lexsort([targets, sources])
    return sources[order], targets[order]


def text(folder):
    """The training problems of GSM8K as they are in their file, uint8."""
    return np.frombuffer((Path(folder) / "train.jsonl").read_bytes(), np.uint8)


def generated(rows, seed=0):
    """Columns by name, NumPy arrays of shape (rows,): three as in a table of orders, two as in
    a log of clicks; `generated(1000)["order key"][:3]` are the first orders' keys."""
    rng = np.random.default_rng(seed)
    items = rng.integers(1, 8, rows)  # lines of one order
    keys = np.repeat(np.arange(1, rows + 1), items)[:rows].astype(np.int64)
    placed = np.sort(rng.integers(8036, 10_592, rows))  # days from 1992 on, 7 years
    shipped = placed + rng.integers(1, 122, rows)
    times = np.cumsum(rng.exponential(40, rows)).astype(np.int64) + 1_465_876_799_998
    return {
        "order key": keys,
        "ship date": shipped.astype(np.int32),
        "return flag": (shipped > 9300).astype(np.uint8) * 13 + 65,
        "quantity": rng.integers(1, 51, rows).astype(np.int32),
        "click time": times,
        "page shown": np.repeat(rng.zipf(1.4, rows) % 50_000, rng.integers(1, 12, rows))[
            :rows
        ].astype(np.int32),
    }
