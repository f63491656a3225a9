"""Batches by Triton's rules, the embedded server's answers, and one configuration for all
engines.
"""

import http.client
import json
import os
import socket
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from emmichel import EmMichelTrack, infer, save_onnx
from sonic import HEADER, Sonic, pack

from . import onnx_model
from .batcher import Batcher
from .embedded import EmbeddedServer
from .launch import EMMICHEL, Settings, Triton, engine, metrics, triton_python
from .triton_models import OPTIONS, bind


class Recorder:
    """A model that keeps the sizes of its batches, and waits for `gate` before the first."""

    inputs, outputs = {"x": (np.float32, ())}, {"y": (np.float32, ())}

    def __init__(self):
        self.sizes, self.gate = [], threading.Event()

    def __call__(self, arrays):
        self.gate.wait(5)
        self.sizes.append(len(arrays["x"]))
        return {"y": arrays["x"] * 2}


def batches(sizes, wait_s=0, **options):
    """The sizes of the batches that requests make which wait while the first is computed, for
    so long at least."""
    model = Recorder()
    batcher = Batcher(model, **options)
    first = batcher.submit({"x": np.zeros(1, np.float32)})
    while batcher.queue:
        time.sleep(0.001)
    sent = [np.arange(n, dtype=np.float32) + 10 * i for i, n in enumerate(sizes)]
    rest = [batcher.submit({"x": one}) for one in sent]
    time.sleep(wait_s)
    model.gate.set()
    for one, future in zip(sent, rest, strict=True):  # each its own rows
        np.testing.assert_array_equal(future.result(5)["y"], 2 * one)
    assert first.result(5)["y"] == [0]
    batcher.stop()
    return model.sizes[1:]


def test_requests_that_wait_are_joined_up_to_the_most():
    assert batches([3, 3, 3, 3], max_batch=8, delay_us=0) == [6, 6]
    assert batches([3, 3, 3], max_batch=64, delay_us=0) == [9]


def test_without_batching_each_goes_alone():
    assert batches([3, 3], max_batch=8, no_batching=True) == [3, 3]


def fitting(queue, waited_s, **options):
    """(requests, leaves) of requests of these rows, whose oldest has waited so long."""
    batcher = Batcher(Recorder(), **{"max_batch": 64, "delay_us": 20_000} | options)
    batcher.stop()
    batcher.queue.extend(SimpleNamespace(rows=rows) for rows in queue)
    return batcher.fitting(waited_s)


@pytest.mark.parametrize(
    "queue, waited_s, preferred, wanted",
    [
        ([8, 8], 0.01, [], (2, False)),  # the batch may grow, the delay is not over
        ([8, 8], 0.03, [], (2, True)),
        ([32, 32], 0.01, [], (2, True)),  # full
        ([40, 40], 0.01, [], (1, True)),  # no room for the next
        ([8, 8, 8], 0.01, [8], (1, True)),  # issue 3116: one request is preferred already
        ([8, 8, 8], 0.03, [8], (3, True)),  # … until the delay is over
        ([8] * 9, 0.03, [8], (8, True)),  # 64 rows are the most
        ([8] * 5, 0.01, [16, 32], (4, True)),  # the largest preferred size
        ([6, 6, 6], 0.01, [16], (2, True)),  # the next would lift it above that
        ([6, 6], 0.01, [16], (2, False)),
        ([20], 0.01, [16], (1, True)),  # above it already
    ],
)
def test_a_batch_is_what_triton_s_scheduler_makes_of_a_queue(
    queue, waited_s, preferred, wanted
):
    assert fitting(queue, waited_s, preferred=preferred) == wanted


def test_without_a_delay_nobody_waits_and_a_preferred_size_always_holds():
    assert fitting([8, 8], 0.0, delay_us=0) == (2, True)
    assert fitting([8, 8, 8], 100.0, delay_us=0, preferred=[8]) == (1, True)


def test_what_has_waited_out_the_delay_leaves_together():
    options = {"max_batch": 64, "delay_us": 20_000, "preferred": [4]}
    assert batches([4] * 9, wait_s=0.05, **options) == [36]  # a slow model, nine waiting


