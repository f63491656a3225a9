"""The Patent Phrase Similarity pairs as arrays, what their contexts mean, and how they are
split.

Each row holds an anchor, a target, a context (one of 106 classes of the Cooperative Patent
Classification, CPC) and a rating of 0, .25, .5, .75 or 1. Source: Aslanyan and Wetherbee 2022.
This is the training file of the competition that the article tells of; its other parts with
scores are not public, and rating classes are not in it. The titles of the contexts in
`cpc_titles.tsv` are ours: in plain words, from the meaning of the public scheme
(https://www.cooperativepatentclassification.org), not its wording.

Shapes: `N` pairs.
"""

import csv
import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

SCORES = (0.0, 0.25, 0.5, 0.75, 1.0)
MOST_LETTERS = 200  # the longest target has 98
COLUMNS = ("id", "anchor", "target", "context", "score")


@dataclass(frozen=True)
class Pairs:
    """Rated pairs by column: texts as arrays of str (N,), `score` float64 (N,), NaN where
    nobody rated."""

    id: np.ndarray
    anchor: np.ndarray
    target: np.ndarray
    context: np.ndarray
    score: np.ndarray

    def __len__(self) -> int:
        return len(self.score)

    def __getitem__(self, rows: np.ndarray | slice) -> "Pairs":
        """The pairs at these rows, or where a mask (N,) is True."""
        return Pairs(*(getattr(self, field.name)[rows] for field in fields(self)))


@functools.cache
def titles() -> dict[str, str]:
    """What each of the 106 contexts is about, in our words: "A21" is 'baking and dough'."""
    text = Path(__file__).with_name("cpc_titles.tsv").read_text(encoding="utf-8")
    return dict(line.split("\t") for line in text.splitlines()[1:])


def read(path: Path | str, scored: bool = True) -> Pairs:
    """The pairs of a CSV file with the columns id, anchor, target, context and, if `scored`,
    score; ValueError for a missing column and as in `pairs`."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if missing := set(COLUMNS[: 4 + scored]) - set(rows.fieldnames or ()):
            what = f"{Path(path).name} lacks the column {', '.join(sorted(missing))}"
            raise ValueError(f"{what}; it has {rows.fieldnames}")
        return pairs([row if scored else {**row, "score": "nan"} for row in rows], scored)


def pairs(rows: Iterable[dict], scored: bool = True) -> Pairs:
    """Checked pairs from dictionaries with the columns of `read`; ValueError, with the line (2
    is the first), for a phrase, a context, a score or an id that is not allowed."""
    seen: set[str] = set()
    for line, row in enumerate(rows := list(rows), start=2):
        if wrong := _wrong(row, scored, seen):
            raise ValueError(f"line {line}, id {row['id']!r}: {wrong}")
        seen.add(row["id"])
    texts = (np.array([row[name] for row in rows], dtype=str) for name in COLUMNS[:4])
    return Pairs(*texts, np.array([float(row["score"]) for row in rows]))


def _wrong(row: dict, scored: bool, seen: set[str]) -> str:
    for name in ("anchor", "target"):
        phrase = row[name]
        if not isinstance(phrase, str) or not "".join(filter(str.isprintable, phrase)).strip():
            return f"the {name} is {phrase!r}; a phrase has at least one visible sign"
        if len(phrase) > MOST_LETTERS:
            return f"the {name} has {len(phrase)} letters, at most {MOST_LETTERS} are allowed"
    if row["context"] not in titles():
        known = f"allowed are the {len(titles())} of cpc_titles.tsv, such as 'A01'"
        return f"context {row['context']!r} is unknown; {known}"
    number = str(row.get("score")).replace(".", "", 1).isdecimal()
    if scored and not (number and float(row["score"]) in SCORES):
        return f"score {row['score']!r}; raters gave {', '.join(map(str, SCORES))}"
    twice = "this id came before; each rating has one id, or a pair would count twice"
    return twice if row["id"] in seen else ""


def split_by_anchor(
    anchors: Sequence[str], test: float = 0.2, validation: float = 0.0, seed: int = 0
) -> np.ndarray:
    """The part of each pair, "train", "validation" or "test", (N,): all pairs of an anchor in
    one, by shares of the anchors; ValueError where training or what was asked for is empty."""
    once = np.array(sorted(set(anchors)), dtype=object)
    order = np.random.default_rng(seed).permutation(once)
    held, tuned = round(test * len(once)), round(validation * len(once))
    if held < (test > 0) or tuned < (validation > 0) or held + tuned >= len(once):
        what = f"{len(once)} anchors cannot be split with shares {test} and {validation}"
        raise ValueError(f"{what}: a part would be empty")
    part = dict.fromkeys(order, "train") | dict.fromkeys(order[:held], "test")
    part |= dict.fromkeys(order[held : held + tuned], "validation")
    return np.array([part[anchor] for anchor in anchors])


def is_new(pairs: Pairs, train: Pairs) -> np.ndarray:
    """Where neither target nor anchor of a pair occurs anywhere in `train`, (N,)."""
    known = {*train.target.tolist(), *train.anchor.tolist()}
    both = zip(pairs.anchor.tolist(), pairs.target.tolist(), strict=True)
    return np.array([known.isdisjoint(one) for one in both], bool)


def _rows_of(first: np.ndarray, second: np.ndarray) -> list[np.ndarray]:
    """The rows of each different pair of values."""
    rows: dict[tuple, list[int]] = {}
    for row, key in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        rows.setdefault(key, []).append(row)
    return [np.array(found) for found in rows.values()]


def other_targets(pairs: Pairs) -> list[np.ndarray]:
    """For each pair the rows of the others with its anchor and context: the raters' list."""
    found = {at: rows for rows in _rows_of(pairs.anchor, pairs.context) for at in rows.tolist()}
    return [found[at][found[at] != at] for at in range(len(pairs))]


def switched(pairs: Pairs) -> list[tuple[int, int]]:
    """Rows (low, high) of the same two phrases, rated differently in two contexts."""
    found = []
    for rows in _rows_of(pairs.anchor, pairs.target):
        low, high = (int(rows[pick(pairs.score[rows])]) for pick in (np.argmin, np.argmax))
        if pairs.score[low] < pairs.score[high]:
            found.append((low, high))
    return found
