"""Phrases that a decoder should prefer: a trie over context words, one bonus per letter.

The bonus is paid while a prefix walks along the trie, so that a rare word survives the beam
before it is complete, and taken back where the walk fails (on-the-fly rescoring; Zhao et al.,
Interspeech 2019):

    bonus(text) = sum over the phrases in it of weight * letters
                  (+ the most promising begun at a word's start and not yet broken off)

A phrase counts as whole words, wherever it stands: "six" earns nothing inside "sixty", and "new
york" earns its own bonus and that of "new", where both are expected."""

from collections import Counter


class PhraseBoost:
    """Bonuses of phrases: `PhraseBoost({"nine": 1.0})`, or a list of phrases and one `weight`:
    a natural logarithm for each letter, spaces inside included; above 0 it favours, below 0 it
    discourages. Raises ValueError for an empty phrase or none."""

    def __init__(self, phrases, weight=1.0):
        if not hasattr(phrases, "items"):
            phrases = dict.fromkeys(phrases, weight)
        self.root, self.phrases = {}, {}
        for phrase, value in phrases.items():
            words = " ".join(phrase.split())
            if not words:
                raise ValueError(f"phrase {phrase!r}: a phrase needs at least one word")
            node = self.root
            for letter in words:
                node = node.setdefault(letter, {})
            node["whole"] = self.phrases[words] = float(value)
        if not self.phrases:
            raise ValueError("no phrases came: leave the boost out instead")
        self._spread(self.root)

    def start(self):
        """The state before the first letter: (active walks, bonus they hold)."""
        return ((self.root, 0),), 0.0

    def step(self, state, letter):
        """(state, change of the bonus) after one more letter."""
        walks, held = state
        moved, earned = [(node[letter], n + 1) for node, n in walks if letter in node], 0.0
        if letter == " ":
            moved.append((self.root, 0))  # a phrase may begin with the next word
            earned = self._whole(walks)
        now = max((n * node.get("weight", 0.0) for node, n in moved), default=0.0)
        return (tuple(moved), now), earned + now - held

    def end(self, state):
        """The change of the bonus when the text ends here: unfinished phrases give it back."""
        walks, held = state
        return self._whole(walks) - held

    def _whole(self, walks):
        """What the phrases earn that are complete if the word ends here."""
        return sum(n * node["whole"] for node, n in walks if "whole" in node)

    def _spread(self, node):
        """Each node's `weight`: the largest of the phrases through it, paid on the way; at
        least 0, since a penalty is due only when the phrase is complete."""
        below = [self._spread(child) for key, child in node.items() if len(key) == 1]
        node["weight"] = max([*below, node.get("whole", 0.0), 0.0])
        return node["weight"]


def boosted_counts(references, hypotheses, words):
    """(spoken, found, false): of these words, how many were said, heard, and heard wrongly.

    >>> boosted_counts(["nine one"], ["nine nine"], ["nine"])
    (1, 1, 1)

    Counted in each utterance: what was heard beyond what was said is false."""
    spoken = found = false = 0
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        said, heard = Counter(reference.split()), Counter(hypothesis.split())
        for word in words:
            spoken += said[word]
            found += min(said[word], heard[word])
            false += max(0, heard[word] - said[word])
    return spoken, found, false
