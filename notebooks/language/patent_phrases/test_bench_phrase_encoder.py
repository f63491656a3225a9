"""What the races record: the library's time at its best batch over ours, on each number of
threads; each search by its own function; recall and rank with the difference's sign."""

import os
import sys
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import bench_phrase_encoder as race_of
import numpy as np
import patent_pairs as pp
import phrase_search as ps
import pytest
import torch
from helpers import bench, check, receipts
from helpers.device import Tier

LIBRARY = "sentence-transformers, batch {}".format
TOKENISERS = "TOKENIZERS_PARALLELISM"
SECONDS = {"ours": 2.0, LIBRARY(32): 10.0, LIBRARY(128): 6.0, LIBRARY(512): 8.0}
ROWS = [(anchor, target, context, 1) for anchor in "xyz" for target, context in (
    (f"{anchor} ball", "A63"), (f"{anchor} round ball", "A63"), (f"{anchor} sphere", "A63"),
    (f"{anchor} wheel", "F16"), (f"{anchor} gear", "F16"),
)]  # fmt: skip
PAIRS = pp.pairs(
    dict(zip(("anchor", "target", "context", "score"), one, strict=True)) | {"id": str(n)}
    for n, one in enumerate(ROWS)
)


def measured(seconds, repeats=6):
    return bench.Measurement(*[seconds] * 3, (seconds,) * repeats, None, "cpu")


