"""What a message wants: an intent, told by examples, or none of them.

A message and an example are vectors of their words, each weighted by how few of the examples
hold it; their likeness is the cosine. A word that no example holds has the largest weight, so a
message about something else is like nothing, and search takes it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bm25 import words

LEAST = 0.3  # below it no intent is claimed: just above how like the curated questions are


class Guess(NamedTuple):
    """The likest intent, and how like its likest example is, from 0 to 1."""

    intent: str
    likeness: float


class Intents:
    """Intents by their examples. ValueError for none, or for an example without words."""

    def __init__(self, examples: Mapping[str, Sequence[str]], least: float = LEAST):
        own = [(name, set(words(text))) for name, texts in examples.items() for text in texts]
        if not own or not all(held for _, held in own):
            raise ValueError("examples without words; each intent wants some, in words")
        self.least, self.many = least, len(own)
        held = [word for _, one in own for word in one]
        self.weights = {word: self._weight(held.count(word)) for word in {*held}}
        self.examples = [(name, one, self._length(one)) for name, one in own]

    def _weight(self, many: int) -> float:
        return math.log((self.many + 1) / (many + 0.5))

    def _length(self, own: set[str]) -> float:
        return math.sqrt(sum(self.weights.get(word, self._weight(0)) ** 2 for word in own))

    def guess(self, text: str) -> Guess:
        """The likest intent, however unlike it is."""
        own = set(words(text))
        length = self._length(own) or 1.0
        found = [
            Guess(name, sum(self.weights[word] ** 2 for word in own & held) / length / its)
            for name, held, its in self.examples
        ]
        return max(found, key=lambda one: one.likeness)

    def of(self, text: str) -> str | None:
        """The intent of a message; None where nothing is like it enough."""
        found = self.guess(text)
        return found.intent if found.likeness >= self.least else None
