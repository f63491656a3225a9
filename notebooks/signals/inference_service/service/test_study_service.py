"""The study of Triton as it is declared, with stand-ins for servers, clients and programs."""

import contextlib
import io
import json
import time
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
from emmichel import EmMichelTrack, infer
from helpers import check, receipts
from helpers.study import Job, Part
from press.study import hold, record

from . import study_service as study
from .launch import EMMICHEL

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
    "killed": ("killed", {}),
    "throttled": ("throttled", {}),
    "prometheus": ("scraped", {}),
}
COUNTED = {"wrong": 0, "lost": 0, "retries": 0}


@pytest.fixture(scope="module")
def scene():
    network = EmMichelTrack(filters=2, pool=4).eval()
    patches = np.random.default_rng(0).standard_normal((6, 48, 48)).astype(np.float32)
    found = study.scene(network, patches)
    with np.load(found.events) as file:
        right = infer(network, patches)
        assert json.loads(str(file["model"])) == json.loads(json.dumps(asdict(EMMICHEL)))
        np.testing.assert_array_equal(file["patches"], patches)
        for at, values in enumerate(right):
            np.testing.assert_allclose(file[f"output_{at}"], values, atol=1e-5)
    return found


def test_each_arm_is_a_server_s_settings_and_a_load(scene):
    parts = {"events": Part(scene, range(6))}
    seen = hold(study.STUDY, lambda seed, sizes: parts)
    assert set(seen) == {(name, seed) for name in EXPECTED for seed in (0, 1)}
    for (name, _), one in seen.items():
        load, options = EXPECTED[name]
        arm = one.job.arm
        assert dict(arm.setting) == {"load": getattr(study, load), "server": options}
        assert one.made == "triton" and one.tests == {"events": scene}
        assert arm.train is arm.choice is arm.loss is None
    assert list(study.STUDY.seeds) == [0, 1, 2, 3, 4] and study.STUDY.over == "repetitions"
    assert study.STUDY.sizes == {"seconds": 3} and study.STUDY.threads == 2


def test_the_patches_of_an_event_are_answered_and_saved(monkeypatch):
    monkeypatch.setattr(study, "scene", lambda network, patches: (network, patches))
    part = study.parts(0, {})["events"]
    network, patches = part.data
    assert sum(one.numel() for one in network.parameters()) == 11_900_420
    assert patches.shape[1:] == (48, 48) and len(patches) == len(set(part.units)) > 1000


class World:
    """Servers that count what they are said to have computed, and a clock that jumps."""

    def __init__(self):
        self.servers, self.now, self.loads = [], 0.0, []

    def sleep(self, seconds):
        self.now += seconds

    def triton(self, models, **options):
        return Server(self, models, options)

    def metrics(self, address):
        for one in self.servers:
            if one.metrics_address == address and one.alive:
                return dict(one.counts)
        raise ConnectionRefusedError(address)


class Server:
    def __init__(self, world, models, options):
        self.world, self.models, self.options = world, models, options
        self.alive, self.counts = False, {}

    def __enter__(self):
        number = len(self.world.servers)
        port = self.options.get("port") or 9000 + number
        self.ports = {"http": port, "grpc": 1, "metrics": 2}
        self.address, self.metrics_address = f"127.0.0.1:{port}", f"metrics:{number}"
        self.world.servers.append(self)
        self.alive = True
        return self

    def __exit__(self, *_):
        self.alive = False

    def kill(self):
        self.alive = False

    def compute(self, patches, batches=1, busy_us=0):
        for name, count in (
            (study.ROWS, patches),
            (study.BATCHES, batches),
            (study.INFER, busy_us),
        ):
            self.counts[name] = self.counts.get(name, 0) + count


@pytest.fixture
def world(monkeypatch):
    found = World()
    monkeypatch.setattr(study, "Triton", found.triton)
    monkeypatch.setattr(study, "metrics", found.metrics)
    clock = SimpleNamespace(sleep=found.sleep, monotonic=lambda: found.now)
    monkeypatch.setattr(study, "time", clock)
    monkeypatch.setattr(study.shutil, "which", lambda name: None)
    return found


