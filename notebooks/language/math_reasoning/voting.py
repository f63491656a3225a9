"""Votes over sampled answers: pass@k, the majority, what k votes give and where they end.

Minerva samples several solutions of a problem and takes the most common final answer
(Lewkowycz and others, arXiv:2206.14858; Wang and others, arXiv:2203.11171). pass@k is the
unbiased estimator of Chen and others, arXiv:2107.03374, equation 1: of n samples with c right
ones a random k hold a right one with the chance 1 - C(n-c, k) / C(n, k).

An answer is any hashable value; None is "no answer", and never votes. What k votes give is the
mean over all subsets of k samples, drawn without putting back; leaders of a tie share it.

n samples of a problem, k of them vote; `right` says of each sample whether its answer is right.
"""

import json
import random
from collections import Counter
from html import escape
from itertools import combinations
from math import comb
from pathlib import Path

SCRIPT = Path(__file__).with_name("vote_slider.js")
MOST_SUBSETS = 1_000  # are gone through one by one; of more, some are drawn


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """The chance that a right answer is among k of these samples: `pass_at_k(8, 2, 1)` is 0.25.

    It is what a perfect picker would get. ValueError for counts that cannot be.
    """
    whole = all(one == int(one) for one in (samples, correct, k))
    if not (whole and 0 <= correct <= samples and 1 <= k <= samples):
        got = f"{samples} samples, {correct} correct, k={k}"
        raise ValueError(
            f"{got}: whole numbers with 0 <= correct <= samples, 1 <= k <= samples"
        )
    return 1.0 - comb(int(samples - correct), int(k)) / comb(int(samples), int(k))


def leaders(answers) -> list:
    """The most common answers, in the order in which they first came; [] where none votes."""
    votes = Counter(one for one in answers if one is not None)
    most = max(votes.values(), default=0)
    return [one for one, count in votes.items() if count == most]


def majority(answers):
    """The most common answer; of a tie the one that came first; None where none votes.

    `majority(["4", "7", None, "7"])` is "7".
    """
    return next(iter(leaders(answers)), None)


def classes(answers, same) -> list:
    """For each answer the first one that is the same, by `same(a, b)` -> True, False or None.

    None stays None. Not judged (None) is not the same: what nobody can read makes a class for
    each spelling, and never one class together.
    """
    known = []
    found = {None: None}
    for one in answers:
        if one not in found:
            found[one] = next((first for first in known if same(first, one) is True), one)
            known += [one] if found[one] == one else []
    return [found[one] for one in answers]


def share_right(answers, right) -> float:
    """The chance that the majority is right, ties broken at random; 0.0 without votes."""
    first = leaders(answers)
    good = {answer for answer, hit in zip(answers, right, strict=True) if hit}
    return sum(one in good for one in first) / len(first) if first else 0.0


def maj_at_k(answers, right, k: int, seed: int = 0, draws: int = 1000) -> float:
    """What a majority of k of these samples gets: the mean over all subsets of k, or, where
    there are more than `MOST_SUBSETS`, over so many draws of one, by the seed.
    """
    if not 1 <= k <= len(answers):
        raise ValueError(f"k={k} of {len(answers)} samples: 1 <= k <= samples")
    pairs = list(zip(answers, right, strict=True))
    if comb(len(pairs), k) <= MOST_SUBSETS:
        subsets = list(combinations(pairs, k))
    else:
        draw = random.Random(seed)
        subsets = [draw.sample(pairs, k) for _ in range(draws)]
    return sum(share_right(*zip(*one, strict=True)) for one in subsets) / len(subsets)


def limit(answers, right) -> float:
    """Where ever more votes end, were these samples the model's own shares: at the mode, right
    or wrong; between several modes they stay undecided.
    """
    return share_right(answers, right)


def best_at_k(scores, right, k: int) -> float:
    """What picking the best score of k samples gets, exactly; the earlier wins a tie."""
    if not 1 <= k <= len(scores):
        raise ValueError(f"k={k} of {len(scores)} samples: 1 <= k <= samples")
    order = sorted(range(len(scores)), key=lambda at: -scores[at])  # stable: ties as they came
    best = [comb(len(scores) - 1 - rank, k - 1) for rank in range(len(scores))]
    return sum(n for n, at in zip(best, order, strict=True) if right[at]) / comb(len(scores), k)


def paired_gain(after, before, repeats: int = 10_000, seed: int = 0) -> tuple:
    """(mean gain, low, high): `after` less `before`, problem by problem, with the 95 % interval
    of a bootstrap over problems. An interval that holds 0 decides nothing.
    """
    gains = [a - b for a, b in zip(after, before, strict=True)]
    draw = random.Random(seed)
    means = sorted(sum(draw.choices(gains, k=len(gains))) / len(gains) for _ in range(repeats))
    low, high = means[int(0.025 * repeats)], means[int(0.975 * repeats)]
    return sum(gains) / len(gains), low, high


def content(problems, right, curves) -> dict:
    """What the script gets: for each problem its question, reference, answers, verdicts and
    solutions; and for all problems together `curves`, {name: percent by k}.
    """
    keys = ("number", "question", "reference", "answers", "solutions")
    told = [
        {key: getattr(one, key) for key in keys} | {"right": hits}
        for one, hits in zip(problems, right, strict=True)
    ]
    return {"problems": told, "curves": curves}


def slider(words: str, data: dict) -> str:
    """HTML of the slider with its script. `words` stand there until a browser has run it."""
    inside = json.dumps(data).replace("<", "\\u003c")  # a solution may hold a tag's beginning
    return (
        f'<div class="vote-slider"><p>{escape(words)}</p>'
        f'<script type="application/json">{inside}</script></div>'
        f"<script>{SCRIPT.read_text(encoding='utf-8')}</script>"
    )
