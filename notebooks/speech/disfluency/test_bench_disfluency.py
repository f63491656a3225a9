"""What the race of prefixes records: milliseconds a word, and what the cache is worth."""

import bench_disfluency as race_of
import pytest
import torch
from helpers import bench, receipts
from helpers.device import Tier

SECONDS = {("cached", True): 2.0, ("again", True): 6.0, ("again", False): 12.0}


class Network:
    def __init__(self, size, causal):
        self.causal = causal

    eval = lambda self: self  # noqa: E731
    parameters = lambda self: []  # noqa: E731


@pytest.fixture
def told(monkeypatch):
    """The metrics of a race over four words; a way and whether its network is causal tell how
    long a call takes."""
    said = []

    def way(name):
        return lambda network, ids: said.append((name, network.causal)) or [torch.zeros(1)]

    def raced(runs, rounds, reference):
        results = {}
        for name, call in runs.items():
            call()
            s = SECONDS[said[-1]]
            results[name] = bench.Measurement(s, s, s, (s,) * rounds, None, "cpu")
        ratios = {name: bench.ratio(results[reference], one) for name, one in results.items()}
        return bench.Race(results, ratios, reference)

    receipt = receipts.start("disfluency", "cpu", 1)
    monkeypatch.setattr(receipt, "write", lambda name: name)
    monkeypatch.setattr(race_of.receipts, "start", lambda *given, **named: receipt)
    monkeypatch.setattr(race_of.device, "tier", lambda name: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(race_of.torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(race_of.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(race_of.pn, "PrefixNetwork", Network)
    for name in ("cached", "again"):
        monkeypatch.setattr(race_of, name, way(name))
    monkeypatch.setattr(race_of.bench, "race", raced)
    race_of.main(["--rounds", "6", "--words", "4"])
    return {name: one["value"] for name, one in receipt.metrics.items()}


def test_a_cache_that_takes_a_third_of_reading_again_is_three_times_as_fast(told):
    assert told["cache_speedup"] == 3


def test_each_way_has_its_own_milliseconds_a_word(told):
    wanted = {"cached": 500, "prefix_again": 1500, "bidirectional": 3000}
    assert {name: told[f"ms_per_word_{name}"] for name in wanted} == pytest.approx(wanted)