def judged(name, scene, seconds=3):
    arm = study.STUDY.arms[name]
    return study.STUDY.judge("triton", scene, Job(name, arm, 0, {"seconds": seconds}))


def loaded(world, monkeypatch, answer):
    """`load` keeps what it was asked, and gives `answer(server, rows, clients)` with it."""

    def load(addresses, events, rows, clients, seconds, **options):
        world.loads.append((addresses, events, rows, clients, seconds, options))
        [server] = [one for one in world.servers if one.alive]
        return COUNTED | answer(server, rows, clients)

    monkeypatch.setattr(study, "load", load)


@pytest.mark.parametrize("name", [name for name, how in EXPECTED.items() if how[0] == "grid"])
def test_a_grid_s_row_is_by_clients_of_one_patch_after_a_warm_up(
    name, world, scene, monkeypatch
):
    def answer(server, rows, clients):
        server.compute(12 * clients, 3)
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
    assert (found["rate_1"], found["rate_8"]) == (100, 800)


@pytest.mark.parametrize("what", ["wrong", "lost"])
def test_a_wrong_or_a_lost_event_ends_the_study(what, world, scene, monkeypatch):
    loaded(world, monkeypatch, lambda *_: {what: 1})
    for name in ("delay_0", "clients", "preferred_64", "throttled"):
        with pytest.raises(check.Failed, match="wrong or lost"):
            judged(name, scene)


def test_the_number_of_clients_is_predicted_from_one(world, scene, monkeypatch):
    def answer(server, rows, clients):
        server.compute(128, 2, busy_us=100_000 * clients)  # 50 ms for each event of 64 patches
        latency = [0.1 * clients, 0.3 * clients, 0.1 * clients]
        return {"latency_s": latency, "events_per_s": min(2.0 * clients, 10)}

    loaded(world, monkeypatch, answer)
    found = judged("clients", scene)
    assert [one[2:4] for one in world.loads] == [(64, n) for n in (1, 2, 4, 8, 16)]
    assert all(one[5] == {"rest_s": 0.5} for one in world.loads)
    assert world.servers[0].options == {"no_batching": True}
    assert found["predicted"] == [pytest.approx((500 + 100) / 50)]
    assert found["crossing"] == [pytest.approx(10 / 2)]
    assert found["events_per_s"] == [2, 4, 8, 10, 10]
    assert found["busy_ms"] == pytest.approx([50, 100, 200, 400, 800])
    assert found["median_ms"] == pytest.approx([100, 200, 400, 800, 1600])


@pytest.mark.parametrize(
    "name", [name for name, how in EXPECTED.items() if how[0] == "batched"]
)
def test_how_requests_of_64_are_joined(name, world, scene, monkeypatch):
    def answer(server, rows, clients):
        server.compute(640, 5)
        return {"latency_s": [1], "patches_per_s": 70}

    loaded(world, monkeypatch, answer)
    assert judged(name, scene) == {"mean_batch": 128, "rate": 70}
    assert world.loads[0][2:4] == (64, 4) and world.servers[0].options == EXPECTED[name][1]


def throttle(world, monkeypatch, counted):
    links = []

    @contextlib.contextmanager
    def fault(target, **options):
        links.append((target, options))
        yield SimpleNamespace(address="the link")

    monkeypatch.setattr(study, "Fault", fault)
    answer = {"bytes": counted * 10, "answered": 10, "events_per_s": 5.5, "latency_s": [1]}
    loaded(world, monkeypatch, lambda *_: answer)
    return links


def test_what_a_link_allows_is_predicted_from_shapes(world, scene, monkeypatch):
    least = 256 * (48 * 48 + 4) * 4  # bytes of the numbers alone
    links = throttle(world, monkeypatch, least * 1.003)
    found = judged("throttled", scene)
    assert links == [(world.servers[0].address, {"bytes_per_s": 20e6})]
    assert world.loads[0][0] == ["the link"] and world.loads[0][2:4] == (256, 2)
    assert found["done"] == [5.5]
    assert found["events_predicted"] == pytest.approx(20e6 / least, rel=3e-4)
    throttle(world, monkeypatch, least * 0.995)  # what is counted moves no prediction
    assert judged("throttled", scene)["events_predicted"] == found["events_predicted"]
    throttle(world, monkeypatch, least * 1.05)
    with pytest.raises(check.Failed, match="were predicted"):
        judged("throttled", scene)


