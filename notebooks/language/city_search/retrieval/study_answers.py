"""The study: who finds the answer to a question in other words, who knows that there is none.

    make study CHAPTERS=language/city_search STUDY=answers

A seed splits the first questions of the paraphrases into three parts: an encoder learns from
one, confidence and the hybrid's share are chosen on the second, all are judged on the third. Of
the last two, every other first question is taken out of the index: its paraphrases have no
answer. All arms search the same passages. An answer counts as right only under the question
that was paraphrased, so what another page says as well counts as wrong. Splits draw from the
same questions, so their intervals are corrected for that.
"""

import functools
import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from helpers import data
from helpers.study import Arm, Job, Metric, Outcome, Part, Study, student

from . import gov_faq as faq
from .confidence import Confidence, calibrated, tally
from .encoder import Encoder, Recipe, train
from .passages import pieces
from .rankers import Found, Scorer, auc, dense, find, hybrid, lexical, near, overlap

GRID = tuple(share / 10 for share in range(11))  # of the lexical score in the hybrid


class Library(NamedTuple):
    """What is searched: the same passages by three fields, and under which question each
    stands.
    """

    questions: tuple[str, ...]
    answers: tuple[str, ...]
    both: tuple[str, ...]
    owners: tuple[str, ...]


class Asked(NamedTuple):
    """What an arm is handed: the library, paraphrases, which have an answer in it, and pairs
    that do not mean the same, as shipped and harder; for a part to learn from, pairs of a
    question and a passage that answers it.
    """

    library: Library
    queries: tuple[faq.Paraphrase, ...]
    known: tuple[bool, ...]
    shipped: tuple[faq.Paraphrase, ...]
    harder: tuple[faq.Paraphrase, ...]
    pairs: tuple[tuple[str, str], ...] = ()


@functools.cache
def _read():
    folder = data.fetch("gov_faq")
    return faq.faqs(folder), *faq.paraphrases(folder)


def library(rows: Sequence[faq.Faq], without: set[str] = frozenset()) -> Library:
    """The passages of all questions but those taken out."""
    made = []
    for row in rows:
        owner = faq.key(row.question)
        if owner not in without:
            made += [
                (row.question, one, f"{row.question} {one}", owner)
                for one in pieces(row.answer)
            ]
    return Library(*zip(*made, strict=True))


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """{"train", "choice", "test": paraphrases by their first question}, whose units are the
    first questions. In the part to learn from stand all pages' own questions, too, but for
    those of the other two parts and what is nearly said there.
    """
    rows, same, other = _read()
    split = faq.split(same, seed)
    keys = {name: sorted({faq.key(one.first) for one in own}) for name, own in split.items()}
    out = {one for name in ("choice", "test") for one in keys[name][seed % 2 :: 2]}
    books = library([row for row in rows if not row.state], out)
    made = {}
    for name, own in split.items():
        firsts, queries = {one.first for one in own}, {one.query for one in own}
        fits = tuple(one for one in other if one.first in firsts and one.query in queries)
        asked = faq.asked(own)
        known = tuple(not asked[faq.key(one.query)] <= out for one in own)
        task = Asked(books, tuple(own), known, fits, tuple(faq.harder(own, lexical)))
        made[name] = Part(task, keys[name])
    later = [*keys["choice"], *keys["test"]]  # and what another page asks nearly as they do
    later += [one.query for name in ("choice", "test") for one in split[name]]

    def unseen(*texts):
        return not any(near(text, one) for text in texts for one in later)

    mine = [row for row in rows if unseen(row.question)]
    pairs = [(row.question, pieces(row.answer)[0]) for row in mine if row.answer.strip()]
    pairs += 2 * [(one.query, one.first) for one in split["train"] if unseen(*one)]
    random.Random(seed).shuffle(pairs)
    learned = made["train"].data._replace(pairs=tuple(pairs[: sizes["pairs"]]))
    units = sorted({*keys["train"], *(faq.key(row.question) for row in mine)})
    return made | {"train": Part(learned, units)}


