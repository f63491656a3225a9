"""Each arm of the study meets the same questions; what it learns from holds none of them."""

from dataclasses import replace

import pytest
import torch
from helpers.study import Job
from press.study import hold

from . import gov_faq
from . import study_answers as study
from .encoder import Recipe

ARMS = {  # train, start, reads, vectors, words
    "overlap": (None, "common", "questions", False, False),
    "bm25": (None, "lexical", "questions", False, False),
    "bm25_pages": (None, "lexical", "both", False, False),
    "bm25_answers": (None, "lexical", "answers", False, False),
    "untrained": (None, "new", "questions", True, False),
    "trained": ("train", "new", "questions", True, False),
    "hybrid": (None, "trained", "questions", False, True),
}


@pytest.fixture(scope="module")
def parts():
    return study.parts(0, study.STUDY.sizes)


def test_arms_are_handed_the_same_questions_and_what_they_are_named_for(parts):
    small = study.parts(0, study.STUDY.trial)
    seen = hold(study.STUDY, lambda seed, sizes: small)
    assert {name for name, _ in seen} == set(ARMS)
    for (name, _), one in seen.items():
        learns, start, reads, vectors, words = ARMS[name]
        arm = one.job.arm
        assert (
            one.tests["test"] is small["test"].data and one.job.choice is small["choice"].data
        )
        assert one.job.train is (small["train"].data if learns else None)
        assert (arm.start, arm.setting.get("reads", "questions")) == (start, reads)
        assert (arm.setting.get("vectors", False), arm.setting.get("words", False)) == (
            vectors,
            words,
        )
        assert arm.loss == (Recipe(20, 0.01, 64, 0.05) if learns else None)
    assert list(study.STUDY.seeds) == list(range(20)) and study.STUDY.sizes == {"pairs": 10_000}


def test_no_part_holds_a_question_or_an_answer_of_another(parts):
    units = {name: set(part.units) for name, part in parts.items()}
    assert not units["train"] & units["test"] and not units["choice"] & units["test"]
    assert not units["train"] & units["choice"]
    judged = {
        gov_faq.key(one.query)
        for name in ("choice", "test")
        for one in parts[name].data.queries
    }
    judged |= units["choice"] | units["test"]
    pairs = parts["train"].data.pairs
    assert len(pairs) > 500
    assert not {gov_faq.key(text) for pair in pairs for text in pair} & judged
    assert not [pair for pair in pairs for one in judged if study.near(pair[0], one)]
    assert not study.near("a b c", "a b") and study.near("a b c d?", "B c a")


def test_half_of_the_first_questions_are_out_of_the_index(parts):
    asked = parts["test"].data
    held = set(asked.library.owners)
    means = gov_faq.asked(asked.queries)
    for one, known in zip(asked.queries, asked.known, strict=True):
        assert bool(means[gov_faq.key(one.query)] & held) == known
    out = [unit for unit in parts["test"].units if unit not in held]
    assert abs(2 * len(out) - len(parts["test"].units)) <= 1
    assert {len(side) for side in asked.library} == {len(asked.library.owners)}
    stateless = {row.question for row in study._read()[0] if not row.state}
    assert set(asked.library.questions) <= stateless


def test_a_question_that_asks_two_is_right_under_either(parts):
    same = [gov_faq.Paraphrase(first, "C?") for first in ("A", "B")]
    task = parts["test"].data
    books = study.Library(("b", "x"), ("", ""), ("", ""), ("b", "x"))
    task = task._replace(library=books, queries=tuple(same), known=(True, True))
    reader = study.Reader(lambda texts: lambda query: torch.tensor([1.0, 0.0]))
    assert [one.rank for one in study.look(reader, task)] == [1, 1]


def test_intervals_know_that_splits_draw_from_the_same_questions():
    values = [1.0, 2.0, 4.0, 5.0]
    mean, low, high = study.corrected(values)
    plain = study.student(values)
    wider = (1 / 4 + 0.4 / 0.6) ** 0.5 / (1 / 4) ** 0.5
    assert mean == plain[0] and high - mean == pytest.approx(wider * (plain[2] - plain[0]))
    assert low + high == pytest.approx(2 * mean) and study.STUDY.interval is study.corrected


def test_two_seeds_split_otherwise():
    one, other = (study.parts(seed, study.STUDY.trial)["test"].units for seed in (0, 1))
    assert set(one) != set(other)


