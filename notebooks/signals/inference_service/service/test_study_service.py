"""The study of Triton as it is declared, with stand-ins for servers, clients and programs."""

import json
from types import SimpleNamespace

import pytest
from helpers import check, receipts
from helpers.study import Job, Part
from press.study import hold, record

from . import study_service as study
from .conftest import loaded

PREFERRED = {"max_batch": 256, "delay_us": 20_000}
EXPECTED = {  # the load, and the server's settings
    "no_batching": ("grid", {"max_batch": 256, "no_batching": True}),
    "delay_0": ("grid", {"max_batch": 256, "delay_us": 0}),
    "delay_2000": ("grid", {"max_batch": 256, "delay_us": 2000}),
    "delay_10000": ("grid", {"max_batch": 256, "delay_us": 10_000}),
    "clients": ("clients", {"no_batching": True}),
    "peers": ("peers", {"delay_us": 0}),
    "preferred_64": ("batched", {**PREFERRED, "preferred": (64,)}),
    "preferred_128": ("batched", {**PREFERRED, "preferred": (128,)}),
    "preferred_none": ("batched", PREFERRED),
    "two_instances": ("batched", {**PREFERRED, "instances": 2}),
    "in_flight": ("batched", {"delay_us": 2000}),
    "two_models": ("two_models", {}),
}
MANY = {"rows": 32, "clients": 2, "batch": 1, "in_flight": 32}


def test_each_arm_is_a_server_s_settings_and_a_load(scene):
    parts = {"events": Part(scene, range(6))}
    seen = hold(study.STUDY, lambda seed, sizes: parts)
    assert set(seen) == {(name, seed) for name in EXPECTED for seed in (0, 1)}
    for (name, _), one in seen.items():
        load, options = EXPECTED[name]
        arm, ask = one.job.arm, {"ask": MANY} if name == "in_flight" else {}
        assert dict(arm.setting) == {"load": getattr(study, load), "server": options} | ask
        assert one.made == "triton" and one.tests == {"events": scene}
        assert arm.train is arm.choice is arm.loss is None
    assert list(study.STUDY.seeds) == [0, 1, 2, 3, 4] and study.STUDY.over == "repetitions"
    assert study.STUDY.sizes == {"seconds": 3, "long_seconds": 25}
    assert study.STUDY.threads == 2 and study.STUDY.processes == 1  # it times


def test_the_patches_of_an_event_are_answered_and_saved(monkeypatch):
    monkeypatch.setattr(study, "scene", lambda *told: told)
    part = study.parts(0, {})["events"]
    network, patches, calibration, features = part.data
    assert features.shape[1:] == (3,) and calibration(study.torch.ones(1, 3)).shape == (1, 1)
    assert sum(one.numel() for one in network.parameters()) == 11_900_420
    assert patches.shape[1:] == (48, 48) and len(patches) == len(set(part.units)) > 1000


def judged(name, scene):
    sizes = {"seconds": 3, "long_seconds": 25}
    return study.STUDY.judge("triton", scene, Job(name, study.STUDY.arms[name], 0, sizes))


@pytest.mark.parametrize("name", [name for name, how in EXPECTED.items() if how[0] == "grid"])
def test_a_grid_s_row_is_by_clients_of_one_patch_after_a_warm_up(
    name, world, scene, monkeypatch
):
    def answer(server, rows, clients):
        # three batches of 4 ms, each of four requests, which count it once each
        server.compute(12 * clients, 3, busy_us=48_000, requests=12)
        latency = [0.01 * clients, 0.03 * clients]
        return {"latency_s": latency, "patches_per_s": 100.0 * clients}

    loaded(world, monkeypatch, answer)
    found = judged(name, scene)
    [server] = world.servers
    assert server.models == {"emmichel": scene.model} and server.options == EXPECTED[name][1]
    assert [one[2:5] for one in world.loads] == [
        (1, clients, 3) for clients in (2, 1, 2, 4, 8, 16)
    ]
    assert all(one[:2] == ([server.address], scene.events) for one in world.loads)
    assert found["patches_per_s"] == [100, 200, 400, 800, 1600]
    assert found["median_ms"] == pytest.approx([20, 40, 80, 160, 320])
    assert found["p95_ms"] == pytest.approx([29, 58, 116, 232, 464])
    assert found["mean_batch"] == [4, 8, 16, 32, 64]
    assert found["busy_share"] == pytest.approx([0.1] * 5)  # 25 batches a second of 4 ms
    assert (found["rate_1"], found["rate_8"]) == (100, 800)


