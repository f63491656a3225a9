"""A word n-gram model for the beam: interpolated Witten-Bell, small enough to read.

With c counts in training, T(h) distinct words after history h, and h' the history without its
first word (Witten and Bell 1991; Chen and Goodman 1998 for the interpolated form):

    P(w | h) = (c(h w) + T(h) P(w | h')) / (c(h) + T(h)),    P(w | no history) over uniform

Each sentence is read with a start before it and an end behind. `write_arpa` writes the model
for `kenlm` and others."""

import math
from collections import Counter, defaultdict

START, END = "<s>", "</s>"


class WordNGram:
    """Probabilities of the next word, from a list of sentences.

    >>> model = WordNGram(["one two", "one three"], order=2)
    >>> score, state = model.score(model.start(), "one")
    >>> round(math.exp(score), 3)
    0.76

    A word never seen gets what the uniform part leaves it; `unknown_score` is what the beam
    adds once its letters, or the space behind them, leave the trie of the words: for "sevn" at
    the n, for the cut "eigh" at its end. Raises ValueError for no words or an order below 1."""

    def __init__(self, sentences, order=3, unknown_score=-10.0):
        if order < 1:
            raise ValueError(f"order={order}: an n-gram has at least one word")
        self.order, self.unknown_score = order, unknown_score
        self.counts = defaultdict(Counter)
        for sentence in sentences:
            words = [START] * (order > 1) + sentence.split() + [END]
            for at in range(order > 1, len(words)):
                for n in range(min(order - 1, at) + 1):
                    self.counts[tuple(words[at - n : at])][words[at]] += 1
        self.words = {word for word in self.counts[()] if word != END}
        if not self.words:
            raise ValueError("the sentences hold no words: a model needs at least one")
        self.totals = {history: found.total() for history, found in self.counts.items()}
        self.prefixes = {word[:n] for word in self.words for n in range(len(word) + 1)}
        self.prefixes |= {word + " " for word in self.words}
        self._known = {}

    def start(self):
        """The state before the first word: a history, a tuple of words."""
        return (START,) * (self.order > 1)

    def score(self, state, word):
        """(log P(word | state), the next state); a natural logarithm."""
        key = state, word
        if key not in self._known:
            history = (*state, word)[-(self.order - 1) :] if self.order > 1 else ()
            self._known[key] = math.log(self.probability(state, word)), history
        return self._known[key]

    def end(self, state):
        """log P(the sentence ends | state)."""
        return math.log(self.probability(state, END))

    def is_prefix(self, letters):
        """Whether a known word begins with these letters, or is all of them up to a space."""
        return letters in self.prefixes

    def probability(self, history, word):
        """P(word | history) by the recursion; words, the end and the unknown sum to 1."""
        history = tuple(history)
        below = self.probability(history[1:], word) if history else 1 / (len(self.words) + 2)
        if history not in self.counts:
            return below
        found = self.counts[history]
        return (found[word] + len(found) * below) / (self.totals[history] + len(found))

    def write_arpa(self, path):
        """The path, written in ARPA format: logarithms to base 10, back-off T / (c + T)."""
        grams = defaultdict(dict)
        grams[1][(START,)] = -99.0
        grams[1][("<unk>",)] = math.log10(self.probability((), "<unk>"))
        for history, found in self.counts.items():
            for word in found:
                value = math.log10(self.probability(history, word))
                grams[len(history) + 1][(*history, word)] = value
        text = ["\\data\\", *(f"ngram {n}={len(grams[n])}" for n in sorted(grams)), ""]
        for n in sorted(grams):
            text.append(f"\\{n}-grams:")
            for gram, value in sorted(grams[n].items()):
                kinds = len(self.counts.get(gram, ()))  # after an unseen one the back-off is 1
                share = kinds / (self.totals[gram] + kinds) if kinds else 1.0
                weight = f"\t{math.log10(share):.7f}" if n < self.order else ""
                text.append(f"{value:.7f}\t{' '.join(gram)}{weight}")
            text.append("")
        path.write_text("\n".join([*text, "\\end\\", ""]), encoding="utf-8")
        return path
