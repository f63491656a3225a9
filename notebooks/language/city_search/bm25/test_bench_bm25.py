"""The race's contestants find the same, and which way its ratios point."""

import json

import pytest
import torch
from helpers import check
from helpers.bench import Measurement, Race, ratio

from . import Index, bench_bm25, scores, words

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


class Peer:
    """Answers as ours does, with scores times a factor."""

    def __init__(self, passages, factor=1.0):
        self.best, self.factor, self.index = bench_bm25.ours_of(passages), factor, self
        self.asked = Index(passages)

    def get_scores(self, known):
        return self.factor * self.asked.scores(" ".join(known)).numpy()

    def __call__(self, query):
        return self.best(query)


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.setattr(bench_bm25.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(bench_bm25, "bm25s_of", Peer)
    monkeypatch.setattr(bench_bm25, "tantivy_of", Peer)


def test_peers_that_find_something_else_are_not_raced(peers, monkeypatch):
    assert list(bench_bm25.contestants(TEXTS, ["the trash"])) == ["ours", "bm25s", "tantivy"]
    monkeypatch.setattr(bench_bm25, "tantivy_of", lambda passages: lambda query: ([9], [1.0]))
    with pytest.raises(check.Failed, match="tantivy"):
        bench_bm25.contestants(TEXTS, ["the trash"])
    monkeypatch.setattr(bench_bm25, "bm25s_of", lambda passages: Peer(passages, 1.01))
    with pytest.raises(check.Failed, match="bm25s"):
        bench_bm25.contestants(TEXTS, ["the trash"])


def test_twice_our_time_is_told_as_half_as_fast(peers, monkeypatch, tmp_path):
    rounds = []

    def raced(ways, repeats, reference, device):
        rounds.append((repeats, reference))
        took = {name: 1.0 if name == "ours" else 2.0 for name in ways}
        assert all(len(way()) == len(found["queries"]) for way in ways.values())
        results = {
            n: Measurement(t, t, t, (t,) * repeats, None, device) for n, t in took.items()
        }
        ratios = {n: ratio(results[reference], one) for n, one in results.items()}
        return Race(results, ratios, reference)

    found = {"queries": ["the trash", "a permit"]}
    monkeypatch.setattr(bench_bm25, "texts", lambda copies: (TEXTS * copies, found["queries"]))
    monkeypatch.setattr(bench_bm25.bench, "race", raced)
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    bench_bm25.main(["--copies", "2"])
    (path,) = tmp_path.glob("*.json")
    told = json.loads(path.read_text())
    metrics = {name: one["value"] for name, one in told["metrics"].items()}
    assert metrics["ours_queries"] == 2 and metrics["bm25s_queries"] == 1
    assert metrics["bm25s_over_ours"] == metrics["tantivy_over_ours"] == 0.5
    assert told["sizes"]["passages"] == 2 * len(TEXTS) and rounds == [(20, "ours")]
    assert told["threads"] == 1