@pytest.mark.parametrize("what", ["wrong", "lost"])
def test_a_wrong_or_a_lost_event_ends_the_study(what, world, scene, monkeypatch):
    loaded(world, monkeypatch, lambda *_: {what: 1})
    for name in ("delay_0", "clients", "preferred_64"):
        with pytest.raises(check.Failed, match="wrong or lost"):
            judged(name, scene)


def crowded(slower):
    """Clients that get what bounds allow; with `slower`, the server's work grows with them."""

    def answer(server, rows, clients):
        busy_s = 0.05 * (1 + slower * (clients - 1))
        server.compute(128, 2, busy_us=2e6 * busy_s)  # two events of 64 patches
        rate = min(clients / 0.6, 1 / busy_s)
        found = {"latency_s": [0.05, 0.1, 0.15], "events_per_s": rate}
        return found | {"patches_per_s": 64 * rate}

    return answer


def test_the_knee_is_predicted_from_one_client_and_looked_for_up_to_twice_n_star(
    world, scene, monkeypatch
):
    loaded(world, monkeypatch, crowded(0))
    found = judged("clients", scene)
    star = (0.5 + 0.1) / 0.05  # the rest and a mean answer, over the server's own work
    assert [one[2:4] for one in world.loads] == [(64, n) for n in (2, 1, 6, 9, 12, 15, 18, 24)]
    assert all(one[4:] == (25, {"rest_s": 0.5}) for one in world.loads[1:])
    assert world.servers[0].options == {"no_batching": True}
    assert found["predicted"] == pytest.approx(star)
    assert found["clients"] == [6, 9, 12, 15, 18, 24]
    assert found["knee"] == pytest.approx(15, rel=0.01)  # 20 a second are 0.8 · 15 / 0.6
    # chance brings it forward; bounds alone would put it at 15
    assert star < found["predicted_knee"] < 14
    assert found["knee_by_prediction"] == found["knee"] / found["predicted_knee"]
    rates = [10, 15, 20, 20, 20, 20]
    assert found["events_per_s"] == pytest.approx(rates)
    assert found["busy_share"] == pytest.approx([rate * 0.05 for rate in rates])
    assert found["median_ms"] == pytest.approx([100] * 6)


def test_a_server_that_clients_slow_down_has_its_knee_before_the_prediction(
    world, scene, monkeypatch
):
    loaded(world, monkeypatch, crowded(0.1))
    assert judged("clients", scene)["knee_by_prediction"] < 0.8


def test_a_sweep_without_a_knee_ends_the_study(world, scene, monkeypatch):
    def answer(server, rows, clients):
        server.compute(128, 2, busy_us=100_000)
        return {"latency_s": [0.1], "events_per_s": clients / 0.6, "patches_per_s": 1}

    loaded(world, monkeypatch, answer)
    with pytest.raises(check.Failed, match="no knee up to 24"):
        judged("clients", scene)


@pytest.mark.parametrize(
    "name", [name for name, how in EXPECTED.items() if how[0] == "batched"]
)
def test_how_requests_of_64_are_joined(name, world, scene, monkeypatch):
    def answer(server, rows, clients):
        server.compute(640, 5)
        return {"latency_s": [1], "patches_per_s": 70}

    loaded(world, monkeypatch, answer)
    assert judged(name, scene) == {"mean_batch": 128, "rate": 70}
    asked = (32, 2, 3, {"batch": 1, "in_flight": 32}) if name == "in_flight" else (64, 4, 3, {})
    assert world.loads[0][2:] == asked and world.servers[0].options == EXPECTED[name][1]


def test_two_models_are_asked_at_once_and_both_answer_rightly(world, scene, monkeypatch):
    second = {"wrong": 0, "events": 7}

    def answer(server, rows, clients):
        server.compute(640, 5)
        return {"events": 5, "latency_s": [1], "patches_per_s": 70} | second

    loaded(world, monkeypatch, answer)
    assert judged("two_models", scene) == {"rate": 70, "clusters": 70}
    [server] = world.servers
    assert server.models == {"emmichel": scene.model, "calibration": scene.second}
    assert {one[1] for one in world.loads} == {scene.events, scene.second_events}
    assert all(one[0] == [server.address] and one[2:5] == (64, 2, 3) for one in world.loads)
    second["events"] = 0  # the second was never answered
    with pytest.raises(check.Failed):
        judged("two_models", scene)


