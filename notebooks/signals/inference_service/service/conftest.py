"""Stand-ins for servers, clients and clocks, for the tests of both studies."""

import json
import time
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
from calorimeter import Calibration
from emmichel import EmMichelTrack, infer

from . import study_faults, study_service
from .launch import EMMICHEL

COUNTED = {"wrong": 0, "lost": 0, "retries": 0}


@pytest.fixture(scope="session")
def scene():
    """The scene of small networks, held against what they answer."""
    network, calibration = EmMichelTrack(filters=2, pool=4).eval(), Calibration()
    draw = np.random.default_rng(0).standard_normal
    patches = draw((6, 48, 48)).astype(np.float32)
    features = draw((5, 3)).astype(np.float32)
    found = study_service.scene(network, patches, calibration, features)
    with np.load(found.events) as file:
        assert json.loads(str(file["model"])) == json.loads(json.dumps(asdict(EMMICHEL)))
        np.testing.assert_array_equal(file["patches"], patches)
        for at, values in enumerate(infer(network, patches)):
            np.testing.assert_allclose(file[f"output_{at}"], values, atol=1e-5)
    with np.load(found.second_events) as file:
        np.testing.assert_array_equal(file["patches"], features)
        assert file["output_0"].shape == (5, 1) and (file["output_0"] > 0).all()
    return found


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
    """A server that computes when it is told to."""

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

    def compute(self, patches, batches=1, busy_us=0, requests=None):
        names = "ROWS", "BATCHES", "INFER", "DONE"
        counts = patches, batches, busy_us, requests or batches
        for name, count in zip(map(vars(study_service).get, names), counts, strict=True):
            self.counts[name] = self.counts.get(name, 0) + count


class Strike:
    """Two servers under load, and a third where the first was; `computed` events each."""

    def __init__(self, world, monkeypatch, computed=(10, 30, 20), answered=60, **found):
        self.world, self.computed = world, computed
        self.found = COUNTED | {"retries": 3, "answered": answered, "latency_s": [0.1, 1.5]}
        self.found |= found
        monkeypatch.setattr(study_service, "Triton", self.triton)
        monkeypatch.setattr(study_faults, "load", self.load)

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


@pytest.fixture
def world(monkeypatch):
    """Both studies with stand-ins."""
    found = World()
    clock = SimpleNamespace(sleep=found.sleep, monotonic=lambda: found.now)
    monkeypatch.setattr(study_service, "Triton", found.triton)
    monkeypatch.setattr(study_faults, "time", clock)
    for study in (study_service, study_faults):
        monkeypatch.setattr(study, "metrics", found.metrics)
    return found


def loaded(world, monkeypatch, answer):
    """`load` keeps what it was asked, and gives `answer(server, rows, clients)` with it."""

    def load(addresses, events, rows, clients, seconds, **options):
        world.loads.append((addresses, events, rows, clients, seconds, options))
        [server] = [one for one in world.servers if one.alive]
        return COUNTED | {"patches_per_s": 1.0} | answer(server, rows, clients)

    monkeypatch.setattr(study_service, "load", load)
