"""What the race of prefixes records: milliseconds a word, and what the cache is worth; a cache
that answers otherwise stops it."""

import bench_disfluency as race_of
import pytest
import torch
from helpers import bench, check, receipts
from helpers.device import Tier

SECONDS = {("cached", True): 2.0, ("again", True): 6.0, ("again", False): 12.0}
SECONDS |= {("float32", False): 3.0, ("int8", False): 1.0}  # in ONNX Runtime


class Network:
    def __init__(self, size, causal):
        self.causal = causal

    eval = lambda self: self  # noqa: E731
    parameters = lambda self: []  # noqa: E731


@pytest.fixture
def race(monkeypatch):
    """A function that races over four words and gives the metrics; a way and whether its
    network is causal tell how long a call takes."""
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

    def onnx(network, ids, int8, threads):
        return lambda: said.append(("int8" if int8 else "float32", network.causal))

    receipt = receipts.start("disfluency", "cpu", 1)
    monkeypatch.setattr(receipt, "write", lambda name: name)
    monkeypatch.setattr(race_of.receipts, "start", lambda *given, **named: receipt)
    monkeypatch.setattr(race_of.device, "tier", lambda name: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(race_of.torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(race_of.importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(race_of, "in_onnx", onnx)
    monkeypatch.setattr(race_of.pn, "PrefixNetwork", Network)
    for name in ("cached", "again"):
        monkeypatch.setattr(race_of, name, way(name))
    monkeypatch.setattr(race_of.bench, "race", raced)

    def raced_over_four():
        race_of.main(["--rounds", "6", "--words", "4"])
        return {name: one["value"] for name, one in receipt.metrics.items()}

    return raced_over_four


def test_a_cache_that_takes_a_third_of_reading_again_is_three_times_as_fast(race):
    assert race()["cache_speedup"] == 3


def test_each_way_has_its_own_milliseconds_a_word(race):
    wanted = {"cached": 500, "prefix_again": 1500, "bidirectional": 3000}
    wanted |= {"onnx_float32": 750, "onnx_int8": 250}
    told = race()
    assert {name: told[f"ms_per_word_{name}"] for name in wanted} == pytest.approx(wanted)


def test_a_cache_that_answers_otherwise_stops_the_race(race, monkeypatch):
    monkeypatch.setattr(race_of, "cached", lambda network, ids: [torch.ones(1)])
    with pytest.raises(check.Failed):
        race()


@pytest.mark.parametrize("int8", [False, True])
def test_an_onnx_reader_reads_every_prefix_from_the_file_of_its_name(monkeypatch, int8):
    pytest.importorskip("onnxruntime")
    asked, onnx = [], race_of.strike_page.onnx
    monkeypatch.setattr(
        race_of.strike_page,
        "onnx",
        lambda network, how: asked.append(how) or onnx(network, how),
    )
    network = race_of.pn.PrefixNetwork(20).eval()
    found = race_of.in_onnx(network, torch.tensor([[2, 3, 4, 5]]), int8, 1)()
    assert asked == [int8] and [one[0].shape[1] for one in found] == [1, 2, 3, 4]
