"""Phrases, their patents, contexts and candidates by hand-made corpora."""

from collections import Counter

import numpy as np
import pair_generation as pg
import patent_pairs as pp
import pytest

CORPUS = [
    pg.Patent(["A01", "B02"], ["the gear wheel of a drum"]),
    pg.Patent(["B02"], ["the gear wheel of a lens", "the gear wheel of a drum"]),
    pg.Patent(["C03"], ["the steel wheel of a drum"]),
]


def random():
    return np.random.default_rng(0)


def test_phrases_stand_between_stopwords_and_punctuation():
    assert pg.phrases("The ink printing unit, comprising a drum and said roller") == [
        "ink printing unit",
        "drum",
        "roller",
    ]
    assert pg.phrases("one two-part axle; five words are too many here") == ["two-part axle"]


def test_frequency_counts_patents_and_not_occurrences():
    found = pg.frequent(CORPUS, least=2)
    assert {phrase: len(held) for phrase, held in found.items()} == {"gear wheel": 2, "drum": 3}
    with pytest.raises(ValueError, match="least = 0"):
        pg.frequent(CORPUS, 0)


def test_contexts_are_classes_of_the_patents_and_at_most_four():
    assert pg.contexts(CORPUS[:2], random()) == ["A01", "B02"]
    many = [pg.Patent(list("ABCDEF"), [])]
    assert len(set(pg.contexts(many, random()))) == 4


def test_partial_matches_share_a_word_and_differ():
    found = pg.partial_matches(
        "gear wheel", ["gear wheel", "steel wheel", "drum", "gear box"], 9, random()
    )
    assert sorted(found) == ["gear box", "steel wheel"]
    assert pg.partial_matches("lens", ["drum"], 3, random()) == []


def test_what_stands_in_the_same_place_fills_the_mask():
    assert pg.fill_masked("gear wheel", CORPUS, 3) == ["steel wheel"]
    assert pg.fill_masked("drum", CORPUS, 3) == ["lens"]


def test_simulated_patents_hold_phrases_of_their_classes():
    rows = [
        {"id": str(n), "anchor": f"anchor {n:03d}", "target": "x", "context": c, "score": 1}
        for n, c in enumerate(["A01", "B02"] * 40)
    ]
    pairs = pp.pairs(rows)
    made = pg.patents(pairs, 30, random(), common=5)
    found = {
        phrase
        for patent in made
        for sentence in patent.sentences
        for phrase in pg.phrases(sentence)
    }
    assert found <= set(pairs.anchor)
    assert {one for patent in made for one in patent.classes} == {"A01", "B02"}


def test_half_of_a_patents_phrases_are_of_its_own_classes():
    rows = [
        {"id": str(n), "anchor": f"anchor {n:03d}", "target": "x", "context": c, "score": 1}
        for n, c in enumerate(["A01", "B02", "C07", "D01"] * 40)
    ]
    pairs, common = pp.pairs(rows), 3
    own = {c: set(pairs.anchor[pairs.context == c]) for c in set(pairs.context)}
    said = []
    for patent in pg.patents(pairs, 200, random(), common):
        known = set().union(*(own[one] for one in patent.classes))
        here = [phrase for text in patent.sentences for phrase in pg.phrases(text)]
        said += [(phrase, phrase in known) for phrase in here]
    shared = {one for one, _ in Counter(phrase for phrase, _ in said).most_common(common)}
    told = [(phrase in shared, known) for phrase, known in said]
    assert np.mean([one for one, _ in told]) == pytest.approx(0.5, abs=0.05)
    assert all(known for one, known in told if not one)
