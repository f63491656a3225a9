"""What the benches record: rates of clicks and of samples, quantiles of all answers."""

import contextlib
import importlib.machinery
import json
import sys
from types import ModuleType, SimpleNamespace

import bench_campaign
import bench_cold_start
import click_world
import pytest
import recommender_service
import torch
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


def test_an_epoch_is_every_user_once_and_both_get_as_many_threads(monkeypatch, tmp_path):
    """Of 40 users, 32 in a step; everything takes 2 s, the peer's epoch has 70 samples."""
    threads, raced, read, name = [], [], [], f"{bench_cold_start.PEER}, CE, batch 512"
    network = bench_cold_start.item_network

    def race(contestants, repeats, warmup):
        raced.append((threads[-1], *contestants))
        return SimpleNamespace(results=dict.fromkeys(contestants, measured(2.0, 2.0, 2.0)))

    def loss(net, log, *told):
        read.extend(log.user_S[told[-1]].unique().tolist())
        return real(net, log, *told)

    real = network.loss_of
    monkeypatch.setattr(network, "loss_of", loss)
    monkeypatch.setattr(bench_cold_start, "peers", lambda *_: ({name: lambda: 0.5}, 70, 9))
    monkeypatch.setattr(bench_cold_start.bench, "race", race)
    monkeypatch.setattr(bench_cold_start.torch, "set_num_threads", threads.append)
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    bench_cold_start.main(["--rounds", "3", "--threads", "2", "--users", "40"])
    assert sorted(read) == [*range(40)]
    assert raced == [(1, "ours", name), (2, "ours", name)]
    content = json.loads((tmp_path / "cold_start.cpu.training.json").read_text())
    found, clicks = content["metrics"], content["sizes"]["clicks"]
    log = click_world.history(click_world.draw(0, 40))
    assert clicks == int(log.clicks_SK.sum()) != 70
    for count in (1, 2):
        assert found[f"ours_training_rate_{count}"]["value"] == clicks / 2
        assert found[f"recbole_ce_rate_{count}"]["value"] == 70 / 2


@pytest.fixture
def library(monkeypatch):
    """Stand-ins for RecBole that keep what they are asked for: (configurations, epochs)."""
    configs, epochs = [], []

    class Config(dict):
        def __init__(self, model, dataset, config_dict):
            super().__init__(config_dict, device="cpu")
            configs.append((model, dataset, config_dict))

    class Trainer:
        def __init__(self, config, model):
            self.about = config["loss_type"], config["train_batch_size"], model

        def _train_epoch(self, data, number):
            epochs.append((*self.about, data.config["train_batch_size"], number))
            return 0.5

    class Model(torch.nn.Linear):
        def __init__(self, config, dataset):
            super().__init__(1, 1)

    prepared = lambda config, data: (SimpleNamespace(dataset=data, config=config), None, None)  # noqa: E731
    parts = {
        "": {},
        ".model": {},
        ".config": {"Config": Config},
        ".trainer": {"Trainer": Trainer},
    }
    parts[".data"] = {"create_dataset": lambda _: range(7), "data_preparation": prepared}
    parts[".model.sequential_recommender"] = {"GRU4RecF": Model}
    for name, held in parts.items():
        module = ModuleType(f"recbole{name}")
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
        vars(module).update(held)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(bench_cold_start, "OLD_NAMES", {})
    return configs, epochs


def test_the_peer_gets_our_width_all_clicks_and_genres_and_each_loss_its_batches(
    library, tmp_path
):
    world = click_world.draw(1, users=9, warm=30, cold=2, each_day=0)
    log = click_world.history(world, days=3)
    calls, samples, size = bench_cold_start.peers(world, log, 16, tmp_path)
    assert (samples, size) == (7, 2)
    pairs = [(loss, batch) for loss in ("CE", "BPR") for batch in bench_cold_start.BATCHES]
    assert [*calls] == [f"{bench_cold_start.PEER}, {loss}, batch {at}" for loss, at in pairs]
    configs, epochs = library
    for (model, dataset, config), (loss, batch) in zip(configs, pairs, strict=True):
        assert (model, dataset, config["data_path"]) == ("GRU4RecF", "films", str(tmp_path))
        assert config["embedding_size"] == config["hidden_size"] == 16
        assert (config["loss_type"], config["train_batch_size"]) == (loss, batch)
        drawn = {"distribution": "uniform", "sample_num": 1} if loss == "BPR" else None
        assert config["train_neg_sample_args"] == drawn
        assert config["selected_features"] == ["class"]
    assert [calls[name]() for name in calls] == [0.5] * len(pairs)
    assert [one[:2] for one in epochs] == pairs  # an epoch each, and each of its own model
    assert len({one[2] for one in epochs}) == len(pairs)
    assert all(batch == data and number == 0 for _, batch, _, data, number in epochs)
    rows = [
        line.split("\t") for line in (tmp_path / "films/films.inter").read_text().split("\n")
    ]
    clicked = sorted((int(user), int(item)) for user, item, _ in rows[1:-1])
    users = log.user_S[:, None].expand_as(log.items_SK)[log.clicks_SK].tolist()
    items = log.items_SK[log.clicks_SK].tolist()
    assert clicked == sorted(zip(users, items, strict=True))
    rows = (tmp_path / "films/films.item").read_text().splitlines()[1:]
    genres = [len(row.split("\t")[1].split()) for row in rows]
    assert genres == world.genres_IG.sum(1).int().tolist()


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


def test_the_answers_of_all_clients_count_and_the_clock_is_the_wall_s(monkeypatch):
    """Two clients with 100 answers each, within 4 s: 50 a second."""
    ticks = iter((10.0, 14.0))
    monkeypatch.setattr(bench_campaign, "time", SimpleNamespace(perf_counter=ticks.__next__))
    later = SimpleNamespace(get=lambda seconds: [0.02] * 100)
    pool = SimpleNamespace(apply_async=lambda task, asked: later)
    assert bench_campaign.loaded(pool, 2, "where")[0] == 50


@pytest.mark.parametrize(("status", "count"), [(200, 25), (200, 24), (400, 25), (500, 0)])
def test_an_answer_that_is_none_stops_the_race(monkeypatch, tmp_path, status, count):
    body = json.dumps({"itemList": [{}] * count}).encode()
    answer = SimpleNamespace(status=status, read=lambda: body)
    line = SimpleNamespace(request=lambda *_: None, getresponse=lambda: answer)
    monkeypatch.setattr(
        bench_campaign.http.client, "HTTPConnection", lambda where, timeout: line
    )
    asked = "http://where", "campaign", 3, 0.1, tmp_path / "stop"
    if (status, count) == (200, 25):
        assert len(bench_campaign.ask(*asked)) > 1
        return
    with pytest.raises(RuntimeError, match=str(status)):
        bench_campaign.ask(*asked)


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