def test_a_preferred_size_of_one_request_stops_the_joining():
    assert batches([4, 4, 4], max_batch=64, delay_us=0, preferred=[4]) == [4, 4, 4]
    assert batches([4, 4, 4], max_batch=64, delay_us=0, preferred=[8]) == [8, 4]
    model = Recorder()
    model.gate.set()
    batcher = Batcher(model, max_batch=64, delay_us=5_000_000, preferred=[4])
    batcher.submit({"x": np.zeros(4, np.float32)}).result(2)
    slow = batcher.submit({"x": np.zeros(3, np.float32)})
    assert not slow.done()
    batcher.stop()
    assert model.sizes == [4, 3] and slow.done()


def test_the_oldest_waits_no_longer_than_the_delay():
    model = Recorder()
    model.gate.set()
    batcher = Batcher(model, max_batch=64, delay_us=100_000)
    futures = [batcher.submit({"x": np.zeros(1, np.float32)}) for _ in range(3)]
    assert [f.result(5)["y"].tolist() for f in futures] == [[0]] * 3 and model.sizes == [3]
    assert batcher.counts["queue_duration_us"] >= 100_000 and batcher.counts["exec_count"] == 1
    batcher.stop()


def test_the_time_in_the_queue_is_each_request_s():
    model = Recorder()
    batcher = Batcher(model, max_batch=64, delay_us=0)
    one = {"x": np.zeros(1, np.float32)}
    futures = [batcher.submit(one)]
    while batcher.queue:
        time.sleep(0.001)
    futures += [batcher.submit(one) for _ in range(8)]
    time.sleep(0.05)  # for so long at least each of the eight waits
    model.gate.set()
    for future in futures:
        future.result(5)
    batcher.stop()
    assert model.sizes == [1, 8] and batcher.counts["queue_duration_us"] >= 8 * 50_000


class Failing(Recorder):
    """A model that takes 20 ms, and fails at batches of three rows."""

    def __call__(self, arrays):
        time.sleep(0.02)
        if len(arrays["x"]) == 3:
            raise ArithmeticError("out of range")
        return super().__call__(arrays)


def test_counts_are_of_requests_rows_and_batches_as_triton_s():
    """Each request counts all of its batch's time; one that fails counts no row."""
    model, one = Failing(), {"x": np.zeros(1, np.float32)}
    model.gate.set()
    batcher = Batcher(model, max_batch=4, delay_us=5_000_000)
    for count, fails in ((4, False), (2, True)):
        last = {"x": np.zeros(2 if fails else 1, np.float32)}
        futures = [batcher.submit(sent) for sent in [one] * (count - 1) + [last]]
        if fails:
            batcher.stop()
            with pytest.raises(RuntimeError, match="ArithmeticError: out of range"):
                futures[0].result(5)
        else:
            futures[0].result(5)
    counts = batcher.counts
    assert [counts[name] for name in ("request_success", "request_failure")] == [4, 2]
    assert (counts["count"], counts["exec_count"]) == (4, 1)
    assert counts["compute_infer_duration_us"] >= 4 * 20_000


def test_too_many_rows_none_and_what_comes_after_the_end_are_refused():
    batcher = Batcher(Recorder(), max_batch=4)
    with pytest.raises(ValueError, match="1 to 4"):
        batcher.submit({"x": np.zeros(5, np.float32)})
    with pytest.raises(ValueError, match="0 rows"):
        batcher.submit({"x": np.zeros(0, np.float32)})
    batcher.stop()
    with pytest.raises(RuntimeError, match="nothing more"):
        batcher.submit({"x": np.zeros(1, np.float32)})


@pytest.mark.parametrize(
    "bad",
    [{"max_batch": 0}, {"delay_us": -1}, {"preferred": [600]}, {"instances": 0}, {"delay": 1}],
)
def test_options_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match="counts from 1"):
        Batcher(Recorder(), **bad)


@pytest.fixture(scope="module")
def network():
    import torch

    torch.manual_seed(0)
    return EmMichelTrack(filters=2, pool=4)


@pytest.fixture(scope="module")
def file(network, tmp_path_factory):
    return save_onnx(network, tmp_path_factory.mktemp("model") / "small.onnx")


@pytest.fixture(scope="module")
def server(file):
    with EmbeddedServer({"emmichel": file}, max_batch=64) as server:
        yield server


