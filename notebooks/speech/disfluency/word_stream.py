"""From logits to what a reader sees, word by word: five systems, a floor, and a use for the
result.

The five systems of Chen et al. (2022): trained on whole sentences or on all prefixes, each
without look-ahead; fixed look-ahead of one or two words; and the wait head, which answers for
the words left of the first "wait", the first word whose wait probability passes one half.
When the sentence has ended nothing is worth waiting for, so its last prefix is labelled in
full; that shortens the waits at the end, and we say so."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from disfl_labels import Utterance
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
    wait cost `price` times what it cost in training (see `prefix_training`).
    """
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


def cleaned(words: Sequence[str], labels: Sequence[int]) -> tuple[str, ...]:
    """The words whose label is 0."""
    return tuple(word for word, bad in zip(words, labels, strict=True) if not bad)


class Retrieval:
    """Finds the question that shares the most rare words: cosine of TF-IDF over words and
    pairs.

    `Retrieval(questions).best([("who", "won")])` gives the row of the nearest question.
    """

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        counts = Counter(term for text in texts for term in set(self._terms(text)))
        self._row = {term: at for at, term in enumerate(counts)}
        self._idf = np.log((1 + len(texts)) / (1 + np.array(list(counts.values())))) + 1
        self._matrix = self._vectors(texts)

    @staticmethod
    def _terms(text: Sequence[str]) -> list[str]:
        return [*text, *(f"{a} {b}" for a, b in zip(text, text[1:], strict=False))]

    def _vectors(self, texts: Sequence[Sequence[str]]):
        from scipy.sparse import csr_matrix, diags

        entries: list[tuple[int, int]] = []
        for at, text in enumerate(texts):
            entries += [(at, self._row[t]) for t in self._terms(text) if t in self._row]
        rows, columns = np.array(entries, dtype=int).reshape(-1, 2).T
        shape = (len(texts), len(self._row))
        made = csr_matrix((self._idf[columns], (rows, columns)), shape)
        norms = np.sqrt(np.asarray(made.multiply(made).sum(1)).ravel())
        return diags(1 / np.maximum(norms, 1e-12)) @ made

    def best(self, queries: Sequence[Sequence[str]]) -> np.ndarray:
        """The rows (Q,) of the nearest texts; the first of equals."""
        return np.concatenate(
            [
                (self._vectors(queries[a : a + 500]) @ self._matrix.T).toarray().argmax(1)
                for a in range(0, len(queries), 500)
            ]
        )


def retrieved(
    search: Retrieval, utterances: Sequence[Utterance], labels: Sequence[Sequence[int]] | None
) -> np.ndarray:
    """For each utterance, cleaned by `labels` (None: not at all), the row of the question
    found."""
    if labels is None:
        return search.best([u.words for u in utterances])
    return search.best([cleaned(u.words, y) for u, y in zip(utterances, labels, strict=True)])
