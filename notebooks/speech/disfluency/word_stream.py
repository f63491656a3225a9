"""From logits to what a reader sees, word by word: five systems, a floor, a use for the result.

The five systems of Chen et al. (2022): trained on whole sentences or on all prefixes, each
without look-ahead; fixed look-ahead of one or two words; and the wait head, which answers for
the words left of the first "wait", the first word whose wait probability passes one half. When
the sentence has ended nothing is worth waiting for, so its last prefix is labelled in full;
that shortens the waits at the end, and we say so."""

import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor

FILLERS = (
    ("uh",), ("um",), ("er",), ("ah",), ("you", "know"), ("i", "mean"), ("no", "wait"),
    ("or", "wait"), ("or", "rather"), ("no", "sorry"), ("sorry",), ("no",), ("wait",),
)  # fmt: skip
SYSTEMS = {  # name: (network, look-ahead; None is the wait head)
    "full sequence": ("full", 0),
    "all prefixes": ("prefixes", 0),
    "look-ahead 1": ("prefixes", 1),
    "look-ahead 2": ("prefixes", 2),
    "wait head": ("wait", None),
}


def predictions(
    logits: tuple[Tensor, Tensor], look_ahead: int | None, price: float = 1.0
) -> list[list[int | None]]:
    """Label lists for growing prefixes, None for wait, from both heads' logits (N, N).

    `look_ahead` of 0, 1, ... keeps so many newest words back; None asks the wait head, as if a
    wait cost `price` times what it cost in training (see `prefix_training`)."""
    if look_ahead is not None and look_ahead < 0:
        raise ValueError(f"look_ahead={look_ahead}: 0 or more words, or None for the wait head")
    if not price > 0:
        raise ValueError(f"price={price}: a number above 0, since its logarithm is a threshold")
    stops = (logits[1] > math.log(price)).tolist()
    disfluent = logits[0].tolist()
    out: list[list[int | None]] = []
    for i, row in enumerate(disfluent):
        shown = i + 1
        if i < len(disfluent) - 1:
            if look_ahead is None:
                shown = next((j for j in range(i + 1) if stops[i][j]), i + 1)
            else:
                shown = max(0, i + 1 - look_ahead)
        out.append([int(row[j] > 0) if j < shown else None for j in range(i + 1)])
    return out


def filler_floor(words: Sequence[str]) -> list[int]:
    """Labels without learning: listed fillers, and the first copy of an exact repeat of up to
    four words with nothing but fillers between."""
    labels = [0] * len(words)
    for at in range(len(words)):
        for filler in FILLERS:
            if tuple(words[at : at + len(filler)]) == filler:
                labels[at : at + len(filler)] = [1] * len(filler)
    kept = [at for at, bad in enumerate(labels) if not bad]
    for size in range(4, 0, -1):
        for a in range(len(kept) - 2 * size + 1):
            one, two = kept[a : a + size], kept[a + size : a + 2 * size]
            if [words[i] for i in one] == [words[i] for i in two]:
                for i in one:
                    labels[i] = 1
    return labels


def floor_predictions(words: Sequence[str]) -> list[list[int | None]]:
    """The floor's labels for growing prefixes."""
    return [list(filler_floor(words[:end])) for end in range(1, len(words) + 1)]


def nearest(texts: Sequence[Sequence[str]], queries: Sequence[Sequence[str]]) -> np.ndarray:
    """Rows (Q,) of the texts that share the most rare words and pairs with the queries, by the
    cosine of their TF-IDF: the first of equals, -1 where no word is known."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    terms = TfidfVectorizer(
        analyzer=lambda text: [*text, *map(" ".join, zip(text, text[1:], strict=False))]
    )
    near = (terms.fit_transform(texts) @ terms.transform(queries).T).toarray()
    return np.where(near.max(0) > 0, near.argmax(0), -1)