class Strike:
    """Two servers under load, and a third where the first was; `computed` events each."""

    def __init__(self, world, monkeypatch, computed=(10, 30, 20), answered=60, **found):
        self.world, self.computed = world, computed
        self.found = COUNTED | {"retries": 3, "answered": answered, "latency_s": [0.1, 1.5]}
        self.found |= found
        monkeypatch.setattr(study, "Triton", self.triton)
        monkeypatch.setattr(study, "load", self.load)

    def triton(self, models, **options):
        one = Server(self.world, models, options)
        if not self.world.servers:
            one.compute(64 * self.computed[0])
        return one

    def load(self, addresses, events, rows, clients, seconds, **options):
        self.world.loads.append((addresses, events, rows, clients, seconds, options))
        for _ in range(100):
            if len(self.world.servers) == 3:
                break
            time.sleep(0.005)
        for one, events in zip(self.world.servers[1:], self.computed[1:], strict=False):
            one.compute(64 * events)
        return self.found


def test_a_server_is_killed_and_started_again_under_load(world, scene, monkeypatch):
    Strike(world, monkeypatch)
    found = judged("killed", scene)
    first, second, again = world.servers
    assert again.options == {"port": first.ports["http"]} and second.options == {}
    assert world.loads[0][0] == [first.address, second.address]
    assert world.loads[0][2:] == (64, 4, 18, {"rest_s": 0.05})
    assert world.now >= 4.5  # the load was under way
    wanted = {"events": 60, "retries": 3, "longest_wait": 1.5, "balancers": 0}
    assert found == wanted and not any(one.alive for one in world.servers)


def test_a_balancer_is_told_where_there_is_one(world, scene, monkeypatch):
    asked = []

    @contextlib.contextmanager
    def balanced(addresses, folder):
        asked.append(addresses)
        yield "balancer:1"

    monkeypatch.setattr(study, "balanced", balanced)
    monkeypatch.setattr(study.shutil, "which", {"haproxy": "/usr/sbin/haproxy"}.get)
    Strike(world, monkeypatch)
    assert judged("killed", scene)["balancers"] == 1
    assert world.loads[0][0] == ["balancer:1"]
    assert asked == [[one.address for one in world.servers[:2]]]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"computed": (10, 30, 0)}, "restarted server computed"),  # it was never asked again
        ({"computed": (10, 0, 50)}, "restarted server computed"),
        ({"computed": (0, 30, 30)}, "restarted server computed"),  # killed before it worked
        ({"answered": 65}, "65 events, 64 computed"),  # one was counted twice
        ({"lost": 1}, "lost"),
        ({"wrong": 1}, "lost"),
    ],
)
def test_events_that_do_not_add_up_end_the_study(wrong, words, world, scene, monkeypatch):
    Strike(world, monkeypatch, **wrong)
    with pytest.raises(check.Failed, match=words):
        judged("killed", scene)


def test_a_kill_that_kills_nothing_ends_the_study(world, scene, monkeypatch):
    Strike(world, monkeypatch)
    monkeypatch.setattr(Server, "kill", lambda self: None)
    with pytest.raises(check.Failed, match="the killed server answers"):
        judged("killed", scene)


def test_a_server_that_does_not_come_back_ends_the_study(world, scene, monkeypatch):
    strike = Strike(world, monkeypatch)

    def triton(models, **options):
        if options.get("port"):
            raise RuntimeError("the port is taken")
        return strike.triton(models, **options)

    monkeypatch.setattr(study, "Triton", triton)
    with pytest.raises(RuntimeError, match="the port is taken"):
        judged("killed", scene)


