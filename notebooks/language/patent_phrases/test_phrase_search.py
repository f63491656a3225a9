"""The nearest phrases are those of a full sort; contexts filter; nothing needless is copied;
what a search finds is counted by hand; bad input."""

import tracemalloc

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


@pytest.mark.parametrize("kept", [[3, 4, 9, 40], range(1, 50)])
def test_the_nearest_of_some_rows_are_those_of_a_full_sort_of_these(kept):
    random = np.random.default_rng(0)
    vectors, vector = random.integers(-2, 3, (50, 4)).astype(float), np.array([1.0, 2, 0, -1])
    rows, products = ps.nearest(vector, vectors, 3, np.array(kept))
    wanted = np.array(kept)[np.argsort(-(vectors[kept] @ vector), kind="stable")[:3]]
    assert rows.tolist() == wanted.tolist()
    assert products.tolist() == (vectors @ vector)[wanted].tolist()


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
    assert [held.inside([one]).tolist() for one in ("A63", "F16", "G21")] == [
        [True, False, True],
        [True, True, False],
        [False] * 3,
    ]
    assert held.inside(["A63", "F16"]).all()


def test_only_phrases_of_the_asked_contexts_are_found(held):
    assert [phrase for phrase, _ in ps.search("x", held)] == ["sphere", "ball", "gear"]
    assert [phrase for phrase, _ in ps.search("x", held, contexts=["F16"])] == ["ball", "gear"]
    assert ps.search("x", held, contexts=["G21"]) == []


@pytest.mark.parametrize(
    ("contexts", "share"), [((), 0.1), (["A63"], 0.1), (["A63", "F16"], 0.1), (["F16"], 0.3)]
)
def test_a_search_copies_the_vectors_of_its_contexts_and_no_others(
    contexts, share, monkeypatch
):
    monkeypatch.setattr(ps.pe, "encode", lambda phrases, encoder=None: np.ones((1, 256)))
    rows = [(f"{n}", "F16" if n % 5 == 0 else "A63") for n in range(4000)]
    columns = ("target", "context")
    pairs = pp.pairs(
        {"id": str(n), "anchor": "x", "score": 1} | dict(zip(columns, one, strict=True))
        for n, one in enumerate(rows)
    )
    held = ps.index(pairs, lambda phrases: np.ones((len(phrases), 256)))
    ps.search("x", held, 10, contexts)
    tracemalloc.start()
    assert len(ps.search("x", held, 10, contexts)) == 10
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < share * held.vectors.nbytes


def rated(rows):
    columns = ("anchor", "target", "context", "score")
    return pp.pairs(
        dict(zip(columns, one, strict=True)) | {"id": str(n)} for n, one in enumerate(rows)
    )


def test_a_query_seeks_what_raters_found_like_its_anchor_in_its_context():
    rows = [("a", "b", "A63", 0.75), ("a", "c", "A63", 1), ("a", "d", "A63", 0.5)]
    rows += [("a", "a", "A63", 1), ("a", "e", "F16", 1), ("z", "f", "A63", 1)]
    found = ps.queries(rated(rows))
    assert [(one.phrase, one.anchor, one.context, set(one.sought)) for one in found] == [
        ("b", "a", "A63", {"c"}),
        ("c", "a", "A63", {"b"}),
    ]


def test_recall_and_rank_leave_the_querys_own_pair_out():
    asked = [
        ps.Query("b", "a", "A63", frozenset("cd")),
        ps.Query("e", "a", "F16", frozenset("xy")),
        ps.Query("q", "a", "A63", frozenset("cdefghijklmnop")),
    ]
    said = {"b": "bazcu", "e": "uvw", "q": "qacdefghijklmnop"}

    def find(phrase, held, count, contexts):
        seen.append((held, count, contexts))
        return [(one, 0.5) for one in said[phrase]][:count]

    seen = []
    found = ps.quality(find, "held", asked, True, count=10)
    # b: z, c, u are left, c is second; q: ten places hold ten of fourteen
    np.testing.assert_allclose(found, [(1 / 2, 1 / 2), (0, 0), (1, 1)])
    assert seen == [("held", 12, [one]) for one in ("A63", "F16", "A63")]
    assert ps.quality(find, "held", asked[:1], False, count=1).tolist() == [[0, 0]]
    assert seen[-1] == ("held", 3, [])
    assert ps.quality(find, "held", [], False).shape == (0, 2)


def test_bad_searches_are_refused(held):
    with pytest.raises(ValueError, match="'Z99'"):
        ps.search("x", held, contexts=["Z99"])
    with pytest.raises(ValueError, match="at least one"):
        ps.search("x", held, count=0)
