"""What the benches record: rates of clicks and of samples, quantiles of all answers."""

import contextlib
from types import SimpleNamespace

import bench_campaign
import bench_cold_start
import click_world
import pytest
import recommender_service
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

    _, p50, p99, count = bench_campaign.loaded(Pool(), 1, "where", 7)
    assert (p50, p99, count) == pytest.approx((1.5, 1.99, 101))
    _, p50, p99, count = bench_campaign.loaded(Pool(), 2, "where", 7)
    assert p50 == pytest.approx(2) and 2.97 < p99 < 2.99 and count == 202


def test_the_least_answers_behind_a_99th_percentile_are_recorded():
    receipt = receipts.start("cold_start", "cpu")
    bench_campaign.keep(
        receipt, "answers_4", [(700.0, 1.0, 3.0, 2100), (600.0, 2.0, 4.0, 1800)]
    )
    assert receipt.content()["sizes"]["answers_4_least"] == 1800
    found = receipt.metrics
    assert found["answers_4_rate"]["value"] == 650 and found["answers_4_p99"]["value"] == 3.5


def test_each_round_streams_events_of_its_own_and_an_update_reads_them(monkeypatch, tmp_path):
    events, updates, asked = [], [], []

    class Service:
        def put_events(self, request):
            events.extend(request["eventList"])

    def loaded(pool, clients, *told, meanwhile=lambda: None):
        meanwhile()
        asked.append((clients, told[-1].exists()))
        return 500.0, 1.0, 2.0, 9

    def trained(service, solution, mode):
        updates.append((solution, mode, len(events)))

    made = {"filled": lambda *_: (Service(), "campaign", "tracking", "solution")}
    made |= {"loaded": loaded, "trained": trained, "EVENTS": 40}
    for name, one in made.items():
        monkeypatch.setattr(bench_campaign, name, one)
    nothing = lambda *_: contextlib.nullcontext("where")  # noqa: E731
    monkeypatch.setattr(bench_campaign.campaign_server, "serving", nothing)
    pools = lambda _: SimpleNamespace(Pool=nothing)  # noqa: E731
    monkeypatch.setattr(bench_campaign.multiprocessing, "get_context", pools)
    receipt, world = receipts.start("cold_start", "cpu"), SimpleNamespace(users=3, items=50)
    bench_campaign.measure(receipt, tmp_path, world, None, 2)
    assert updates == [("solution", "UPDATE", 40), ("solution", "UPDATE", 80)]
    assert asked == 3 * [(1, False)] + 3 * [(4, False)] + 2 * [(4, True)]
    assert len({one["eventId"] for one in events}) == 80
    assert all(one["itemId"] in one["impression"] for one in events)
    names = [f"answers_{who}_{what}" for who in ("1", "4", "update") for what in ("p50", "p99")]
    assert {"update_time", *names} <= set(receipt.metrics)


def test_the_events_of_all_rounds_fit_into_a_service():
    events = 20 * bench_campaign.EVENTS
    assert events <= recommender_service.MOST_EVENTS


def test_the_peer_may_take_the_whole_epoch_as_one_batch():
    """As many samples as clicks at most: nothing lies beyond the largest batch."""
    world = click_world.draw(0, 400)
    assert max(bench_cold_start.BATCHES) > int(click_world.history(world).clicks_SK.sum())