def test_a_server_that_comes_back_elsewhere_ends_the_study(world, scene, monkeypatch):
    strike = Strike(world, monkeypatch)
    monkeypatch.setattr(study, "Triton", lambda models, **options: strike.triton(models))
    with pytest.raises(check.Failed, match="elsewhere"):
        judged("killed", scene)


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
    assert asked == [told | {"rows": 256}, told | {"rows": 1}]
    assert found == {"block": [256, 1], "ours_http_ms": [258, 3], "nvidia_grpc_ms": [1, 1]}
    assert server.options == {"delay_us": 0}
    monkeypatch.setattr(
        study.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1, stderr="why")
    )
    with pytest.raises(check.Failed, match="why"):
        judged("peers", scene)


def test_prometheus_reads_the_server_s_own_count(world, scene, monkeypatch):
    assert judged("prometheus", scene) == {} and not world.servers
    monkeypatch.setattr(study.shutil, "which", {"prometheus": "/usr/bin/prometheus"}.get)
    monkeypatch.setattr(study, "running", lambda command: contextlib.nullcontext())
    read = {study.ROWS: 7.0, study.INFER: 1.0, study.QUEUED: 0.0}

    def series(url):
        rows = [{"metric": {"__name__": n}, "value": [0, str(x)]} for n, x in read.items()]
        return io.StringIO(json.dumps({"data": {"result": rows}}))

    def answer(server, rows, clients):
        server.compute(7)
        return {"latency_s": [1]}

    monkeypatch.setattr(study.urllib.request, "urlopen", series)
    loaded(world, monkeypatch, answer)
    assert judged("prometheus", scene) == {"rows": 7}
    read.pop(study.QUEUED)
    with pytest.raises(check.Failed, match="counts, times, queue"):
        judged("prometheus", scene)
    read[study.ROWS] = 6.0
    with pytest.raises(check.Failed, match="is right"):
        judged("prometheus", scene)


def numbers(name, seed):
    """What a repetition may have found."""
    rates = {"no_batching": 100, "delay_0": 900, "delay_2000": 200, "delay_10000": 50}
    load = EXPECTED[name][0]
    rate = rates.get(name, 1) * (1 + seed)
    curve = {key: [float(at + seed) for at in range(5)] for key in study.GRID}
    waits = {key: [1.0 + seed] * 5 for key in study.WAITS}
    return {
        "grid": curve | {"rate_8": rate, "rate_1": 7 * (1 + seed) - rate / 50},
        "clients": waits | {"predicted": [8.0 + 2 * seed], "crossing": [10.0]},
        "batched": {"mean_batch": 64, "rate": rate},
        "killed": {"events": 60, "retries": seed, "longest_wait": 1.5, "balancers": 1},
        "throttled": {"events_predicted": 8.0, "done": [5.0 + seed]},
        "peers": {"block": [256, 1], "ours_http_ms": [100.0 + seed, 10.0]},
        "scraped": {"rows": 2160},
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
    one = metrics["study_predicted_clients"]
    assert (one["value"], one["unit"], one["interval"]) == (9, "clients", "95 %")
    assert (one["low"], one["high"]) == pytest.approx((9 - half, 9 + half), rel=1e-4)
    assert metrics["study_crossing_clients"]["value"] == 10
    done = metrics["throttled_events"]
    assert (done["value"], done["unit"]) == (5.5, "events/s")
    assert metrics["throttled_events_predicted"]["value"] == 8
    units = {name: one["unit"] for name, one in metrics.items()}
    assert units["killed_events"] == "events" and units["killed_longest_wait"] == "s"
    assert units["preferred_64_mean_batch"] == units["prometheus_rows"] == "patches"
    assert units["two_instances_rate"] == units["preferred_none_rate"] == "patches/s"
    assert metrics["killed_retries"]["value"] == 0.5
    grid = curves["grid"]
    assert list(grid) == ["clients", "delay_us", *study.GRID]
    assert grid["clients"] == [1, 2, 4, 8, 16] * 4
    assert grid["delay_us"] == [-1] * 5 + [0] * 5 + [2000] * 5 + [10_000] * 5
    assert grid["median_ms"] == [0.5, 1.5, 2.5, 3.5, 4.5] * 4
    assert curves["clients"]["clients"] == [1, 2, 4, 8, 16]
    assert curves["clients"]["busy_ms"] == [1.5] * 5
    assert curves["peers"] == {"block": [256, 1], "ours_http_ms": [100.5, 10]}
