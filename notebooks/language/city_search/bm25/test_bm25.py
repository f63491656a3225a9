"""BM25 by hand and by its properties."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import bm25

TEXTS = [
    "the mayor's office",
    "when is the office open",
    "trash day",
    "the trash the trash the trash",
    "",
]
SOME = st.lists(st.text(st.sampled_from("ab c"), max_size=12), min_size=1, max_size=6)


def by_hand(query, documents, k1=1.5, b=0.75):
    split = [bm25.words(text) for text in documents]
    mean = sum(map(len, split)) / len(split) or 1
    found = []
    for own in split:
        score = 0.0
        for word in bm25.words(query):
            holds, many = sum(word in other for other in split), own.count(word)
            rare = math.log(1 + (len(split) - holds + 0.5) / (holds + 0.5))
            score += rare * many / (many + k1 * (1 - b + b * len(own) / mean)) if many else 0
        found.append(score)
    return found


@given(st.text(st.sampled_from("ab c"), max_size=8), SOME)
def test_scores_are_the_formula(query, documents):
    assert bm25.scores(query, documents).tolist() == pytest.approx(
        by_hand(query, documents), rel=1e-12
    )


def test_the_formula_once_with_numbers():
    (first, second) = bm25.scores("open", ["open", "closed on monday"])
    weight = math.log(2)  # ln(1 + 1.5 / 1.5): one of two documents
    assert float(first) == pytest.approx(weight / (1 + 1.5 * (0.25 + 0.75 / 2))) and second == 0


def test_a_rarer_word_weighs_more_and_a_repeated_one_less_each_time():
    office, the = bm25.scores("day", TEXTS)[2], bm25.scores("trash", TEXTS)[2]
    assert office > the > 0
    once, thrice = bm25.scores("trash", ["trash x x", "trash trash trash"])
    assert once < thrice < 3 * once


def test_hostile_queries_are_the_formula():
    hard = [
        "the " * 500,
        "the THE tHe",
        "İ ß ǅ",
        "\0the\0",
        "_the_ the_",
        "1e9 ²",
        "",
        "\ud800 the",
    ]
    for query in hard:
        assert bm25.scores(query, TEXTS + hard).tolist() == pytest.approx(
            by_hand(query, TEXTS + hard), rel=1e-12
        )
    index = bm25.Index(TEXTS)
    assert index.rare("the") < index.rare("day") < index.rare("unheard")


def test_case_and_signs_do_not_count_and_unknown_words_score_nothing():
    assert torch.equal(bm25.scores("OFFICE?!", TEXTS), bm25.scores("office", TEXTS))
    assert not bm25.scores("parking permit", TEXTS).any() and not bm25.scores("", TEXTS).any()
    assert bm25.scores("école", ["École fermée"])[0] > 0


def test_nothing_to_search_has_no_scores_and_empty_documents_score_nothing():
    assert bm25.scores("a", []).shape == (0,)
    assert bm25.scores("a", ["", " ?"]).tolist() == [0, 0]


@pytest.mark.parametrize("settings", [{"k1": -1}, {"b": 1.5}, {"k1": float("nan")}])
def test_settings_out_of_their_range_are_told(settings):
    with pytest.raises(ValueError, match="k1 from 0 on and b from 0 to 1"):
        bm25.scores("a", ["a"], **settings)
