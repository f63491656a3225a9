"""Behind a real Triton: the same log-probabilities, and the same text over the same socket."""

import asyncio

import numpy as np
import pytest
import torch
from quartznet import save_model
from streaming import WorkerFailed, transcribe

from .clients import load
from .launch import Server, scrape
from .triton_backend import TritonBackend, available

pytestmark = pytest.mark.skipif(bool(available()), reason=f"no Triton: {available()}")


@pytest.fixture(scope="module")
def model(loud_model):
    return loud_model


@pytest.fixture(scope="module")
def triton(model, tmp_path_factory):
    path = save_model(model, tmp_path_factory.mktemp("model") / "small.safetensors")
    with Server("serving.triton_backend", checkpoint=path) as triton:
        yield triton


@pytest.fixture(scope="module")
def grpc(triton):
    return f"127.0.0.1:{triton.ports['grpc']}"


@pytest.mark.parametrize("batch, frames", [(1, 84), (3, 90), (16, 11)])
def test_triton_computes_what_the_model_does(grpc, model, batch, frames):
    features = torch.randn(batch, 64, frames)
    with TritonBackend(grpc) as backend, torch.inference_mode():
        got = backend.infer(features.numpy())
    np.testing.assert_allclose(got, model(features)[0].detach(), atol=1e-3, rtol=1e-3)


def test_shorter_windows_are_masked(grpc, model):
    features, frames = torch.randn(2, 64, 40), torch.tensor([40, 20])
    features[1, :, 20:] = 0
    with TritonBackend(grpc) as backend:
        got = backend.infer(features.numpy(), frames.numpy())
    want = model(features, frames)[0].detach()
    np.testing.assert_allclose(got[1, :10], want[1, :10], atol=1e-3, rtol=1e-3)


def test_clients_notice_no_difference(grpc, model):
    signals = [0.2 * torch.randn(16_000) * torch.rand(10).repeat_interleave(1600) for _ in "ab"]
    signals = [(s * 32768).round() / 32768 for s in signals]
    with Server(backend=grpc) as server:
        assert server.get("/health") == (200, "ready")
        heard = asyncio.run(load(server.address, signals))
    assert [one.text for one in heard] == transcribe(model, signals)


def test_metrics_of_triton_can_be_scraped(triton):
    series = {name.split("{")[0] for name in scrape(f"127.0.0.1:{triton.ports['metrics']}")}
    assert {
        "nv_inference_request_success_total",
        "nv_inference_queue_duration_us_total",
    } <= series


def test_a_triton_that_does_not_answer_is_a_failure():
    with TritonBackend("127.0.0.1:9", seconds=1) as backend:
        assert not backend.alive()
        with pytest.raises(WorkerFailed, match="Triton"):
            backend.infer(np.zeros((1, 64, 20), np.float32))
