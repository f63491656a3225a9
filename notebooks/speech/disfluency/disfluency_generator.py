"""Disfluencies made on purpose, with typed spans: fillers, repetitions, repairs and restarts.

The scheme is Shriberg's (1994): reparandum, interruption point, interregnum, repair. Her rate
for Switchboard, as the article quotes it: half of the sentences of 10 to 13 (fluent) words
hold a disfluency, and longer ones more. We put one before each word with probability
    r = 1 - 0.5 ** (1 / 11.5),  so that  P(at least one in n words) = 1 - (1 - r) ** n,
which is one half in the middle of that range. The shares of the kinds (`SHARES`), lengths and
cue words are our choice, not hers; what is measured on these sentences is measured on our
choice.

German sentences come from a small grammar of ours: they are generated, not transcribed.
"""

from collections.abc import Sequence

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
GERMAN = {
    "fillers": ("äh", "ähm", "hm", "also", "na ja", "weißt du", "sozusagen"),
    "cues": (
        "äh",
        "ähm",
        "nein",
        "quatsch",
        "ich meine",
        "nein warte",
        "oder vielmehr",
        "pardon",
    ),
}
Alternatives = dict[str, tuple[str, ...]]


def alternatives(texts: Sequence[Sequence[str]]) -> Alternatives:
    """For each word, the words seen after it in `texts`: what a speaker might have said
    there."""
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
    disfluent words gives `words` back, whatever is drawn.
    """
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
    return Utterance(
        tuple(word for word, _ in out),
        tuple(int(kind in DISFLUENT) for _, kind in out),
        tuple(kind for _, kind in out),
    )


def _disfluency(
    before: str,
    ahead: Sequence[str],
    rng: np.random.Generator,
    others: Alternatives,
    language: dict,
) -> tuple[list[tuple[str, str]], int]:
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


_PEOPLE = (
    "der Bürgermeister|die Lehrerin|der Pilot|die Ärztin|mein Bruder|unsere Nachbarin|"
    "der Chef|die Sängerin|der Bäcker|die Richterin|dein Onkel|die Trainerin"
)
_THINGS = (
    "den Bericht|das Paket|die Rechnung|den Schlüssel|das Fahrrad|die Zeitung|"
    "den Brief|das Auto|die Karte|den Kuchen|das Buch|die Lampe"
)
_TIMES = (
    "am Montag|am Freitag|gestern|heute früh|im Sommer|vor zwei Jahren|letzte Woche|"
    "um acht Uhr|am Abend|nach dem Essen"
)
_PLACES = (
    "in Berlin|in Hamburg|auf dem Markt|im Büro|am Bahnhof|in der Schule|"
    "bei uns|vor dem Haus|im Garten|in der Küche"
)
_DONE = "gekauft|gefunden|verloren|bezahlt|gebracht|verkauft|gesehen|vergessen|geholt|repariert"
_ASKED = "wann|warum|wo|wie oft|mit wem|wieso"


def german(rng: np.random.Generator) -> tuple[str, ...]:
    """One generated German sentence, 6 to 14 words in lower case."""
    people, things, times, places, done, asked = (
        slot.lower().split("|") for slot in (_PEOPLE, _THINGS, _TIMES, _PLACES, _DONE, _ASKED)
    )
    who, what, when, where, did, ask = (
        _one(slot, rng) for slot in (people, things, times, places, done, asked)
    )
    forms = (
        f"{ask} hat {who} {what} {where} {did}",
        f"{who} hat {what} {when} {where} {did}",
        f"{when} hat {who} {what} {did} und dann {where} {_one(done, rng)}",
        f"ich glaube dass {who} {what} {where} {did} hat",
        f"hat {who} {when} {what} oder {_one(things, rng)} {did}",
        f"{where} wurde nichts {did} weil {who} {what} {when} {_one(done, rng)} hatte",
    )
    return tuple(_one(forms, rng).split())


def german_parts(few: int, seed: int, tests: int = 300) -> dict[str, list[Utterance]]:
    """Generated German of different sentences: "few" and as many "more" to learn from, and
    "test"."""
    rng = np.random.default_rng(1000 + seed)
    texts = list(dict.fromkeys(german(rng) for _ in range(2 * few + 600 + tests)))
    others = alternatives(texts)
    made = [spoken(text, rng, others, GERMAN) for text in texts]
    return {"few": made[:few], "test": made[-tests:], "more": made[few : 2 * few]}
