"""The race's contestants find the same."""

import pytest
import torch

from . import bench_bm25, scores, words

TEXTS = ["when is the office open", "trash day", "the trash the trash", "a permit", "an office"]
TEXTS += [f"page {n}" for n in range(20)]


def test_ours_gives_the_ten_best():
    places, found = bench_bm25.ours_of(TEXTS)("the trash")
    assert len(places) == bench_bm25.BEST and places[:2] == [2, 1]
    assert found[0] == float(scores("the trash", TEXTS).max())


def test_scores_equal_bm25s():
    bm25s = pytest.importorskip("bm25s")
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    index.index([words(text) for text in TEXTS], show_progress=False)
    theirs = torch.as_tensor(index.get_scores(words("the trash office"))).double()
    assert torch.allclose(theirs, scores("the trash office", TEXTS), rtol=1e-4, atol=1e-6)


def test_tantivy_finds_the_same_first():
    pytest.importorskip("tantivy")
    assert bench_bm25.tantivy_of(TEXTS)("permit")[0][0] == 3
