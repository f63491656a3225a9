"""The server over real sockets: what it says, whom it refuses, and who pays for whom: nobody.

One server of short limits serves most tests; its worker may be killed, since that is the point.
"""

import asyncio
import json
import os
import signal
import time

import pytest
import torch
import websockets
from quartznet import save_model

from .clients import load, speak
from .launch import Server, scrape, worker_pids
from .stream_state import transcribe
from .windows import StreamOptions

OPTIONS = {"idle_s": 0.6, "keep_s": 3, "ahead_ms": 400, "drain_s": 1.5, "max_streams": 12}
START = json.dumps({"type": "start"})


def sound(seconds, seed=0):
    generator = torch.Generator().manual_seed(seed)
    envelope = torch.rand(int(seconds * 10) + 1, generator=generator).repeat_interleave(1600)
    noise = torch.randn(int(seconds * 16_000), generator=generator)
    signal_N = 0.3 * noise * envelope[: len(noise)]
    return (signal_N * 32768).round().clamp(-32768, 32767) / 32768


@pytest.fixture(scope="module")
def model(loud_model):
    return loud_model


@pytest.fixture(scope="module")
def checkpoint(model, tmp_path_factory):
    return save_model(model, tmp_path_factory.mktemp("model") / "small.safetensors")


@pytest.fixture(scope="module")
def server(checkpoint):
    with Server(checkpoint=checkpoint, **OPTIONS) as server:
        yield server


def talk(server, *messages):
    """Messages sent at once; all answers, then the close code."""

    async def go():
        answers = []
        async with websockets.connect(f"ws://{server.address}/v1/stream") as socket:
            try:
                for message in messages:
                    await socket.send(message)
                async for answer in socket:
                    answers.append(json.loads(answer))
            except websockets.ConnectionClosed:
                pass
        return answers, socket.close_code

    return asyncio.run(asyncio.wait_for(go(), 20))


def test_streams_side_by_side_are_heard_as_if_alone(server, model):
    signals = [sound(seconds, seed) for seed, seconds in enumerate((1, 1.5, 2, 0.7, 1.3, 2))]
    heard = asyncio.run(load(server.address, signals))
    wanted = transcribe(model, signals, StreamOptions())
    assert [one.text for one in heard] == wanted and len(set(wanted)) == 6
    assert all(one.done == "end" and not one.notices for one in heard)


def test_every_chunk_is_answered_with_its_times(server):
    (heard,) = asyncio.run(load(server.address, [sound(1.2)]))
    assert len(heard.responses_ms) == 1200 // 60 and min(heard.batches) >= 1
    rest = [felt - said for felt, said in zip(heard.felt_ms, heard.responses_ms, strict=True)]
    assert rest == pytest.approx([240] * 17 + [180, 120, 60]) and min(heard.queue_ms) >= 0


@pytest.mark.parametrize(
    "messages, code",
    [
        (["nonsense"], "bad_start"),
        ([b"\0\0"], "bad_start"),
        ([json.dumps({"type": "start", "rate_hz": 8000})], "bad_start"),
        (["[1]"], "bad_start"),
        ([START, b"\0"], "bad_audio"),
        ([START, b""], "bad_audio"),
        ([START, b"\0" * 32_002], "bad_audio"),
        ([START, '{"type": "stop"}'], "bad_message"),
        ([json.dumps({"type": "start", "resume": "nobody"})], "unknown_stream"),
    ],
)
def test_garbage_is_refused_in_words(server, messages, code):
    answers, close = talk(server, *messages)
    assert answers[-1]["type"] == "error" and answers[-1]["code"] == code
    assert len(answers[-1]["message"]) > 20 and close == 1003


def test_a_message_of_a_megabyte_ends_the_connection(server):
    assert talk(server, START, b"\0" * 1_000_000)[1] == 1009


