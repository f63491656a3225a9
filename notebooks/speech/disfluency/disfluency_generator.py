"""Disfluencies made on purpose, with typed spans: fillers, repetitions, repairs and restarts.

The scheme is Shriberg's (1994): reparandum, interruption point, interregnum, repair. Her rate
for Switchboard, as the article quotes it: half of the sentences of 10 to 13 (fluent) words
hold a disfluency, and longer ones more. We put one before each word with probability
    r = 1 - 0.5 ** (1 / 11.5),  so that  P(at least one in n words) = 1 - (1 - r) ** n,
which is one half in the middle of that range. The shares of the kinds (`SHARES`), lengths and
cue words are our choice, not hers; what is measured on these sentences is measured on it.
German sentences come from a small grammar of ours, `german.json`; nobody said them."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from disfl_labels import DISFLUENT, Utterance

RATE = 1 - 0.5 ** (1 / 11.5)
SHARES = {"filler": 0.35, "repetition": 0.25, "repair": 0.3, "restart": 0.1}
INTERREGNUM = 0.5  # of repetitions and repairs have one; a restart always has
LENGTHS = ((1, 0.5), (2, 0.3), (3, 0.2))  # words of a reparandum, and how often
ENGLISH = {
    "fillers": ("uh", "um", "er", "well", "you know", "i mean", "like"),
    "cues": ("uh", "um", "no", "sorry", "i mean", "no wait", "or rather", "actually"),
}
GERMAN = json.loads(Path(__file__).with_name("german.json").read_text(encoding="utf-8"))
Alternatives = dict[str, tuple[str, ...]]


def alternatives(texts: Sequence[Sequence[str]]) -> Alternatives:
    """For each word, the words after it in `texts`: what a speaker might have said there."""
    found: dict[str, dict[str, None]] = {}
    for words in texts:
        for before, word in zip(("<s>", *words), words, strict=False):
            found.setdefault(before, {})[word] = None
    return {word: tuple(after) for word, after in found.items()}


def spoken(
    words: Sequence[str],
    rng: np.random.Generator,
    others: Alternatives,
    language: dict = ENGLISH,
    rate: float = RATE,
) -> Utterance:
    """The sentence as somebody might say it, an `Utterance` with kinds; never nested.

    `spoken(("who", "won"), rng, alternatives(texts))` may be "who uh who won". Removing the
    disfluent words gives `words` back, whatever is drawn."""
    if not 0 <= rate <= 1:
        raise ValueError(f"rate={rate}: a probability for each word is needed, 0 to 1")
    out: list[tuple[str, str]] = []
    at = 0
    while at < len(words):
        taken = 0
        if rng.random() < rate:
            before = words[at - 1] if at else "<s>"
            made, taken = _disfluency(before, words[at:], rng, others, language)
            out += made
        for offset in range(max(1, taken)):
            kind = "fluent" if not taken else "repair" if offset else "repair onset"
            out.append((words[at + offset], kind))
        at += max(1, taken)
    said, kinds = ([pair[at] for pair in out] for at in (0, 1))
    return Utterance(tuple(said), tuple(int(k in DISFLUENT) for k in kinds), tuple(kinds))


def _disfluency(before, ahead, rng, others, language) -> tuple[list[tuple[str, str]], int]:
    """Words and kinds to be said first, and how many of the words ahead are their repair."""
    kind = rng.choice(list(SHARES), p=list(SHARES.values()))
    if kind == "filler":
        return [(w, "edit") for w in _one(language["fillers"], rng).split()], 0
    length = int(rng.choice([n for n, _ in LENGTHS], p=[p for _, p in LENGTHS]))
    length = min(length, len(ahead))
    said = list(ahead[:length])
    if kind == "repair":
        at = int(rng.integers(length))
        choice = [w for w in others.get(said[at - 1] if at else before, ()) if w != said[at]]
        if choice:
            said[at] = _one(choice, rng)
            said = said[: max(at + 1, int(rng.integers(1, length + 1)))]
    if kind == "restart":
        said, word = [], "<s>"
        for _ in range(length + 1):
            word = _one(others.get(word, ahead), rng)
            said.append(word)
    cue = kind == "restart" or rng.random() < INTERREGNUM
    between = _one(language["cues"], rng).split() if cue else []
    made = [(w, "reparandum") for w in said] + [(w, "interregnum") for w in between]
    return made, length


def _one(choice: Sequence[str], rng: np.random.Generator) -> str:
    return choice[int(rng.integers(len(choice)))]


def german(rng: np.random.Generator) -> tuple[str, ...]:
    """One generated German sentence, 6 to 14 words in lower case."""
    said = {slot: [_one(some, rng), _one(some, rng)] for slot, some in GERMAN["slots"].items()}
    return tuple(_one(GERMAN["forms"], rng).format(**said).lower().split())


def german_parts(few: int, seed: int, tests: int = 300) -> dict[str, list[Utterance]]:
    """Generated German, all different: "few" and as many "more" to learn from, and "test"."""
    rng = np.random.default_rng(1000 + seed)
    texts = list(dict.fromkeys(german(rng) for _ in range(2 * few + 600 + tests)))
    others = alternatives(texts)
    made = [spoken(text, rng, others, GERMAN) for text in texts]
    return {"few": made[:few], "test": made[-tests:], "more": made[few : 2 * few]}
