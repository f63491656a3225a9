"""Questions and answers of government pages from 2020 and 2021, and paraphrases of some.

`gov_faq` holds pages scraped by JHU-COVID-QA (FDA and four states) and a table of deepset's
COVID-QA. WHO's answers are left out: their licence forbids commercial use. Of 244 paraphrases
some belong to two questions; the split is by the *first* question, and what crosses is dropped.
"""

import csv
import html
import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bm25 import words

PLACES = {"FDA": "", "Vermont": "Vermont", "Kansas": "Kansas", "Oregon": "Oregon"}
PLACES["Florida"] = "Florida"
SHORT = {"Center": "CDC", "European": "ECDC", "Bundesministerium": "BMG"}
SHORT |= {"California": "California", "Washington": "Washington"}
LEFT_OUT = "World Health Organization"
SHIPPED = ("CDC", "FDA", "ECDC")  # public domain, public domain, reuse with credit
SHARES = {"train": 0.3, "choice": 0.3, "test": 0.4}  # of the first questions


class Faq(NamedTuple):
    """A question with its answer as text and as HTML, who said it, where, and when. `state` is
    empty for what holds in no single state.
    """

    question: str
    answer: str
    html: str
    source: str
    link: str
    state: str
    date: str


class Paraphrase(NamedTuple):
    """A question in other words: `query` asks what `first` asks."""

    first: str
    query: str


def mended(text: str) -> str:
    """The text as it was where bytes of UTF-8 were read as Latin-1: "Ã©" is "é"."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def faqs(folder: str | Path) -> list[Faq]:
    """All questions that may be used, in the order of the files."""
    made = []
    for name, state in PLACES.items():
        path = Path(folder, f"{name}_v0.3.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            question, answer = (mended(row[key]) for key in ("questionText", "answerText"))
            answer_html = mended(row["answerOriginal"])
            day = datetime.fromtimestamp(float(row["dateLastChanged"]), UTC).date().isoformat()
            row = (question, answer, answer_html, name, row["sourceUrl"], state, day)
            made.append(Faq(*row)._replace(question=_asked(question)))
    with Path(folder, "faq_covidbert.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if not row["source"].startswith(LEFT_OUT):
                source = SHORT[row["source"].split()[0]]
                told = row["question"], row["answer"], row["answer_html"], source
                day = row["last_update"].replace("/", "-")
                made.append(Faq(*told, row["link"].strip(), row["region"], day))
    return made


def _asked(question: str) -> str:
    return " ".join(question.split()).removeprefix("Q. ").removeprefix("Q: ")


def paraphrases(folder: str | Path) -> tuple[list[Paraphrase], list[Paraphrase]]:
    """(pairs that mean the same, pairs that do not) as shipped."""
    with Path(folder, "eval_question_similarity_en.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    pairs = [
        [Paraphrase(r["question_1"], r["question_2"]) for r in rows if r["similar"] == want]
        for want in "10"
    ]
    return pairs[0], pairs[1]


def key(text: str) -> str:
    """What two spellings of one question share: their words."""
    return " ".join(words(text))


def split(same: list[Paraphrase], seed: int) -> dict[str, list[Paraphrase]]:
    """{"train", "choice", "test": pairs}: each first question in one part, and no query in two,
    whatever its case and signs; those that would be are dropped.
    """
    firsts = sorted({key(one.first) for one in same})
    random.Random(seed).shuffle(firsts)
    part, begin = {}, 0
    for number, (name, share) in enumerate(SHARES.items()):
        last = number == len(SHARES) - 1
        end = len(firsts) if last else begin + round(share * len(firsts))
        part |= dict.fromkeys(firsts[begin:end], name)
        begin = end
    homes: dict[str, set[str]] = {}
    for one in same:
        for said in (one.first, one.query):
            homes.setdefault(key(said), set()).add(part[key(one.first)])
    made = {name: [] for name in SHARES}
    for one in same:
        if len(homes[key(one.query)]) == 1:
            made[part[key(one.first)]].append(one)
    return made


def asked(same: Sequence[Paraphrase]) -> dict[str, set[str]]:
    """By the key of each query the keys of the questions that it asks: of a few, two."""
    made: dict[str, set[str]] = {}
    for one in same:
        made.setdefault(key(one.query), set()).add(key(one.first))
    return made


def harder(same: list[Paraphrase], rank) -> list[Paraphrase]:
    """For each query the first question of *another* that a ranker takes for it: `rank(firsts)`
    gives its scores of a query.
    """
    firsts = list(dict.fromkeys(one.first for one in same))
    scorer = rank(firsts)
    means, made = asked(same), []
    for one in same:
        scores = scorer(one.query)
        others = [
            at for at, first in enumerate(firsts) if key(first) not in means[key(one.query)]
        ]
        if others:
            nearest = max(others, key=lambda at: float(scores[at]))
            made.append(Paraphrase(firsts[nearest], one.query))
    return made


def page(rows: list[Faq], language: str = "en", more: str = "") -> bytes:
    """A page of these questions as HTML, with its original address, for the served site."""
    first = rows[0]
    head = f'<html lang="{language}"><head><meta charset="utf-8"><title>{first.source}</title>'
    head += f'<link rel="canonical" href="{html.escape(first.link)}">'
    told = {"state": first.state, "source": first.source, "date": first.date}
    head += "".join(
        f'<meta name="{name}" content="{html.escape(value)}">' for name, value in told.items()
    )
    body = "".join(f"<h2>{html.escape(r.question)}</h2><div>{r.html}</div>" for r in rows)
    return f"<!doctype html>{head}</head><body>{more}{body}</body></html>".encode()
