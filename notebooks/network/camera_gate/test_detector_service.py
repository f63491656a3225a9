"""Frames cross a real socket; what is not answered is counted, and nothing is left open."""

import math
import socket
import threading
import time

import numpy as np
import pytest
import torch

grpc = pytest.importorskip("grpc")

from detector_service import CHANNEL, HEAD, METHOD, WAITING, Client, Server, pack, unpack, watch  # noqa: E402

FRAME = np.arange(12, dtype=np.uint8).reshape(3, 4)


def mean(frames):
    return frames.float().flatten(1).mean(1)


def test_a_message_is_read_as_it_was_written():
    for shape in ((1, 1), (3, 4), (7, 1)):
        frame = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
        assert (unpack(pack(frame)) == frame).all()


@pytest.mark.parametrize("bad", [b"", b"\x00\x03", HEAD.pack(3, 4) + bytes(11), HEAD.pack(0, 4),
                                 HEAD.pack(65535, 65535) + bytes(9)])  # fmt: skip
def test_lengths_that_lie_are_refused(bad):
    with pytest.raises(ValueError, match="bytes"):
        unpack(bad)


WIDE = np.zeros((1, 1 << 16), np.uint8)  # more columns than two bytes can say
LARGE = np.zeros((1 << 11, (1 << 11) + 1), np.uint8)


@pytest.mark.parametrize(
    "bad", [FRAME.astype(float), FRAME[None], FRAME[0], FRAME[:0], WIDE, LARGE]
)
def test_what_is_no_frame_is_not_sent(bad):
    with pytest.raises(ValueError, match="rows and columns"):
        pack(bad)


def test_a_score_comes_back_over_the_socket():
    with Server(mean) as address, Client(address, 5) as client:
        assert client.score(FRAME) == pytest.approx(5.5)
        assert client.counts == {"answered": 1}


def test_what_a_server_refuses_is_not_sent_again():
    with Server(mean) as address, Client(address, 5) as client:
        client.call = lambda message, timeout, call=client.call: call(
            b"\xff" * 9, timeout=timeout
        )
        with pytest.raises(ValueError, match="pixels"):
            watch([FRAME], [True], client)
        assert client.counts == {"invalid argument": 1}


def test_garbage_in_a_valid_call_is_refused_and_the_server_lives_on():
    server = Server(mean)
    with server as address, Client(address, 5) as client:
        with pytest.raises(grpc.RpcError) as told:
            client.call(b"\xff" * 9, timeout=5)
        assert told.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert client.score(FRAME) is not None
    assert server.counts == {"refused": 1, "scored": 1}


@pytest.mark.parametrize("told", [RuntimeError("no kernel"), math.nan, math.inf, "text", []])
def test_a_detector_that_fails_is_told_and_counted_and_asked_again(told):
    def detect(frames):
        if not frames[0, 0, 0]:
            return mean(frames)
        if isinstance(told, Exception):
            raise told
        return told if told == [] else [told]

    server = Server(detect)
    with server as address, Client(address, 5) as client:
        made = watch([FRAME + 1, FRAME], [True, True], client, pause_s=0)
        assert math.isnan(made[0]) and made[1] == pytest.approx(5.5)
        assert client.counts == {"internal": 2, "answered": 1}
    assert server.counts == {"failed": 2, "scored": 1}


def test_a_frame_smaller_than_the_pattern_ends_no_server():
    from plate_detector import detect

    server = Server(detect)
    with server as address, Client(address, 5) as client:
        assert (
            client.score(FRAME) is None and client.score(np.zeros((9, 9), np.uint8)) is not None
        )
    assert server.counts == {"failed": 1, "scored": 1}


@pytest.mark.parametrize("answer", [b"", b"\x00" * 7, b"\x7f\xf8" + bytes(6), b"\x00" * 9])
def test_an_answer_that_is_no_number_is_no_answer(answer):
    with Server(mean) as address, Client(address, 5) as client:
        client.call = lambda message, timeout: answer
        assert client.score(FRAME) is None and client.counts == {"garbled": 1}


def test_a_proxy_in_the_environment_gets_no_frame(monkeypatch):
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "no_grpc_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Server(mean) as address, Client(address, 5) as client:
        assert client.score(FRAME) == pytest.approx(5.5)