def ask(server, path, body=None, headers=None):
    connection = http.client.HTTPConnection(server.address, timeout=10)
    connection.request("POST" if body is not None else "GET", path, body, headers or {})
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_health_is_told_and_what_is_not_there(server):
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/emmichel/ready"):
        assert ask(server, path)[0] == 200
    for path in ("/v2/models/other/ready", "/v2/models/emmichel", "/nothing"):
        status, answer = ask(server, path)
        words = json.loads(answer)["error"]
        assert status == 404 and ("no such path" in words or "unknown" in words)


@pytest.mark.parametrize("more", [{}, {"parameters": {"binary_data_output": False}}])
def test_numbers_are_answered_by_numbers(server, more):
    patches = np.random.default_rng(0).random((2, 48, 48), np.float32)
    body, _ = pack({"patches": patches}, "inputs", binary=False, id="7", **more)
    status, answer = ask(server, "/v2/models/emmichel/infer", body)
    told = json.loads(answer)
    assert status == 200 and told["id"] == "7"
    by_name = {one["name"]: one for one in told["outputs"]}
    assert list(by_name) == list(EMMICHEL.outputs)
    three = np.reshape(by_name["em_trk_none_netout"]["data"], (2, 3))
    np.testing.assert_allclose(three.sum(1), 1, rtol=1e-5)


def test_a_request_that_is_too_large_is_refused_before_it_is_read(server):
    host, port = server.address.split(":")
    told = f"POST /v2/models/emmichel/infer HTTP/1.1\r\nContent-Length: {2**28 + 1}\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=10) as large:
        large.sendall(told.encode())
        assert b"268435456 are allowed" in large.makefile("rb").read()


def test_bad_requests_get_a_reason_and_leave_the_server_well(server):
    def sent(values, name="patches"):
        body, length = pack({name: values}, "inputs")
        status, answer = ask(server, "/v2/models/emmichel/infer", body, {HEADER: str(length)})
        return status, json.loads(answer)["error"] if status != 200 else ""

    assert sent(np.zeros((2, 48, 48), np.float32))[0] == 200
    for status, words in (
        sent(np.zeros((2, 48, 44), np.float32)),
        sent(np.zeros((2, 48, 48))),
        sent(np.zeros((65, 48, 48), np.float32)),
        sent(np.zeros((2, 48, 48), np.float32), "pixels"),
    ):
        assert status == 400 and ("needed" in words or "allowed" in words)
    assert ask(server, "/v2/models/emmichel/infer", b"{", {})[0] == 400
    assert sent(np.zeros((1, 48, 48), np.float32))[0] == 200


def test_a_client_that_dies_in_the_middle_of_its_request_harms_nobody(server):
    host, port = server.address.split(":")
    for part in (
        b"POST /v2/models/emmichel/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n{",
        b"\x00\xff",
    ):
        with socket.create_connection((host, int(port))) as dying:
            dying.sendall(part)
    with Sonic([server.address], EMMICHEL) as sonic:
        assert len(sonic(np.zeros((3, 48, 48), np.float32))[0]) == 3


def test_metrics_count_requests_rows_and_batches(server):
    before = metrics(server.address)
    with Sonic([server.address], EMMICHEL, batch=5, in_flight=1) as sonic:
        sonic(np.zeros((10, 48, 48), np.float32))
    now = metrics(server.address)
    grown = {name: now[name] - before[name] for name in now}
    assert grown["nv_inference_request_success"] == 2 and grown["nv_inference_count"] == 10
    assert grown["nv_inference_exec_count"] == 2
    assert grown["nv_inference_compute_infer_duration_us"] > 0


MODES = ["local", "embedded"]
MODES += [
    pytest.param(
        "triton",
        marks=pytest.mark.skipif(not triton_python(), reason="TRITON_PYTHON is not set"),
    )
]


@pytest.mark.parametrize("mode", MODES)
def test_every_engine_answers_as_the_network_does(mode, file, network):
    patches = np.random.default_rng(0).standard_normal((70, 48, 48)).astype(np.float32)
    options = {"delay_us": 500, "preferred": [64, 128]}
    options |= {} if mode == "triton" else {"instances": 2}  # its start is slow enough with one
    settings = Settings(mode, server={} if mode == "local" else options, client={"batch": 32})
    with engine(settings, file) as compute:
        found = compute(patches)
    for got, want in zip(found, infer(network, patches), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5)


