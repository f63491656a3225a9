"""How a data set of rated phrase pairs is made, in small: from patents to anchors, contexts and
targets.

The steps are the article's. The patents are not: `patents` composes short ones, each of one to
three classes, from phrases of the real pairs of these classes and from common ones. The article
masks an anchor in its sentences and asks Patent-BERT, a masked language model, what may stand
there; `fill_masked` counts what stands between the same two words. Nothing made here is used
anywhere else.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from patent_pairs import Pairs

STOPWORDS = "an?|and|at|by|comprising|for|from|has|in|is|least|of|on|one|or|said|the|to|which"
FRAMES = (
    "the {0} comprising a {1} and the said {2}",
    "a {0} which has at least one {1} for {2}",
    "the {0} is by the {1} of a {2}",
)


class Patent(NamedTuple):
    """A simulated patent: the classes it was filed under, and its sentences."""

    classes: list[str]
    sentences: list[str]


def patents(pairs: Pairs, count: int, random, common: int = 60) -> list[Patent]:
    """Simulated patents; half of their phrases are anchors of their classes, half `common`."""
    known = sorted(set(pairs.context))
    of_class = {one: np.unique(pairs.anchor[pairs.context == one]) for one in known}
    shared = random.choice(np.unique(pairs.anchor), common, replace=False)
    made = []
    for size in np.minimum(random.integers(1, 4, count), len(known)):
        classes = sorted(random.choice(known, size, replace=False).tolist())
        own = random.choice(np.concatenate([of_class[one] for one in classes]), 12)
        drawn = np.where(random.random(12) < 0.5, random.choice(shared, 12), own).reshape(4, 3)
        filled = zip(random.choice(FRAMES, 4), drawn, strict=True)
        made.append(Patent(classes, [frame.format(*three) for frame, three in filled]))
    return made


def phrases(sentence: str) -> list[str]:
    """The runs of words between stopwords and punctuation, lower case, one to four words each.

    >>> phrases("The ink printing unit, comprising a drum and said roller")
    ['ink printing unit', 'drum', 'roller']
    """
    runs = re.split(rf"[^\w\s-]+|\b(?:{STOPWORDS}|with)\b", sentence.lower())
    return [" ".join(run.split()) for run in runs if 1 <= len(run.split()) <= 4]


def frequent(corpus: Iterable[Patent], least: int = 100) -> dict[str, list[Patent]]:
    """The patents of each phrase that occurs in `least` patents or more; ValueError below 1."""
    if least < 1:
        raise ValueError(f"least = {least}; a phrase has to occur in one patent at least")
    found: dict[str, list[Patent]] = defaultdict(list)
    for patent in corpus:
        for phrase in sorted({one for text in patent.sentences for one in phrases(text)}):
            found[phrase].append(patent)
    return {phrase: held for phrase, held in found.items() if len(held) >= least}


def contexts(held: Sequence[Patent], random, most: int = 4) -> list[str]:
    """Up to `most` different classes, drawn from those of the patents that hold the phrase."""
    found = sorted({one for patent in held for one in patent.classes})
    return sorted(random.choice(found, min(most, len(found)), replace=False).tolist())


def partial_matches(anchor: str, vocabulary: Iterable[str], count: int, random) -> list[str]:
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