def test_a_detector_that_was_gone_for_long_is_found_again_soon():
    with Server(mean) as address:
        pass
    with Client(address, 1) as client:
        assert [client.score(FRAME) for _ in range(3)] == [None] * 3
        with Server(mean, int(address.split(":")[1])):
            until, score = time.monotonic() + 20, None
            while score is None and time.monotonic() < until:
                score = client.score(FRAME)
                time.sleep(0.05)
            assert score == pytest.approx(5.5)
    assert dict(CHANNEL)["grpc.max_reconnect_backoff_ms"] <= 1000  # gRPC's own is two minutes


def test_a_slow_detector_is_given_up_and_no_answer_is_no_score():
    gate = threading.Event()

    def slow(frames):
        gate.wait(5)
        return mean(frames)

    with Server(slow) as address, Client(address, 0.2) as client:
        begin = time.monotonic()
        assert client.score(FRAME) is None and time.monotonic() - begin < 2
        assert client.counts == {"deadline exceeded": 1}
        gate.set()


def test_a_call_whose_caller_gave_up_costs_no_work():
    gate, asked = threading.Event(), []

    def slow(frames):
        asked.append(1)
        gate.wait(5)
        return mean(frames)

    server = Server(slow)
    with server as address, Client(address, 0.3) as client:
        first = client.channel.unary_unary(METHOD).future(pack(FRAME), timeout=20)
        until = time.monotonic() + 10
        while not asked and time.monotonic() < until:
            time.sleep(0.01)
        assert client.score(FRAME) is None  # waits behind the first, and is given up
        gate.set()
        client.seconds = 5
        assert client.score(FRAME) is not None and first.exception() is None
    assert len(asked) == server.counts["scored"] == 2


def test_more_calls_than_may_wait_are_refused_at_once():
    gate = threading.Event()

    def slow(frames):
        gate.wait(5)
        return mean(frames)

    with Server(slow) as address, Client(address, 5) as client:
        calls = [
            client.channel.unary_unary(METHOD).future(pack(FRAME), timeout=5)
            for _ in range(2 * WAITING)
        ]
        until = time.monotonic() + 5
        while sum(one.done() for one in calls) < WAITING and time.monotonic() < until:
            time.sleep(0.01)
        refused = [one.code() for one in calls if one.done()]
        gate.set()
        assert refused == [grpc.StatusCode.RESOURCE_EXHAUSTED] * WAITING
        assert sum(one.exception() is None for one in calls) == WAITING


def test_nobody_there_is_counted_as_unavailable():
    with Server(mean) as address:
        pass
    with Client(address, 2) as client:
        assert client.score(FRAME) is None and client.counts == {"unavailable": 1}


def test_the_port_is_free_again_and_no_thread_is_left():
    before = threading.active_count()
    with Server(mean) as address, Client(address, 5) as client:
        client.score(FRAME)
    host, port = address.split(":")
    with (
        socket.socket() as again
    ):  # a listener may follow although the last connection still lingers
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind((host, int(port)))
    until = time.monotonic() + 5
    while threading.active_count() > before + 1 and time.monotonic() < until:
        time.sleep(0.05)
    assert threading.active_count() <= before + 1


def test_a_server_that_comes_back_is_asked_again():
    calls = []

    class Late:
        def score(self, frame):
            calls.append(1)
            return None if len(calls) == 1 else 0.5

    assert watch([FRAME] * 2, [True, False], Late(), pause_s=0) == [0.5, None]


def test_frames_without_an_answer_are_no_noughts():
    class Gone:
        def score(self, frame):
            return None

    made = watch([FRAME] * 3, [True, False, True], Gone(), pause_s=0)
    assert made[1] is None and math.isnan(made[0]) and math.isnan(made[2])


def test_scores_are_those_of_the_detector_itself():
    from plate_detector import detect

    frames = np.random.default_rng(1).integers(0, 256, (4, 20, 20), dtype=np.uint8)
    with Server(detect) as address, Client(address, 20) as client:
        made = watch(frames, [True] * 4, client)
    assert made == pytest.approx(detect(torch.from_numpy(frames)).tolist(), abs=1e-6)
