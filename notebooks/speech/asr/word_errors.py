"""Word error rate: how many words a transcript got wrong, and in which way.

Articles: the two of the chapter `speech/asr`. With substitutions S, deletions D, insertions I
and N words in the references, WER = (S + D + I) / N; the article on serving leaves insertions
out of its wording. The counts come from a Levenshtein alignment of words. Several alignments
can be shortest, and then S, D and I depend on the choice; ours is that of rapidfuzz, so that
all three equal `jiwer`'s: what both begin or end with is set aside; then, walking back from the
end, a deletion where it shortens, else an insertion, else a match or substitution.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["WordErrors", "word_error_rate", "word_error_rate_reference"]


@dataclass(frozen=True)
class WordErrors:
    """Counts over a corpus; `rate` is (S + D + I) / words, `float(errors)` the same."""

    substitutions: int
    insertions: int
    deletions: int
    words: int

    @property
    def rate(self):
        wrong = self.substitutions + self.insertions + self.deletions
        return wrong / self.words if self.words else float(wrong > 0)

    def __float__(self):
        return self.rate

    def __add__(self, other):
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return WordErrors(*(a + b for a, b in pairs))


def word_error_rate(references, hypotheses):
    """The WordErrors of a corpus: long utterances weigh more, as words are counted together.

    >>> word_error_rate(["one two three"], ["one too three four"])
    WordErrors(substitutions=1, insertions=1, deletions=0, words=3)

    Two lists of strings of one length, or two strings; words are what white space parts. The
    rate can exceed 1. Without reference words it is 0, or 1 if anything was heard. Raises
    ValueError for lists of unequal or no length.
    """
    if isinstance(references, str):
        references, hypotheses = [references], [hypotheses]
    if len(references) != len(hypotheses) or not len(references):
        raise ValueError(
            f"{len(references)} references and {len(hypotheses)} hypotheses: one hypothesis "
            "for each reference, and at least one pair"
        )
    total = WordErrors(0, 0, 0, 0)
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        total += _counts(reference.split(), hypothesis.split())
    return total


def word_error_rate_reference(reference, hypothesis):
    """Fewest word edits between two strings, by the recursion of Levenshtein: an int."""
    words, heard = reference.split(), hypothesis.split()
    row = list(range(len(heard) + 1))
    for i, word in enumerate(words, 1):
        above, row[0] = row[:], i
        for j, other in enumerate(heard, 1):
            row[j] = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (word != other))
    return row[-1]


def _counts(words, heard):
    """The WordErrors of one pair of word lists, walking back through the distances."""
    total, words, heard = len(words), *_without_common_ends(words, heard)
    d, i, j = _distances(words, heard), len(words), len(heard)
    substitutions = insertions = deletions = 0
    while i and j:
        if d[i][j] == d[i - 1][j] + 1:
            i, deletions = i - 1, deletions + 1
        elif j > 1 and d[i][j - 1] == d[i - 1][j - 1] - 1:
            j, insertions = j - 1, insertions + 1
        else:
            i, j = i - 1, j - 1
            substitutions += words[i] != heard[j]
    return WordErrors(substitutions, insertions + j, deletions + i, total)


def _without_common_ends(words, heard):
    """Both lists without the words that they begin with alike, then end with alike."""
    begin = 0
    while begin < min(len(words), len(heard)) and words[begin] == heard[begin]:
        begin += 1
    end = 0
    while end < min(len(words), len(heard)) - begin and words[-1 - end] == heard[-1 - end]:
        end += 1
    return words[begin : len(words) - end], heard[begin : len(heard) - end]


def _distances(words, heard):
    """Edit distances of all pairs of beginnings, a list of len(words) + 1 rows."""
    ids = {word: n for n, word in enumerate(dict.fromkeys([*words, *heard]))}
    heard_J = np.array([ids[word] for word in heard], np.int64)
    place_J = np.arange(len(heard) + 1)
    row, rows = place_J, [place_J.tolist()]
    for i, word in enumerate(words, 1):
        best = np.minimum(row[1:] + 1, row[:-1] + (heard_J != ids[word]))
        # an insertion costs 1 a place: a running minimum of what is left after the places
        row = np.minimum.accumulate(np.append(i, best) - place_J) + place_J
        rows.append(row.tolist())
    return rows
