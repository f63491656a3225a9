"""What the browser's race records: savings of known times and bytes, and who is compared."""

import pytest
from helpers import check, receipts

from . import bench_tone_browser as bench_of

WAYS = {
    "plain": {"ms": 40.0, "peak": 900},
    "scan": {"ms": 10.0, "peak": 500},
    "freed": {"ms": 8.0, "peak": 200},
    "fused": {"ms": 5.0, "peak": 100},
    "phaseNaive": {"ms": 20.0, "peak": 80},
    "phaseScan": {"ms": 2.0, "peak": 60},
}


def test_what_needs_a_quarter_saves_75_per_cent():
    ways = {"plain": {"ms": 4}, "scan": {"ms": 1}}
    assert bench_of.saved(ways, "plain", "scan", "ms") == 75


@pytest.fixture
def told(monkeypatch, tmp_path):
    """The metrics of three clicks, each with the times and bytes above."""
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    receipt = receipts.start("tone_transfer", "cpu", threads=1)
    bench_of._record_all(receipt, 1e-7, [6.0, 9.0, 7.0], [WAYS] * 3, "123.0.1", 4.0)
    return {name: one["value"] for name, one in receipt.metrics.items()}


def test_the_prefix_sum_saves_time_of_the_whole_sound(told):
    assert told["prefix_sum_saving"] == pytest.approx(75)


def test_the_prefix_sum_saves_time_of_the_phases_alone(told):
    assert told["phase_saving"] == pytest.approx(90)


def test_early_freeing_saves_bytes_at_the_peak_beside_the_prefix_sum(told):
    assert told["texture_saving"] == pytest.approx(60)


def test_one_second_of_sound_in_5_ms_is_200_times_real_time(told):
    assert told["fused_real_time"] == 200


def test_the_whole_transfer_s_real_time_is_the_median_click_s(told):
    assert told["browser_real_time"] == 7


def test_a_sound_that_is_not_pytorch_s_is_not_recorded():
    receipt = receipts.start("tone_transfer", "cpu", threads=1)
    with pytest.raises(check.Failed, match="from PyTorch's"):
        bench_of._record_all(receipt, 1e-4, [6.0], [WAYS], "123.0.1", 4.0)
    assert not receipt.metrics
