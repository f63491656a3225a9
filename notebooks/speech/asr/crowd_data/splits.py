"""Training and test parts of a delivery, and what the two share.

The article splits rows at random, so the same people speak in both parts. `speaker_split` keeps
them apart; `leaks` counts what a split shares. Entries are those of a manifest, dicts."""

import math
from collections import namedtuple

import numpy as np

__all__ = ["Leaks", "leaks", "random_split", "speaker_split"]

# the speakers in both parts, and the part of the test rows whose speaker is also in training
Leaks = namedtuple("Leaks", "speakers test_share")


def random_split(entries, test_fraction=0.1, seed=1):
    """(train, test), rows drawn at random as in the article: the same people may be in both.

    Raises ValueError for a fraction that leaves a part empty.
    """
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
    """(train, test) that share no speaker: the test part has the rows of these names.

    Raises ValueError for an entry without a speaker, an unknown name, or an empty part."""
    nameless = [number for number, entry in enumerate(entries, 1) if not entry.get("speaker")]
    if nameless:
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
