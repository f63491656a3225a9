"""How a data set of rated phrase pairs is made, in small: from patents to anchors, contexts,
targets and ratings.

The steps are the article's. The patents are not: no corpus of patents comes with this chapter,
so `patents` composes short ones, each of one to three classes, from phrases of the real pairs
of these classes and from common ones. The model that fills a masked phrase is a count of
neighbouring words, where the article has Patent-BERT; targets "written by raters" are drawn
from the real pairs; the raters are those of `two_raters`. Everything else runs as described,
and nothing made here is used anywhere else.

Shapes: a patent is (classes, sentences); document frequency counts patents, not occurrences.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from patent_pairs import Pairs

STOPWORDS = re.compile(
    r"\b(?:an?|and|at|by|comprising|for|from|has|in|is|least|of|on|one|or|said|the|to|which|with)\b"
)
FUNCTIONAL = re.compile(r"\b\w{3,}(ing|tion)$")  # "food processing", "ink absorption"
FRAMES = (
    "the {0} comprising a {1} and the said {2}",
    "a {0} which has at least one {1} for {2}",
    "the {0} is by the {1} of a {2}",
)


class Patent(NamedTuple):
    """A simulated patent: the classes it was filed under, and its sentences."""

    classes: tuple[str, ...]
    sentences: tuple[str, ...]


def patents(
    pairs: Pairs, count: int, random: np.random.Generator, common: int = 60
) -> list[Patent]:
    """Simulated patents; half of their phrases are anchors of their classes, half `common`."""
    of_class: dict[str, list[str]] = defaultdict(list)
    for anchor, context in dict.fromkeys(zip(pairs.anchor, pairs.context, strict=True)):
        of_class[context].append(anchor)
    shared = random.choice(sorted(set(pairs.anchor)), common, replace=False)
    names, made = sorted(of_class), []
    for _ in range(count):
        size = min(len(names), random.integers(1, 4))
        classes = tuple(sorted(random.choice(names, size, replace=False).tolist()))
        own = random.choice([phrase for one in classes for phrase in of_class[one]], 12)
        drawn = np.where(random.random(12) < 0.5, random.choice(shared, 12), own).reshape(4, 3)
        frames = random.choice(FRAMES, 4)
        sentences = (frame.format(*three) for frame, three in zip(frames, drawn, strict=True))
        made.append(Patent(classes, tuple(sentences)))
    return made


def phrases(sentence: str) -> list[str]:
    """The runs of words between stopwords and punctuation, lower case, one to four words each.

    >>> phrases("The ink printing unit, comprising a drum and said roller")
    ['ink printing unit', 'drum', 'roller']
    """
    runs = re.split(rf"[^\w\s-]+|{STOPWORDS.pattern}", sentence.lower())
    return [" ".join(run.split()) for run in runs if 1 <= len(run.split()) <= 4]


def is_functional(phrase: str) -> bool:
    """Whether a phrase names an activity: several words, the last a noun made of a verb."""
    return " " in phrase and bool(FUNCTIONAL.search(phrase))


def clean(phrase: str) -> str:
    """Lower case, without punctuation and stopwords.

    >>> clean("Transmission of the ink, or drum")
    'transmission ink drum'
    """
    return " ".join(re.findall(r"\w+", STOPWORDS.sub(" ", phrase.lower())))


def frequent(corpus: Iterable[Patent], least: int = 100) -> dict[str, list[Patent]]:
    """The patents of each phrase that occurs in `least` patents or more; ValueError below 1."""
    if least < 1:
        raise ValueError(f"least = {least}; a phrase has to occur in one patent at least")
    found: dict[str, list[Patent]] = defaultdict(list)
    for patent in corpus:
        for phrase in sorted({one for text in patent.sentences for one in phrases(text)}):
            found[phrase].append(patent)
    return {phrase: held for phrase, held in found.items() if len(held) >= least}


def contexts(held: Sequence[Patent], random: np.random.Generator, most: int = 4) -> list[str]:
    """Up to `most` different classes, drawn from those of the patents that hold the phrase."""
    found = sorted({one for patent in held for one in patent.classes})
    return sorted(random.choice(found, min(most, len(found)), replace=False).tolist())


def partial_matches(
    anchor: str, vocabulary: Iterable[str], count: int, random: np.random.Generator
) -> list[str]:
    """Other phrases that share a word with the anchor, `count` at most, drawn at random."""
    words = set(anchor.split())
    found = sorted(one for one in vocabulary if one != anchor and words & set(one.split()))
    return random.permutation(np.array(found, dtype=object))[:count].tolist()


def fill_masked(anchor: str, corpus: Iterable[Patent], count: int) -> list[str]:
    """Other phrases between the same two words as the anchor, the most frequent first."""
    seen: dict[tuple[str, str], Counter] = defaultdict(Counter)
    for sentence in (one for patent in corpus for one in patent.sentences):
        for phrase in phrases(sentence):
            left, _, right = sentence.partition(phrase)
            seen[(left.split() or [""])[-1], (right.split() or [""])[0]][phrase] += 1
    total: Counter = Counter()
    for candidates in seen.values():
        weight = candidates.pop(anchor, 0)
        total.update({phrase: weight * times for phrase, times in candidates.items() if weight})
    return [phrase for phrase, _ in total.most_common(count)]