@pytest.fixture
def race(monkeypatch, tmp_path):
    """A function that gives the metrics of a race over four phrases whose encoders take the
    seconds above, twice as many on one thread."""

    def raced(contestants, repeats, warmup=3, reference=None):
        slow, results = 2 / torch.get_num_threads(), {}
        given.append((torch.get_num_threads(), limits[-1], os.environ[TOKENISERS]))
        for name, run in contestants.items():
            results[name] = measured(slow * SECONDS.get(name, 0.5))
            if isinstance(run, partial):
                calls.append((name, run()))
        ratios = {name: bench.ratio(results[reference], one) for name, one in results.items()}
        return bench.Race(results, ratios, reference)

    def encode(phrases, encoder=None):
        return np.array([[float("ball" in one), float("wheel" in one), 0.1] for one in phrases])

    def find(query, held, count, contexts, encoder=None):
        return [(query, (count, tuple(contexts)))]

    calls, given, limits = [], [], []
    monkeypatch.setenv(TOKENISERS, "as before")
    limit = lambda count: limits.append(count) or nullcontext()  # noqa: E731
    monkeypatch.setattr(race_of.threadpoolctl, "threadpool_limits", limit)
    receipt = receipts.start("patent_phrases", "cpu", 2)
    monkeypatch.setattr(receipt, "write", lambda name: name)
    monkeypatch.setattr(race_of.receipts, "start", lambda *given, **named: receipt)
    monkeypatch.setattr(race_of.device, "tier", lambda name: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(race_of.data, "fetch", lambda name: tmp_path)
    monkeypatch.setattr(race_of.pp, "read", lambda path: PAIRS)
    part = np.array(["train"] * 5 + ["test"] * 10)
    monkeypatch.setattr(race_of.pp, "split_by_anchor", lambda *asked: part)
    monkeypatch.setattr(race_of.pe, "load", lambda where: None)
    monkeypatch.setattr(race_of.pe, "encode", encode)
    made = dict.fromkeys(SECONDS, lambda: np.zeros((4, 3)))
    monkeypatch.setattr(race_of, "encoders", lambda phrases, ours: made)
    monkeypatch.setattr(race_of.ps, "search", find)
    monkeypatch.setattr(race_of, "by_words", lambda held: lambda *asked: find(*asked))
    monkeypatch.setattr(race_of.importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(race_of.bench, "race", raced)
    threads = torch.get_num_threads()

    def raced_over_four():
        try:
            race_of.main(["--rounds", "6", "--phrases", "4", "--threads", "2"])
        finally:
            torch.set_num_threads(threads)
        values = {name: one["value"] for name, one in receipt.metrics.items()}
        return SimpleNamespace(values=values, calls=calls, given=given, sizes=receipt._sizes)

    return raced_over_four


@pytest.fixture
def told(race):
    """What a race over four phrases gave."""
    return race()


@pytest.mark.parametrize("name", [LIBRARY(32), LIBRARY(512)])
def test_a_library_that_gives_other_vectors_stops_the_race(race, monkeypatch, name):
    made = dict.fromkeys(SECONDS, lambda: np.zeros((4, 3)))
    other = {name: lambda: np.full((4, 3), 1e-4)}
    monkeypatch.setattr(race_of, "encoders", lambda phrases, ours: made | other)
    with pytest.raises(check.Failed, match=name):
        race()


def test_all_targets_are_searched_and_the_tests_anchors_asked(told):
    assert told.sizes == {"phrases": 4, "targets": 15, "queries": 10}


def test_a_race_has_its_threads_and_no_more_in_torch_numpy_and_tokenisers(told):
    assert told.given == [(1, 1, "false")] * 2 + [(2, 2, "true")] * 2


def test_the_library_takes_the_same_phrases_in_batches_of_the_named_size(monkeypatch, tmp_path):
    class Library:
        def __init__(self, model, device):
            made.append((model, device))

        def encode(self, phrases, batch_size):
            return phrases, batch_size

    made, ours = [], object()
    fake = SimpleNamespace(SentenceTransformer=Library)
    monkeypatch.setitem(sys.modules, "sentence_transformers", fake)
    monkeypatch.setattr(race_of.importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(race_of.pe, "packaged", lambda name: tmp_path / name)
    monkeypatch.setattr(race_of.pe, "encode", lambda *given: given)
    found = race_of.encoders(["a", "b"], ours)
    assert found.pop("ours")() == (["a", "b"], ours)
    assert made == [(str(tmp_path), str(race_of.device.device()))]
    assert {name: run() for name, run in found.items()} == {
        LIBRARY(size): (["a", "b"], size) for size in (32, 128, 512)
    }


def test_the_speedup_is_the_library_s_time_at_its_best_batch_over_ours(told):
    for threads in (1, 2):
        assert told.values[f"encoder_speedup_{threads}_threads"] == 3


def test_the_rate_counts_the_phrases_on_each_number_of_threads(told):
    rates = [told.values[f"phrases_per_s_{threads}_threads"] for threads in (1, 2)]
    assert rates == [1, 2]


def test_what_is_timed_is_the_search_with_a_filter_and_without(told):
    names = ("search", "bm25s", "search_filtered", "bm25s_filtered", "encoding", "product")
    for n in (1, 2):
        ends = f"_time_{n}_threads"
        timed = {one.removesuffix(ends) for one in told.values if one.endswith(ends)}
        assert timed == set(names)
    most, calls = ("A63",), dict(told.calls)  # nine of fifteen targets
    assert calls.pop("encoding").tolist() == [[0, 0, 0.1]]
    rows, products = calls.pop("product")
    assert rows.tolist() == [*range(10)] and products == pytest.approx(0.01)  # all are equal
    assert calls == {
        name + how: [(race_of.QUERY, (10, given))]
        for name in ("search", "bm25s")
        for how, given in (("", ()), ("_filtered", most))
    }


def test_both_searches_are_judged_on_all_queries_and_ours_less_theirs_is_recorded(monkeypatch):
    held = ps.index(PAIRS, lambda phrases: np.ones((len(phrases), 2)))
    asked, receipt = ps.queries(PAIRS), receipts.start("patent_phrases", "cpu")

    def right(query, held, count, contexts):
        one = next(one for one in asked if one.phrase == query)
        wrong = [] if contexts else ["wrong"]
        return [(phrase, 1) for phrase in [*wrong, *sorted(one.sought)]]

    finds = {"search": right, "bm25s": lambda *given: []}
    race_of.judge_searches(receipt, held, finds, asked)
    values = {name: one["value"] for name, one in receipt.metrics.items()}
    right = {"search": 1, "bm25s": 0, "search_over_bm25s": 1}
    for name, one in right.items():
        assert values.pop(f"{name}_recall") == values.pop(f"{name}_recall_filtered") == one
        assert values.pop(f"{name}_mrr") == one / 2
        assert values.pop(f"{name}_mrr_filtered") == one
    assert not values


def test_bm25s_finds_phrases_by_words_in_the_contexts_that_are_asked():
    pytest.importorskip("bm25s")
    held = ps.index(PAIRS, lambda phrases: np.ones((len(phrases), 2)))
    find = race_of.by_words(held)
    assert {phrase for phrase, _ in find("round ball", held, 50, [])} == {
        f"{one} {what}" for one in "xyz" for what in ("ball", "round ball")
    }
    assert find("round ball", held, 2, [])[0][0].endswith("round ball")
    assert find("ball", held, 9, ["F16"]) == []
    assert {phrase for phrase, _ in find("gear", held, 9, ["F16"])} == {
        "x gear",
        "y gear",
        "z gear",
    }
    assert find("the", held, 9, []) == find("unheard", held, 9, []) == []


def test_bm25s_finds_words_by_their_stems_in_its_fast_backend(monkeypatch):
    bm25s = pytest.importorskip("bm25s")
    whole, backends = bm25s.BM25, []
    monkeypatch.setattr(
        bm25s, "BM25", lambda **how: backends.append(how["backend"]) or whole(**how)
    )
    held = ps.index(PAIRS, lambda phrases: np.ones((len(phrases), 2)))
    find = race_of.by_words(held)
    for contexts in ([], ["F16"]):
        assert [one for one, _ in find("geared", held, 9, contexts)] == [
            one for one, _ in find("gears", held, 9, contexts)
        ]
        assert len(find("gears", held, 9, contexts)) == 3
    assert backends == ["numba"]
