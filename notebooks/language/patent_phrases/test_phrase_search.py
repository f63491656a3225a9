"""The nearest phrases are those of a full sort; contexts filter; bad input."""

import numpy as np
import patent_pairs as pp
import phrase_search as ps
import pytest


@pytest.mark.parametrize("count", [1, 2, 7, 50, 99])
def test_the_nearest_are_those_of_a_full_sort(count):
    random = np.random.default_rng(0)
    vectors = random.integers(-2, 3, (50, 4)).astype(float)  # small integers: many ties
    vector = random.integers(-2, 3, 4).astype(float)
    rows, products = ps.nearest(vector, vectors, count)
    wanted = np.argsort(-(vectors @ vector), kind="stable")[:count]
    np.testing.assert_array_equal(rows, wanted)
    np.testing.assert_array_equal(products, (vectors @ vector)[wanted])


@pytest.fixture
def held(monkeypatch):
    def encode(phrases, encoder=None):
        return np.array([[len(p), 1.0] for p in phrases])

    monkeypatch.setattr(ps.pe, "encode", encode)
    rows = [("ball", "A63"), ("gear", "F16"), ("ball", "F16"), ("sphere", "A63")]
    return ps.index(
        pp.pairs(
            {"id": str(n), "anchor": "x", "target": t, "context": c, "score": 1}
            for n, (t, c) in enumerate(rows)
        ),
        encode,
    )


def test_a_phrase_stands_once_with_all_its_contexts(held):
    assert held.phrases.tolist() == ["ball", "gear", "sphere"]
    assert held.contexts[0] == {"A63", "F16"}


def test_only_phrases_of_the_asked_contexts_are_found(held):
    assert [phrase for phrase, _ in ps.search("x", held)] == ["sphere", "ball", "gear"]
    assert [phrase for phrase, _ in ps.search("x", held, contexts=["F16"])] == ["ball", "gear"]
    assert ps.search("x", held, contexts=["G21"]) == []


def test_bad_searches_are_refused(held):
    with pytest.raises(ValueError, match="'Z99'"):
        ps.search("x", held, contexts=["Z99"])
    with pytest.raises(ValueError, match="at least one"):
        ps.search("x", held, count=0)
