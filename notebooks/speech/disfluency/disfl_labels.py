"""Labels for Disfl-QA: which words of a disfluent question have to go.

Gupta et al. (2021) give a fluent question and a disfluent one, without labels. Where the fluent
question is a subsequence of the disfluent one, word by word, the words left over are the
disfluency. A subsequence can often be placed in several ways ("did no what did ..."): we match
from the right, since speakers repair by saying something again, and the last saying counts.

Kinds follow Shriberg (1994): a *reparandum* is taken back, an *interregnum* ("no wait") stands
between it and the *repair*, an *edit* is a filler that takes nothing back. Disfl-QA does not
mark them, so the cue words at the end of what is left over are called interregnum, by a list.
How far a repair reaches is not known there; only its first word, the *repair onset*, is."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

KINDS = ("fluent", "edit", "repair onset", "repair", "reparandum", "interregnum")
DISFLUENT = {"edit", "reparandum", "interregnum"}
_CUES = (
    "uh um er ah oh no not sorry wait actually rather mean i make that well or okay scratch "
    "excuse me correction nevermind hold on never mind hmm yeah say just"
)
CUES = frozenset(_CUES.split())
LONGEST = 96  # words; the longest of Disfl-QA has 90


@dataclass(frozen=True)
class Utterance:
    """Words, one label each (1: to be removed), and one of `KINDS` each.

    `Utterance(("uh", "who", "won"), (1, 0, 0), ("edit", "fluent", "fluent"))`"""

    words: tuple[str, ...]
    labels: tuple[int, ...]
    kinds: tuple[str, ...]

    @property
    def cleaned(self) -> tuple[str, ...]:
        """The words that stay."""
        return tuple(w for w, bad in zip(self.words, self.labels, strict=True) if not bad)


def words_of(text: str) -> tuple[str, ...]:
    """Lower-case words without punctuation: `words_of("It's, uh, fine.")` is ("it's", "uh",
    "fine")."""
    if not isinstance(text, str):
        raise ValueError(f"text is needed, got {type(text).__name__}: {text!r:.40}")
    return tuple(re.findall(r"[\w']+", text.lower()))


def aligned(original: Sequence[str], disfluent: Sequence[str]) -> tuple[int, ...] | None:
    """A label for each disfluent word, or None where `original` is no subsequence.

    Matched from the right: `aligned(["a", "b"], ["a", "no", "a", "b"])` is (1, 1, 0, 0)."""
    labels, left = [1] * len(disfluent), len(original)
    for at in range(len(disfluent) - 1, -1, -1):
        if left and disfluent[at] == original[left - 1]:
            labels[at], left = 0, left - 1
    return None if left else tuple(labels)


def runs(labels: Sequence[int]) -> list[tuple[int, int]]:
    """Maximal runs of 1 as (first, behind the last): `runs([0, 1, 1, 0])` is [(1, 3)]."""
    edges = [0, *labels, 0]
    first = [at for at in range(len(labels)) if edges[at + 1] > edges[at]]
    behind = [at + 1 for at in range(len(labels)) if edges[at + 1] > edges[at + 2]]
    return list(zip(first, behind, strict=True))


def kinds_by_cues(words: Sequence[str], labels: Sequence[int]) -> tuple[str, ...]:
    """Kinds guessed from labels and the list `CUES`; no word is called "repair" (see above)."""
    kinds = ["fluent"] * len(words)
    for first, behind in runs(labels):
        cut = behind
        while cut > first and words[cut - 1] in CUES:
            cut -= 1
        for at in range(first, behind):
            kinds[at] = "edit" if cut == first else "reparandum" if at < cut else "interregnum"
        if cut > first and behind < len(words):
            kinds[behind] = "repair onset"
    return tuple(kinds)


def read(path: Path) -> tuple[list[Utterance], list[tuple[str, ...]], int]:
    """The labelled utterances of a Disfl-QA file, the fluent originals of the same rows, and
    how many rows have no labels (the original is no subsequence)."""
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
        pairs = [
            [words_of(row[key]) for key in ("original", "disfluent")] for row in rows.values()
        ]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = 'it must be JSON: {id: {"original": text, "disfluent": text}}'
        raise ValueError(f"{path} is no file of Disfl-QA: {error!r}; {why}") from error
    labelled, originals = [], []
    for original, disfluent in pairs:
        labels = aligned(original, disfluent)
        if labels is not None:
            labelled.append(Utterance(disfluent, labels, kinds_by_cues(disfluent, labels)))
            originals.append(original)
    return labelled, originals, len(pairs) - len(labelled)


def fluent(words: Sequence[str]) -> Utterance:
    """The words as an utterance without disfluency: a negative example."""
    return Utterance(tuple(words), (0,) * len(words), ("fluent",) * len(words))


class Vocabulary:
    """Word numbers: 0 is padding, 1 the mask of pre-training, then frequent words and buckets.

    A rare word gets the bucket of its hash (FNV-1a, 32 bits), so that the *same* rare word said
    twice has the same number: a repetition stays visible. Unknown words are never an error."""

    def __init__(self, words: Iterable[str], buckets: int = 200) -> None:
        self.words, self.buckets = tuple(words), buckets
        self._numbers = {word: at + 2 for at, word in enumerate(self.words)}

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]], size: int, buckets: int = 200) -> "Vocabulary":
        """The `size` most frequent words; ties in alphabetical order."""
        counts = Counter(word for text in texts for word in text)
        ranked = sorted(counts, key=lambda word: (-counts[word], word))
        return cls(ranked[:size], buckets)

    def __len__(self) -> int:
        return 2 + len(self.words) + self.buckets

    def __call__(self, words: Sequence[str]) -> list[int]:
        """Numbers of 1 to 96 words; ValueError for none, for more, or for what is no word."""
        if not 1 <= len(words) <= LONGEST:
            raise ValueError(f"1 to {LONGEST} words are allowed, got {len(words)}")
        if isinstance(words, str) or not all(isinstance(word, str) and word for word in words):
            raise ValueError(f"a list of words is needed, not {words!r:.60}: see words_of")
        first = 2 + len(self.words)
        return [self._numbers.get(word) or first + fnv1a(word) % self.buckets for word in words]


def fnv1a(word: str) -> int:
    """The 32-bit FNV-1a hash of a word's UTF-8 bytes; the page's script computes the same."""
    value = 0x811C9DC5
    for byte in word.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value