def test_a_client_that_stops_gets_its_text_after_a_while(server, model):
    async def go():
        async with websockets.connect(f"ws://{server.address}/v1/stream") as socket:
            await socket.send(START)
            pcm = (sound(0.5) * 32768).to(torch.int16).numpy().tobytes()
            for at in range(0, len(pcm), 1600):
                await socket.send(pcm[at : at + 1600])
            return [json.loads(answer) async for answer in socket]

    answers = asyncio.run(go())
    assert answers[-1] == {"type": "done", "samples": 8000, "reason": "idle"}
    final = " ".join(a["text"] for a in answers if a["type"] == "final")
    assert " ".join(final.split()) == transcribe(model, [sound(0.5)])[0]


def test_a_client_ten_times_too_fast_is_slowed_and_told_and_loses_nothing(server, model):
    signal_N = sound(2.5)
    began = time.monotonic()
    heard = asyncio.run(speak(server.address, signal_N, speed=10))
    assert time.monotonic() - began > 1.5, "2.5 s of sound, of which 0.4 may run ahead"
    assert [notice["type"] for notice in heard.notices] == ["throttled"]
    assert heard.text == transcribe(model, [signal_N])[0] and heard.done == "end"


def test_a_client_that_comes_back_loses_nothing(server, model):
    signal_N = sound(2.0, seed=7)

    async def go():
        first = await speak(server.address, signal_N, stop_after_s=0.9)
        await asyncio.sleep(0.2)
        return first, await speak(server.address, signal_N, resume=first.stream)

    first, second = asyncio.run(go())
    whole = " ".join([*first.finals, *second.finals])
    assert second.stream == first.stream and second.done == "end"
    assert " ".join(whole.split()) == transcribe(model, [signal_N])[0]


def test_a_killed_worker_costs_no_stream_a_letter(server, model):
    signals = [sound(2.5, seed) for seed in range(4)]
    before = scrape(server.address)["asr_worker_restarts"]

    async def go():
        speaking = asyncio.create_task(load(server.address, signals))
        await asyncio.sleep(1.5)
        os.kill(worker_of(server), signal.SIGKILL)
        return await speaking

    heard = asyncio.run(go())
    assert [one.text for one in heard] == transcribe(model, signals)
    assert not any(one.notices for one in heard)
    assert scrape(server.address)["asr_worker_restarts"] == before + 1


def worker_of(server):
    """The process id of the worker that answers: the oldest child of the server."""
    return asr_load.worker_pids(server)[0]


def test_metrics_are_read_by_prometheus_own_parser(server):
    before = scrape(server.address)
    asyncio.run(load(server.address, [sound(0.6)]))
    after = scrape(server.address)
    added = {key: after[key] - before.get(key, 0) for key in after}
    assert added["asr_request_success_total"] == added["asr_count_total"] == 10
    assert added["asr_queue_seconds_count"] == 10 and after["asr_streams"] == 0
    assert added["asr_batch_size_sum"] == 10
    assert added["asr_audio_seconds_total"] == pytest.approx(0.6)


def test_more_streams_than_allowed_are_refused(server):
    async def go():
        crowd = [asyncio.create_task(speak(server.address, sound(1.5))) for _ in range(12)]
        await asyncio.sleep(0.8)
        late = await speak(server.address, sound(0.1))
        await asyncio.gather(*crowd)
        return late

    assert asyncio.run(go()).notices[0]["code"] == "full"


def test_sigterm_drains(checkpoint, model):
    signals = [sound(1.5), sound(9.0, seed=1)]
    with Server(checkpoint=checkpoint, **OPTIONS | {"spares": 0}) as server:
        assert server.get("/health") == (200, "ready")

        async def go():
            speaking = asyncio.create_task(load(server.address, signals, spread_s=0))
            await asyncio.sleep(0.9)
            server.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.2)
            health = await asyncio.to_thread(server.get, "/health")
            return health, await speak(server.address, sound(0.1)), await speaking

        health, late, (short, long) = asyncio.run(go())
        assert health == (503, "draining") and late.notices[0]["code"] == "draining"
        assert short.done == "end" and short.text == transcribe(model, signals[:1])[0]
        assert long.done == "draining" and long.finals, "ended early, its text not lost"
        assert server.process.wait(10) == 0


def test_a_server_that_cannot_start_says_why():
    with pytest.raises(RuntimeError, match="no variant|allowed are|did not start"):
        Server(variant="int4").start().wait_ready()
