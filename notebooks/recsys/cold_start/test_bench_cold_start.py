"""What the benches record: rates of clicks and of samples, quantiles of all answers."""

import bench_campaign
import bench_cold_start
import pytest
from helpers import receipts
from helpers.bench import Measurement


def measured(*times):
    times = sorted(times)
    return Measurement(times[1], times[0], times[2], tuple(times), None, "cpu")


def test_a_rate_counts_what_each_learns_from_and_the_peer_has_its_fastest_batch():
    """100 clicks in 2 s beside 600 samples in 3 s: 50 a second and 200, a quarter as fast."""
    name = bench_cold_start.PEER
    results = {
        "ours": measured(2.0, 2.0, 2.0),
        f"{name}, CE, batch 512": measured(9.0, 9.0, 9.0),
    }
    results[f"{name}, CE, batch 2048"] = measured(3.0, 3.0, 3.0)
    race = type("Race", (), {"results": results})
    receipt = receipts.start("cold_start", "cpu")
    bench_cold_start.record(receipt, race, 1, clicks=100, samples=600)
    found = receipt.metrics
    assert found["ours_training_rate_1"]["value"] == pytest.approx(50)
    assert found["recbole_ce_rate_1"]["value"] == pytest.approx(200)
    assert found["training_speedup_ce_1"]["value"] == pytest.approx(0.25)
    assert "2048" in found["training_speedup_ce_1"]["note"]
    assert not any("bpr" in one for one in found)


def test_the_99th_percentile_is_of_all_clients_answers():
    class Pool:
        def __init__(self):
            self.slow = 0

        def apply_async(self, task, asked):
            assert task is bench_campaign.ask and asked == ("where", 7)
            self.slow += 1
            times = [self.slow + number / 100 for number in range(101)]
            return type("Later", (), {"get": lambda self, seconds: times})()

    _, p50, p99 = bench_campaign.loaded(Pool(), 1, "where", 7)
    assert (p50, p99) == pytest.approx((1.5, 1.99))
    _, p50, p99 = bench_campaign.loaded(Pool(), 2, "where", 7)
    assert p50 == pytest.approx(2) and 2.97 < p99 < 2.99