def corrected(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """(mean, low, high), 95 %, of splits that draw from the same questions: the variance of a
    mean counts the share judged over the rest, too (Nadeau and Bengio 2003).
    """
    mean, low, high = student(values)
    if low is None:
        return mean, low, high
    judged = faq.SHARES["test"]
    half = (high - mean) * (1 + len(values) * judged / (1 - judged)) ** 0.5
    return mean, mean - half, mean + half


class Reader(NamedTuple):
    """A ranker of any documents, the field of a library that it reads, and its confidence."""

    rank: Callable[[Sequence[str]], Scorer] | None
    reads: str = "questions"
    confidence: Confidence | None = None

    def searching(self, books: Library) -> Scorer:
        """A scorer of the library's passages."""
        return self.rank(getattr(books, self.reads))


def begin(word: str, job: Job) -> Reader:
    """The reader of an arm before it learned or chose."""
    return Reader({"common": overlap, "lexical": lexical}.get(word))


def fit(job: Job) -> Reader:
    """An arm's reader: its encoder trained where it has a recipe, its share and its confidence
    chosen on the part for that. The hybrid goes on from the trained encoder.
    """
    made, setting = job.start, job.arm.setting
    if setting.get("vectors"):
        encoder = Encoder(list(job.choice.library.both), seed=job.seed)
        if job.arm.loss:
            train(encoder, list(job.train.pairs), job.arm.loss, job.seed)
        made = Reader(functools.partial(dense, encoder=encoder))
    if setting.get("words"):
        made = Reader(_mixed(made.rank, job.choice))
    made = made._replace(reads=setting.get("reads", "questions"))
    founds = look(made, job.choice)
    return made._replace(confidence=calibrated(founds, [one.rank == 1 for one in founds]))


def _mixed(rank, asked: Asked):
    """BM25 and another ranker, at the share that has the best mean of 1 over the rank here."""
    both = [each(asked.library.questions) for each in (lexical, rank)]

    def mrr(share):
        founds = _found(hybrid(*both, share), asked)
        return sum(1 / one.rank for one in founds if one.rank)

    return functools.partial(_both, rank=rank, share=max(GRID, key=mrr))


def _both(documents: Sequence[str], rank, share: float) -> Scorer:
    return hybrid(lexical(documents), rank(documents), share)


def look(reader: Reader, asked: Asked) -> list[Found]:
    """What the reader finds for each question."""
    return _found(reader.searching(asked.library), asked)


def _found(scorer: Scorer, asked: Asked) -> list[Found]:
    owners, right = asked.library.owners, faq.asked(asked.queries)
    return [find(scorer(q), owners, right[faq.key(q)]) for _, q in asked.queries]


def judge(made: Reader, asked: Asked, job: Job) -> dict:
    """The tally, and how well the score tells pairs that mean the same from others."""
    told = tally(look(made, asked), asked.known, made.confidence)._asdict()
    firsts = list(dict.fromkeys(one.first for one in (*asked.queries, *asked.shipped)))
    scorer, place = made.rank(firsts), {first: at for at, first in enumerate(firsts)}

    def scores(pairs):
        return [float(scorer(one.query)[place[one.first]]) for one in pairs]

    same = scores(asked.queries)
    told |= {"auc_shipped": auc(same, scores(asked.shipped)) if asked.shipped else 1.0}
    return told | {"auc_harder": auc(same, scores(asked.harder))}


RECIPE = Recipe()
WORDS = {"choice": "choice"}
ARMS = {
    "overlap": Arm(start="common", **WORDS),
    "bm25": Arm(start="lexical", **WORDS),
    "bm25_pages": Arm(start="lexical", setting={"reads": "both"}, **WORDS),
    "bm25_answers": Arm(start="lexical", setting={"reads": "answers"}, **WORDS),
    "untrained": Arm(setting={"vectors": True}, **WORDS),
    "trained": Arm(train="train", loss=RECIPE, setting={"vectors": True}, **WORDS),
    "hybrid": Arm(start="trained", setting={"words": True}, **WORDS),
}
POINTS = "percentage points"
LEARNT = ["loss", "loss.batch", "loss.epochs", "loss.heat", "loss.rate", "train"]

STUDY = Study(
    notebook="city_answers",
    name="answers",
    arms=ARMS,
    seeds=range(20),
    sizes={"pairs": 10_000},
    trial={"pairs": 40},
    metrics={
        name: Metric("%", 100.0)
        for name in ("precision", "mrr", "answered", "right", "wrong", "refused", "error")
    }
    | {"auc_shipped": Metric("AUC"), "auc_harder": Metric("AUC")},
    parts=parts,
    begin=begin,
    fit=fit,
    judge=judge,
    outcomes={
        "study_trained_over_untrained": Outcome(
            "mrr", "trained", "untrained", LEARNT, unit=POINTS
        ),
        "study_hybrid_over_bm25": Outcome(
            "mrr", "hybrid", "bm25", ["setting.words", "start"], unit=POINTS
        ),
        "study_bm25_over_overlap": Outcome("mrr", "bm25", "overlap", ["start"], unit=POINTS),
    },
    interval=corrected,
    over="splits",
)