def test_clients_of_others_are_asked_for_both_blocks(world, scene, monkeypatch):
    asked = []

    def run(command, **options):
        asked.append(json.loads(command[-1]))
        size = asked[-1]["rows"]
        times = {"ours_http": [size, size + 2, 900], "nvidia_grpc": [1, 1, size]}
        return SimpleNamespace(returncode=0, stdout=json.dumps(times), stderr="")

    monkeypatch.setattr(study.subprocess, "run", run)
    found = judged("peers", scene)
    [server] = world.servers
    told = {"ports": server.ports, "events": str(scene.events)}
    told["model_file"] = str(scene.model)
    assert asked == [told | {"rows": 256}, told | {"rows": 1}]
    assert found == {"block": [256, 1], "ours_http_ms": [258, 3], "nvidia_grpc_ms": [1, 1]}
    assert server.options == {"delay_us": 0}
    monkeypatch.setattr(
        study.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1, stderr="why")
    )
    with pytest.raises(check.Failed, match="why"):
        judged("peers", scene)


def numbers(name, seed):
    """What a repetition may have found."""
    rates = {"no_batching": 100, "delay_0": 900, "delay_2000": 200, "delay_10000": 50}
    load = EXPECTED[name][0]
    rate = rates.get(name, 1) * (1 + seed)
    curve = {key: [float(at + seed) for at in range(5)] for key in study.GRID}
    waits = {key: [1.0 + seed] * 6 for key in study.WAITS}
    alone = {"predicted": 8.0 + 2 * seed, "predicted_knee": 8.0, "knee": 10.0}
    return {
        "grid": curve | {"rate_8": rate, "rate_1": 7 * (1 + seed) - rate / 50},
        "clients": waits | alone | {"knee_by_prediction": 1.25},
        "batched": {"mean_batch": 64, "rate": rate},
        "two_models": {"rate": rate, "clusters": 9.0},
        "peers": {"block": [256, 1], "ours_http_ms": [100.0 + seed, 10.0]},
    }[load]


def test_directions_and_curves():
    found = {name: {s: {"events": numbers(name, s)} for s in (0, 1)} for name in EXPECTED}
    receipt = receipts.start("inference_service", "cpu")
    record(study.STUDY, receipt, found)
    metrics, curves = receipt.metrics, receipt.curves
    gain = metrics["study_batching_gain"]
    assert gain["value"] == gain["low"] == gain["high"] == pytest.approx(2)
    assert (gain["unit"], gain["repeats"]) == ("×", 2)
    alone = metrics["study_batching_gain_alone"]  # 3 over 5, and 6 over 10
    assert alone["value"] == pytest.approx(0.6)
    half = 12.7062  # Student's t of one degree of freedom; values at 1 from the mean
    one = metrics["clients_predicted"]
    assert (one["value"], one["unit"], one["interval"]) == (9, "clients", "95 %")
    assert (one["low"], one["high"]) == pytest.approx((9 - half, 9 + half), rel=1e-4)
    assert metrics["clients_knee"]["value"] == 10
    assert metrics["clients_knee_by_prediction"]["unit"] == "×"
    units = {name: one["unit"] for name, one in metrics.items()}
    assert units["preferred_64_mean_batch"] == "patches"
    assert units["two_instances_rate"] == units["preferred_none_rate"] == "patches/s"
    assert units["two_models_clusters"] == "clusters/s" and "in_flight_rate" in units
    grid = curves["grid"]
    assert list(grid) == ["clients", "delay_us", *study.GRID]
    assert grid["clients"] == [1, 2, 4, 8, 16] * 4
    assert grid["delay_us"] == [-1] * 5 + [0] * 5 + [2000] * 5 + [10_000] * 5
    assert grid["median_ms"] == [0.5, 1.5, 2.5, 3.5, 4.5] * 4
    crowd = curves["clients"]
    assert list(crowd["part"]) == [0.5, 0.75, 1, 1.25, 1.5, 2] and crowd["clients"] == [1.5] * 6
    assert crowd["events_per_s"] == crowd["busy_share"] == [1.5] * 6
    half /= 2
    assert crowd["low"] + crowd["high"] == pytest.approx(
        [1.5 - half] * 6 + [1.5 + half] * 6, 1e-4
    )
    assert curves["peers"] == {"block": [256, 1], "ours_http_ms": [100.5, 10]}
