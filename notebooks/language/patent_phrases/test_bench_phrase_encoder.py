"""What the race of encoders records: the library's time at its best batch over ours."""

from types import SimpleNamespace

import bench_phrase_encoder as race_of
import numpy as np
import pytest
from helpers import bench, receipts
from helpers.device import Tier

LIBRARY = "sentence-transformers, batch {}".format
SECONDS = {"ours": 2.0, LIBRARY(32): 10.0, LIBRARY(128): 6.0, LIBRARY(512): 8.0}


@pytest.fixture
def told(monkeypatch, tmp_path):
    """The metrics of a race over four phrases whose encoders take the seconds above."""

    def raced(contestants, repeats, warmup, reference):
        results = {
            name: bench.Measurement(s, s, s, (s,) * repeats, None, "cpu")
            for name, s in SECONDS.items()
        }
        ratios = {name: bench.ratio(results[reference], one) for name, one in results.items()}
        return bench.Race(results, ratios, reference)

    made = dict.fromkeys(SECONDS, lambda: np.zeros((4, 3)))
    receipt = receipts.start("patent_phrases", "cpu", 1)
    monkeypatch.setattr(receipt, "write", lambda name: name)
    monkeypatch.setattr(race_of.receipts, "start", lambda *given, **named: receipt)
    monkeypatch.setattr(race_of.device, "tier", lambda name: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(race_of.torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(race_of.data, "fetch", lambda name: tmp_path)
    monkeypatch.setattr(race_of.pp, "read", lambda path: SimpleNamespace(target=list("abcdef")))
    monkeypatch.setattr(race_of.pe, "load", lambda where: None)
    monkeypatch.setattr(race_of, "encoders", lambda phrases, ours: made)
    monkeypatch.setattr(race_of, "race_searches", lambda *given: None)
    monkeypatch.setattr(race_of.bench, "race", raced)
    race_of.main(["--rounds", "6", "--phrases", "4"])
    return {name: one["value"] for name, one in receipt.metrics.items()}


def test_the_speedup_is_the_library_s_time_at_its_best_batch_over_ours(told):
    assert told["encoder_speedup"] == 3


def test_the_rate_counts_the_phrases(told):
    assert told["phrases_per_s"] == 2
