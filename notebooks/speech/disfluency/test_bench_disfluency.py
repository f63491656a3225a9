"""What the race of prefixes records: milliseconds a word, and what the cache is worth; a cache
that answers otherwise stops it."""

import bench_disfluency as race_of
import pytest
import torch
from helpers import bench, check, receipts
from helpers.device import Tier

SECONDS = {("cached", True): 2.0, ("again", True): 6.0, ("again", False): 12.0}
SECONDS |= {("float32", False): 3.0, ("int8", False): 1.0, ("step", True): 0.5}  # ONNX Runtime


class Network:
    def __init__(self, size, causal):
        self.causal = causal

    eval = lambda self: self  # noqa: E731
    parameters = lambda self: []  # noqa: E731


@pytest.fixture
def race(monkeypatch):
    """A function that races over four and over eight words and gives the metrics; a way and
    whether its network is causal tell how long a call takes."""
    said, threads = [], []

    def way(name):
        return lambda network, ids: said.append((name, network.causal)) or [torch.zeros(1)]

    def raced(runs, rounds):
        results = {}
        for name, call in runs.items():
            call()
            s = SECONDS[said[-1]]
            results[name] = bench.Measurement(s, s, s, (s,) * rounds, None, "cpu")
        ratios = {name: bench.ratio(results["cached"], one) for name, one in results.items()}
        return bench.Race(results, ratios, "cached")

    def onnx(network, ids, int8, count):
        threads.append(count)
        return lambda: said.append(("int8" if int8 else "float32", network.causal))

    def step(network, ids, count):
        threads.append(count)
        return lambda: said.append(("step", network.causal)) or [torch.zeros(1)]

    receipt = receipts.start("disfluency", "cpu", 1)
    monkeypatch.setattr(receipt, "write", lambda name: name)
    monkeypatch.setattr(race_of.receipts, "start", lambda *given, **named: receipt)
    monkeypatch.setattr(race_of.device, "tier", lambda name: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(race_of.torch, "set_num_threads", threads.append)
    monkeypatch.setattr(race_of.importlib.util, "find_spec", lambda name: True)
    monkeypatch.setattr(race_of, "in_onnx", onnx)
    monkeypatch.setattr(race_of, "cached_in_onnx", step)
    monkeypatch.setattr(race_of.pn, "PrefixNetwork", Network)
    for name in ("cached", "again"):
        monkeypatch.setattr(race_of, name, way(name))
    monkeypatch.setattr(race_of.bench, "race", raced)

    def raced_over_both(*more):
        race_of.main(["--rounds", "6", "--words", "4", "8", *more])
        raced_over_both.threads = threads
        return {name: one["value"] for name, one in receipt.metrics.items()}

    return raced_over_both


def test_a_cache_that_takes_a_third_of_reading_again_is_three_times_as_fast(race):
    told = race()
    assert told["cache_speedup_4"] == told["cache_speedup_8"] == 3
    assert told["onnx_cache_speedup_4"] == told["onnx_cache_speedup_8"] == 6
    assert told["onnx_cache_over_int8_4"] == told["onnx_cache_over_int8_8"] == 2


def test_all_ways_have_as_many_threads(race):
    race()
    assert race.threads == [1] * 7  # torch, and three sessions for each length
    race.threads.clear()
    race("--threads", "2")
    assert race.threads == [2] * 7


def test_a_session_has_the_threads_that_it_is_given(monkeypatch):
    onnxruntime = pytest.importorskip("onnxruntime")
    asked = []
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *given: asked.append(given))
    race_of.session(b"file", 3)
    ((content, options, where),) = asked
    assert (content, where) == (b"file", ["CPUExecutionProvider"])
    assert options.intra_op_num_threads == 3


def test_reading_again_reads_each_prefix_whole_and_the_cache_each_word_once(monkeypatch):
    torch.manual_seed(0)
    network, read = race_of.pn.PrefixNetwork(20, causal=True).eval(), []
    ids, step = torch.randint(2, 20, (1, 11)), network.step
    network.register_forward_pre_hook(lambda _, given: read.append(given[0].shape[1]))
    with torch.no_grad():
        wanted = network(ids)[0][0]  # a causal state does not see what comes later
    read.clear()
    check.close(torch.stack(race_of.again(network, ids)), wanted, atol=1e-5, why="float32")
    assert read == list(range(1, 12))
    monkeypatch.setattr(
        network, "step", lambda one, *more: read.append(one.shape) or step(one, *more)
    )
    read.clear()
    check.close(torch.stack(race_of.cached(network, ids)), wanted, atol=1e-5, why="float32")
    assert read == [(1, 1)] * 11


def test_each_way_has_its_own_milliseconds_a_word(race):
    wanted = {"cached": 500, "prefix_again": 1500, "bidirectional": 3000}
    wanted |= {"onnx_float32": 750, "onnx_int8": 250, "onnx_cached": 125}
    told = race()
    for words, factor in ((4, 1), (8, 2)):
        found = {name: told[f"ms_per_word_{name}_{words}"] * factor for name in wanted}
        assert found == pytest.approx(wanted)


@pytest.mark.parametrize("way", ["cached", "cached_in_onnx"])
def test_a_cache_that_answers_otherwise_stops_the_race(race, monkeypatch, way):
    wrong = {"cached": lambda *asked: [torch.ones(1)]}
    wrong["cached_in_onnx"] = lambda *asked: wrong["cached"]
    monkeypatch.setattr(race_of, way, wrong[way])
    with pytest.raises(check.Failed):
        race()


def test_a_step_in_onnx_answers_as_the_cache_does():
    pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    network = race_of.pn.PrefixNetwork(20, causal=True).eval()
    ids = torch.randint(2, 20, (1, 13))
    found = race_of.cached_in_onnx(network, ids, 1)()
    for one, other in zip(found, race_of.cached(network, ids), strict=True):
        check.close(one, other, atol=1e-5, why="the same float32 sums in another order")


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