def made(name, parts, **arm):
    own = replace(study.ARMS[name], **arm)
    sizes, start = study.STUDY.trial, study.begin(own.start, None)
    train = parts[own.train].data if own.train else None
    return study.fit(Job(name, own, 0, sizes, start, train, parts["choice"].data))


def test_a_reader_that_knows_the_answers_scores_best_and_a_blind_one_badly(parts):
    asked = parts["test"].data
    right = gov_faq.asked(asked.queries)

    def knowing(documents):
        keys = [gov_faq.key(text) for text in documents]
        return lambda query: torch.tensor(
            [float(key in right[gov_faq.key(query)]) for key in keys]
        )

    sure = study.Confidence((9.0, 0.0, -4.5), 0.5)
    best = study.judge(study.Reader(knowing, confidence=sure), asked, None)
    assert best["precision"] == best["mrr"] == best["auc_harder"] == best["refused"] == 1
    assert best["wrong"] == 0 and best["right"] == sum(asked.known) / len(asked.known)
    blind = study.Reader(lambda texts: lambda query: torch.zeros(len(texts)), confidence=sure)
    worst = study.judge(blind, asked, None)
    assert worst["precision"] < 0.1 and worst["auc_harder"] == 0.5


def test_what_is_chosen_is_chosen_on_the_part_for_that(parts):
    swapped = {**parts, "choice": parts["test"]}
    one, other = made("bm25", parts), made("bm25", swapped)
    assert one.confidence != other.confidence
    founds = study.look(one, parts["choice"].data)
    assert one.confidence == study.calibrated(founds, [found.rank == 1 for found in founds])
    told = made("untrained", parts), made("trained", parts, loss=Recipe(1))
    query = ["is it safe to open a package"]
    scores = [reader.rank(["are packages safe"])(query[0]) for reader in told]
    assert not torch.equal(*scores)


def test_a_start_s_word_and_a_setting_are_what_they_name(parts):
    named = {word: study.begin(word, None).rank for word in ("common", "lexical", "new")}
    assert named == {"common": study.overlap, "lexical": study.lexical, "new": None}
    books = study.Library(("a", "b"), ("b c", "d"), ("a b c", "b d"), ("a", "b"))
    for reads in ("questions", "answers", "both"):
        mine = study.Reader(study.lexical, reads).searching(books)("b")
        assert torch.equal(mine, study.lexical(getattr(books, reads))("b"))


def test_the_hybrid_s_share_of_bm25_is_the_best_on_the_part_for_choosing(parts, monkeypatch):
    choice = parts["choice"].data
    right = gov_faq.asked(choice.queries)
    choice = choice._replace(queries=choice.queries[:9])

    def knowing(documents, by=1.0):
        keys = [gov_faq.key(text) for text in documents]
        return lambda query: torch.tensor([by * (k in right[gov_faq.key(query)]) for k in keys])

    monkeypatch.setattr(study, "lexical", knowing)
    mixed = study._mixed(lambda documents: knowing(documents, -1.0), choice)
    assert mixed.keywords["share"] == 0.6  # the first that outweighs
    query = choice.queries[0]
    assert mixed([query.first])(query.query) == pytest.approx(0.6 - 0.4)


def test_an_encoder_is_of_its_seed(parts):
    one, two = (
        study.fit(Job("untrained", study.ARMS["untrained"], seed, {}, None, None, choice))
        for seed in (0, 1)
        for choice in [parts["choice"].data]
    )
    assert not torch.equal(*(made.rank(["masks"])("is it safe") for made in (one, two)))


def test_words_in_common_pass_the_shipped_pairs_and_not_the_harder_ones(parts):
    found = study.judge(made("overlap", parts), parts["test"].data, None)
    assert found["auc_shipped"] > 0.75 > 0.7 > found["auc_harder"]


def test_outcomes_point_at_what_is_worse_by_name():
    told = {
        label: (one.arm, one.less, one.metric) for label, one in study.STUDY.outcomes.items()
    }
    assert told == {
        "study_trained_over_untrained": ("trained", "untrained", "mrr"),
        "study_hybrid_over_bm25": ("hybrid", "bm25", "mrr"),
        "study_bm25_over_overlap": ("bm25", "overlap", "mrr"),
    }
    study.STUDY.check()
    arms = {**study.ARMS, "untrained": replace(study.ARMS["untrained"], start="lexical")}
    with pytest.raises(ValueError, match="start"):
        replace(study.STUDY, arms=arms).check()
