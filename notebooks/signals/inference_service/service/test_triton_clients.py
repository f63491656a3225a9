"""NVIDIA's clients beside ours, with stand-ins for theirs: who is asked what, what is timed."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from . import onnx_model
from .embedded import EmbeddedServer


class Client:
    """A tritonclient: asks the network itself, and writes down who asked for what."""

    def __init__(self, name, network, asked, spoil=0.0):
        self.name, self.network, self.asked, self.spoil = name, network, asked, spoil
        self.InferRequestedOutput = str

    def InferenceServerClient(self, address):  # noqa: N802  its name
        self.address = address
        return self

    def InferInput(self, name, shape, kind):  # noqa: N802  its name
        sent = SimpleNamespace(name=name, shape=shape, kind=kind)
        sent.set_data_from_numpy = lambda values: setattr(sent, "values", values)
        return sent

    def infer(self, model, inputs, outputs):
        [one] = inputs
        assert one.shape == list(one.values.shape) and one.kind == "FP32"
        self.asked.append((self.name, self.address, model, one.name, len(one.values)))
        found = self.network({one.name: one.values})
        return SimpleNamespace(as_numpy=lambda name: found[name] + self.spoil)


@pytest.fixture
def clients(scene, monkeypatch):
    """The module, between stand-ins, and what they were asked: `clients(spoil)`."""
    asked, network = [], onnx_model.OnnxModel(scene.model)

    def load(spoil=0.0):
        parts = {
            "tritonclient.http": Client("http", network, asked),
            "tritonclient.grpc": Client("grpc", network, asked, spoil),
            "onnx_model": onnx_model,
        }
        parts["tritonclient"] = SimpleNamespace(
            http=parts["tritonclient.http"], grpc=parts["tritonclient.grpc"]
        )
        for name, part in parts.items():
            monkeypatch.setitem(sys.modules, name, part)
        monkeypatch.setattr(sys, "path", [*sys.path])
        monkeypatch.delitem(sys.modules, "service.triton_clients", raising=False)
        return importlib.import_module("service.triton_clients"), asked

    return load


def told(scene, server):
    ports = {"http": int(server.address.split(":")[1]), "grpc": 7}
    return {"ports": ports, "events": str(scene.events), "model_file": str(scene.model)}


def test_each_client_is_timed_as_often_after_two_rounds_to_warm_up(clients, scene):
    module, asked = clients()
    with EmbeddedServer({"emmichel": Path(scene.model)}, delay_us=0) as server:
        found = module.main(**told(scene, server), rows=5, rounds=3)
        assert server.batchers["emmichel"].counts["count"] == 5 * (3 + 2)  # ours asked it
    assert list(found) == ["no_server", "ours_http", "nvidia_http", "nvidia_grpc"]
    assert all(len(times) == 3 and min(times) > 0 for times in found.values())
    http = ("http", server.address, "emmichel", "patches", 5)
    assert asked == [http, ("grpc", "127.0.0.1:7", "emmichel", "patches", 5)] * (3 + 2)


def test_a_wrong_answer_ends_it(clients, scene):
    module, _ = clients(spoil=0.01)
    with (
        EmbeddedServer({"emmichel": Path(scene.model)}, delay_us=0) as server,
        pytest.raises(AssertionError),
    ):
        module.main(**told(scene, server), rows=5, rounds=1)
