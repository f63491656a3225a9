"""The study of faults as it is declared, with stand-ins for servers, clients and programs."""

import contextlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers import check, receipts
from helpers.study import Job, Part
from press.study import hold, record

from . import study_faults as faults
from .conftest import Server, Strike, loaded

EXPECTED = {"killed": "killed", "balanced": "killed", "throttled": "throttled"}
FRONTS = {"killed": contextlib.nullcontext, "balanced": faults.haproxy}


def judged(name, scene):
    arm = faults.STUDY.arms[name]
    return faults.STUDY.judge("triton", scene, Job(name, arm, 0, {"seconds": 3}))


def test_each_arm_is_a_fault_and_what_stands_before_the_servers(scene):
    seen = hold(faults.STUDY, lambda seed, sizes: {"events": Part(scene, range(6))})
    assert set(seen) == {(name, seed) for name in EXPECTED for seed in (0, 1)}
    for (name, _), one in seen.items():
        setting = dict(one.job.arm.setting)
        assert setting.pop("load") == getattr(faults, EXPECTED[name])
        ask = {"ask": {"front": FRONTS[name]}} if name in FRONTS else {}
        assert setting == {"server": {}} | ask
        assert one.made == "triton" and one.tests == {"events": scene}
        assert one.job.arm.train is one.job.arm.choice is one.job.arm.loss is None
    assert list(faults.STUDY.seeds) == [0, 1, 2, 3, 4]
    assert faults.STUDY.sizes == {"seconds": 3} and faults.STUDY.over == "repetitions"


def test_a_server_is_killed_and_started_again_under_load(world, scene, monkeypatch):
    Strike(world, monkeypatch)
    found = judged("killed", scene)
    first, second, again = world.servers
    assert again.options == {"port": first.ports["http"]} and second.options == {}
    assert world.loads[0][0] == [first.address, second.address]
    assert world.loads[0][2:] == (64, 4, 18, {"rest_s": 0.05})
    assert world.now >= 4.5  # the load was under way
    assert found == {"events": 60, "retries": 3, "longest_wait": 1.5}
    assert not any(one.alive for one in world.servers)


def test_the_balanced_arm_s_clients_know_the_balancer_alone(world, scene, monkeypatch):
    started, killed = [], []

    class Program:
        def __init__(self, command):
            started.append((command, Path(command[2]).read_text()))

        __enter__, __exit__ = (lambda self: self), (lambda self, *_: None)

        def terminate(self):
            killed.append(True)

    monkeypatch.setattr(faults.subprocess, "Popen", Program)
    monkeypatch.setattr(faults.shutil, "which", {"haproxy": "/usr/sbin/haproxy"}.get)
    Strike(world, monkeypatch)
    judged("balanced", scene)
    [(command, text)], [asked] = started, world.loads[0][0]
    assert command[0] == "haproxy" and killed == [True]
    assert f"bind {asked}\n" in text and "/v2/models/emmichel/ready" in text
    for number, one in enumerate(world.servers[:2]):
        assert asked != one.address and f"server s{number} {one.address} check" in text


def test_without_haproxy_the_balanced_arm_ends_the_study(world, scene, monkeypatch):
    monkeypatch.setattr(faults.shutil, "which", lambda name: None)
    Strike(world, monkeypatch)
    with pytest.raises(check.Failed, match="apt-get install haproxy"):
        judged("balanced", scene)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"computed": (10, 30, 0)}, "restarted server computed"),  # it was never asked again
        ({"computed": (10, 0, 50)}, "restarted server computed"),  # nothing was balanced
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
    struck = Strike(world, monkeypatch)

    def triton(models, **options):
        if options.get("port"):
            raise RuntimeError("the port is taken")
        return struck.triton(models, **options)

    monkeypatch.setattr("service.study_service.Triton", triton)
    with pytest.raises(RuntimeError, match="the port is taken"):
        judged("killed", scene)


def test_a_server_that_comes_back_elsewhere_ends_the_study(world, scene, monkeypatch):
    struck = Strike(world, monkeypatch)
    elsewhere = lambda models, **options: struck.triton(models)  # noqa: E731
    monkeypatch.setattr("service.study_service.Triton", elsewhere)
    with pytest.raises(check.Failed, match="elsewhere"):
        judged("killed", scene)


def throttle(world, monkeypatch, counted):
    links = []

    @contextlib.contextmanager
    def fault(target, **options):
        links.append((target, options))
        yield SimpleNamespace(address="the link")

    def answer(server, rows, clients):
        server.compute(2560)
        found = {"bytes": counted * 10, "answered": 10, "events_per_s": 5.5}
        return found | {"latency_s": [1], "patches_per_s": 1408}

    monkeypatch.setattr(faults, "Fault", fault)
    loaded(world, monkeypatch, answer)
    return links


def test_what_a_link_allows_is_predicted_from_shapes(world, scene, monkeypatch):
    least = 256 * (48 * 48 + 4) * 4  # bytes of the numbers alone
    links = throttle(world, monkeypatch, least * 1.003)
    found = judged("throttled", scene)
    assert links == [(world.servers[0].address, {"bytes_per_s": 20e6})]
    assert world.loads[0][0] == ["the link"] and world.loads[0][2:4] == (256, 2)
    assert found["done"] == 5.5
    assert found["events_predicted"] == pytest.approx(20e6 / least, rel=3e-4)
    throttle(world, monkeypatch, least * 0.995)  # what is counted moves no prediction
    assert judged("throttled", scene)["events_predicted"] == found["events_predicted"]
    throttle(world, monkeypatch, least * 1.05)
    with pytest.raises(check.Failed, match="were predicted"):
        judged("throttled", scene)


def test_what_is_recorded():
    numbers = {"events": 60, "longest_wait": 1.5}
    found = {name: {s: {"events": numbers | {"retries": s}} for s in (0, 1)} for name in FRONTS}
    link = {"events_predicted": 8.0}
    found["throttled"] = {s: {"events": link | {"done": 5.0 + s}} for s in (0, 1)}
    receipt = receipts.start("inference_service", "cpu")
    record(faults.STUDY, receipt, found)
    told = {name: (one["value"], one["unit"]) for name, one in receipt.metrics.items()}
    for name in FRONTS:
        assert told[f"{name}_events"] == (60, "events") and told[f"{name}_retries"][0] == 0.5
        assert told[f"{name}_longest_wait"] == (1.5, "s")
    assert told["throttled_done"] == (5.5, "events/s")
    assert told["throttled_events_predicted"] == (8.0, "events/s")