def test_a_remote_server_is_addressed_and_needs_an_address(server):
    with engine(Settings("remote", (server.address,))) as compute:
        assert len(compute(np.zeros((2, 48, 48), np.float32))[0]) == 2
    for bad in (("remote", ()), ("local", ("x:1",)), ("elsewhere", ())):
        with pytest.raises(ValueError, match="allowed are"):
            Settings(*bad)


class Bound:
    """Where `triton_models.bind` binds: `kept` is what it is told."""

    def bind(self, *told, **_):
        self.kept = told


@pytest.fixture
def pytriton(monkeypatch):
    """Stand-ins of pytriton's own classes, which keep what they are made of."""
    made = dict.fromkeys(("DynamicBatcher", "ModelConfig", "Tensor"), SimpleNamespace)
    parts = {"pytriton": SimpleNamespace(), "onnx_model": onnx_model}
    parts["pytriton.model_config"] = SimpleNamespace(**made)
    parts["pytriton.decorators"] = SimpleNamespace(batch=lambda infer: infer)
    for name, part in parts.items():
        monkeypatch.setitem(sys.modules, name, part)
    monkeypatch.setenv("TRITON_PYTHON", sys.executable)


@pytest.mark.parametrize(
    "options, delay_us, preferred",
    [
        ({}, 2000, None),  # as the embedded server's
        ({"delay_us": 0}, 0, None),
        ({"delay_us": 700, "preferred": (64, 128)}, 700, [64, 128]),
    ],
)
def test_triton_is_told_how_long_to_wait_and_for_what(
    pytriton, file, options, delay_us, preferred
):
    told, triton = json.loads(Triton({"emmichel": file}, **options).command[-1]), Bound()
    bind(triton, "emmichel", told["models"]["emmichel"], OPTIONS | told)
    *_, config = triton.kept
    assert config.batcher.max_queue_delay_microseconds == delay_us
    assert config.batcher.preferred_batch_size == preferred


def test_triton_has_as_many_instances_and_as_large_batches_as_it_is_told(pytriton, file):
    triton, own = Bound(), {"instances": 2, "max_batch": 256, "threads": 3}
    bind(triton, "emmichel", file, OPTIONS | own)
    name, instances, inputs, outputs, _, config = triton.kept
    assert name == "emmichel" and config.max_batch_size == 256
    assert [(one.name, one.shape) for one in inputs] == [("patches", (48, 48))]
    assert {one.name: one.shape for one in outputs} == EMMICHEL.outputs
    patches = np.zeros((2, 48, 48), np.float32)
    assert len({id(one) for one in instances}) == 2
    for one in instances:
        assert one(patches=patches)["em_trk_none_netout"].shape == (2, 3)


def test_triton_without_batching_has_no_batcher(pytriton, file):
    triton = Bound()
    bind(triton, "emmichel", file, OPTIONS | {"no_batching": True})
    assert triton.kept[-1].batcher is None


def test_a_triton_that_cannot_start_says_why(monkeypatch):
    monkeypatch.setenv("TRITON_PYTHON", sys.executable)
    with pytest.raises(RuntimeError, match="below 2 is needed"), Triton({}):
        pass
    monkeypatch.delenv("TRITON_PYTHON")
    with pytest.raises(ValueError, match="names no Python"):
        Triton({})


PARENT = """
import json, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print("a log" + json.dumps({"http": child.pid, "metrics": 0}), flush=True)
time.sleep(60)
"""


def test_a_killed_server_takes_its_processes_with_it(monkeypatch):
    monkeypatch.setenv("TRITON_PYTHON", sys.executable)
    server = Triton({})
    server.command = [sys.executable, "-c", PARENT]
    with server:
        child = server.ports["http"]
        os.kill(child, 0)  # it lives
        server.kill()
    until = time.monotonic() + 10
    while alive(child):
        assert time.monotonic() < until
        time.sleep(0.05)


def alive(pid):
    """Whether a process runs; one that ended may wait to be collected."""
    try:
        return "Z" not in open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
