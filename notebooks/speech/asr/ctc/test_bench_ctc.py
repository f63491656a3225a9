"""What the race of searches records: pyctcdecode's time over that of our search of its kind."""

import pytest
from helpers import bench, receipts

from . import bench_ctc

OURS = {"ours, greedy": 0.5, "ours": 1.0, "ours, word model": 2.0}
PEERS = {"pyctcdecode": 5.0, "pyctcdecode, word model": 14.0}


def told(seconds):
    """The metrics of a race whose contestants take these seconds."""
    results = {n: bench.Measurement(s, s, s, (s,) * 6, None, "cpu") for n, s in seconds.items()}
    ratios = {name: bench.ratio(results["ours"], one) for name, one in results.items()}
    receipt = receipts.start("asr_streaming", "cpu", 1)
    bench_ctc.record(receipt, bench.Race(results, ratios, "ours"))
    return {name: one["value"] for name, one in receipt.metrics.items()}


@pytest.mark.parametrize(("metric", "wanted"), [("beam_speedup", 5), ("beam_words_speedup", 7)])
def test_a_search_is_as_many_times_as_fast_as_the_peer_s_of_its_kind(metric, wanted):
    assert told(OURS | PEERS)[metric] == wanted


def test_without_the_peer_s_words_there_is_no_speedup_with_words():
    assert told(OURS | {"pyctcdecode": 5.0}) == {"beam_speedup": 5}
