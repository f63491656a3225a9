"""The race at a small size: checked answers, each request timed once, what the receipt says."""

import numpy as np
import pytest
from helpers import check, receipts

from . import bench_lookup


@pytest.fixture(scope="module")
def field():
    with bench_lookup.Field(rows=12_000, width=16, keys=256, calls=9) as field:
        yield field


def test_all_contestants_agree_and_a_wrong_one_is_seen(field):
    field.agree()
    field.ways["wrong"] = lambda keys: field.table[keys] + 1
    with pytest.raises(check.Failed):
        field.agree()
    del field.ways["wrong"]


def test_each_request_is_asked_once_and_its_misses_are_in_its_time(field):
    asked, way = [], field.ways["hierarchy"]

    def watched(keys):
        asked.append(keys.tobytes())
        return way(keys)

    field.ways["hierarchy"] = watched
    found = bench_lookup.race(field, rounds=2, threads=1)
    field.ways["hierarchy"] = way
    assert len(asked) == len(set(asked)) == 4 * bench_lookup.CALL
    counts = field.deployed.counts
    assert 0.92 < counts["hits"] / counts["keys"] < 0.99  # half of the requests are hits alone
    for name, times in field.times_ms.items():
        assert len(times) == 3 * bench_lookup.CALL  # the warm-up, two rounds
        assert sum(times[bench_lookup.CALL :]) <= 1e3 * sum(found.results[name].times_s)
        assert np.percentile(times, 99) >= np.median(times)


def test_the_receipt_has_both_goals(field, tmp_path, monkeypatch):
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    receipt = receipts.start("parameter_server", "cpu", threads=1)
    bench_lookup.record(receipt, field, bench_lookup.race(field, rounds=2, threads=1), 1)
    assert "times_memmap" in receipt.metrics
    assert ("faster_than_redis" in receipt.metrics) == ("Redis alone" in field.ways)
