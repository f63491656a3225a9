"""The server over real sockets: what it says, whom it refuses, and who pays for whom: nobody.

Most tests share a front in a thread of this process, with the network in it; the last two
start the real thing, processes and all.
"""

import asyncio
import contextlib
import json
import logging
import os
import signal
import threading
import time
import urllib.error
import urllib.request

import pytest
import torch
import websockets
from quartznet import save_model
from streaming import StreamOptions, computed, transcribe

from . import server
from .clients import as_pcm16, load, speak
from .launch import Server, scrape, worker_pids
from .server import listening, parse
from .service import Service
from .session import SessionLimits

START, PATIENCE_S = json.dumps({"type": "start"}), 60
# sound may come as fast as it likes, and as slowly as a busy machine lets it
LIMITS = SessionLimits(ahead_ms=60_000, idle_s=PATIENCE_S, send_s=PATIENCE_S, keep_s=PATIENCE_S)


def sound(seconds, seed=0):
    generator = torch.Generator().manual_seed(seed)
    envelope = torch.rand(int(seconds * 10) + 1, generator=generator).repeat_interleave(1600)
    noise = torch.randn(int(seconds * 16_000), generator=generator)
    signal_N = 0.3 * noise * envelope[: len(noise)]
    return (signal_N * 32768).round().clamp(-32768, 32767) / 32768


class Tracebacks(logging.Handler):
    """Keeps what a server logs with a traceback: nothing, whatever clients do."""

    def __init__(self):
        super().__init__()
        self.found = []

    def emit(self, record):
        self.found += [self.format(record)] * bool(record.exc_info)


@contextlib.contextmanager
def serving(model, limits=LIMITS, infer=None, tls=(), **more):
    """(address, service) of a front in a thread, its network in the batcher's threads."""
    options = {"pad_to": StreamOptions().window_frames, "deadline_ms": 1e3 * PATIENCE_S}
    infer = infer or (lambda *batch: computed(model, *batch))
    service, kept = Service(infer, None, limits, **options | more), Tracebacks()
    started, log, box = threading.Event(), logging.getLogger("websockets.server"), []
    listener = listening("127.0.0.1", 0)

    async def go():
        box.extend((asyncio.get_running_loop(), asyncio.Event()))
        async with server.serving(service, [listener], *tls):
            started.set()
            await box[1].wait()

    log.addHandler(kept)
    thread = threading.Thread(target=asyncio.run, args=(go(),), daemon=True)
    thread.start()
    started.wait(PATIENCE_S)
    yield f"127.0.0.1:{listener.getsockname()[1]}", service
    box[0].call_soon_threadsafe(box[1].set)
    thread.join(PATIENCE_S)
    log.removeHandler(kept)
    assert not kept.found


@pytest.fixture(scope="module", autouse=True)
def begun(loud_model, tmp_path_factory):
    """The last tests' server, processes and all; it starts while the first ones listen."""
    checkpoint = save_model(loud_model, tmp_path_factory.mktemp("model") / "small.safetensors")
    options = {"checkpoint": checkpoint, "max_batch": 4, "ahead_ms": 60_000, "drain_s": 0.5}
    begun = Server(**options, deadline_ms=3000, spares=2).start()
    yield begun
    begun.__exit__()


@pytest.fixture(scope="module")
def address(loud_model):
    with serving(loud_model) as (address, _):
        yield address


def run(work):
    return asyncio.run(asyncio.wait_for(work, PATIENCE_S))


async def until(asked, why):
    """Once `asked()` holds, however long that takes a busy machine; fails after a minute."""
    ends = time.monotonic() + PATIENCE_S
    while not await asyncio.to_thread(asked):
        assert time.monotonic() < ends, why
        await asyncio.sleep(0.02)


def talk(address, *messages, until=None):
    """Messages sent at once; all answers, or those to the first of a type; the close code."""

    async def go():
        answers = []
        async with websockets.connect(f"ws://{address}/v1/stream") as socket:
            with contextlib.suppress(websockets.ConnectionClosed):
                for message in messages:
                    await socket.send(message)
                async for answer in socket:
                    answers.append(json.loads(answer))
                    if answers[-1]["type"] == until:
                        break
                    if answers[-1]["type"] == "done":
                        await socket.send(json.dumps({"type": "ack", "n": answers[-1]["n"]}))
        return answers, socket.close_code

    return run(go())


def test_streams_side_by_side_are_heard_as_if_alone(address, loud_model):
    signals = [sound(seconds, seed) for seed, seconds in enumerate((1, 1.5, 2, 0.7, 1.3, 2))]

    async def go():
        return await asyncio.gather(
            *(speak(address, signal_N, speed=8) for signal_N in signals)
        )

    heard, wanted = run(go()), transcribe(loud_model, signals)
    assert [one.text for one in heard] == wanted and len(set(wanted)) == 6
    assert all(one.done == "end" and not one.notices for one in heard)


def test_every_chunk_is_answered_with_its_times(address):
    (heard,) = run(load(address, [sound(0.6)], spread_s=0))
    assert len(heard.responses_ms) == 600 // 60 and min(heard.batches) >= 1
    rest = [felt - said for felt, said in zip(heard.felt_ms, heard.responses_ms, strict=True)]
    assert rest == pytest.approx([240] * 7 + [180, 120, 60]) and min(heard.queue_ms) >= 0
    assert max(heard.batches[-3:]) > 1, "the last ones go together"


def test_a_window_is_answered_as_soon_as_it_is_whole(address):
    pcm = as_pcm16(sound(0.25))  # enough for one window, not for two; the stream is not ended
    answers, _ = talk(address, START, pcm, until="partial")
    assert answers[-1]["type"] == "partial" and answers[-1]["heard_ms"] == 240


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
        (["{}"], "bad_start"),
        (['{"type": "start", "resume": [1]}'], "bad_start"),
        (["[" * 20_000], "bad_start"),
        (['{"type": "start", "phrases": {"%": 1}}'], "bad_start"),
        (['{"type": "start", "phrases": {"nine": 1e9}}'], "bad_start"),
        ([START, '{"type": "stop"}'], "bad_message"),
        ([START, "{}"], "bad_message"),
        ([START, '{"type":' * 2_000], "bad_message"),
        ([START, '{"type": "ack", "n": 99}'], "bad_ack"),
        ([json.dumps({"type": "start", "resume": "nobody"})], "unknown_stream"),
    ],
)
def test_garbage_is_refused_in_words_and_counted(address, messages, code):
    series = f"asr_streams_refused_total{{reason={code}}}"
    before = scrape(address).get(series, 0)
    answers, close = talk(address, *messages)
    assert answers[-1]["type"] == "error" and answers[-1]["code"] == code
    assert len(answers[-1]["message"]) > 20 and close == 1003
    assert scrape(address)[series] == before + 1


FRAMES = {  # what no client may send, masked by zeros where it is, and how it is closed
    "no mask": (b"\x81\x02hi", 1002),
    "reserved bit": (b"\xc1\x80" + bytes(4), 1002),
    "unknown opcode": (b"\x83\x80" + bytes(4), 1002),
    "long control frame": (b"\x89\xfe\x00\x7e" + bytes(4 + 126), 1002),
    "text that is none": (b"\x81\x81" + bytes(4) + b"\xff", 1007),
    "endless": (b"\x82\xff" + (2**62).to_bytes(8, "big") + bytes(4), 1009),
}


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("frame, close", FRAMES.values(), ids=FRAMES)
def test_a_frame_that_nobody_may_send_is_counted_and_ends_the_connection(
    address, frame, close, started
):
    series, hello = "asr_streams_refused_total{reason=bad_frame}", "GET /v1/stream HTTP/1.1\r\n"
    hello += f"Host: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    hello += f"Sec-WebSocket-Key: {'A' * 22}==\r\nSec-WebSocket-Version: 13\r\n\r\n"

    async def go():
        reader, writer = await asyncio.open_connection(*address.split(":"))
        writer.write(hello.encode())
        await reader.readuntil(b"\r\n\r\n")
        if started:
            writer.write(bytes([0x81, 0x80 + len(START)]) + bytes(4) + START.encode())
            await reader.readuntil(b"}")
        writer.write(frame)
        answer = await reader.read()  # to its end: who was closed has no more to say
        writer.close()
        await until(lambda: scrape(address).get(series) == before + 1, "it was not counted")
        return int.from_bytes(answer[answer.rindex(b"\x88") + 2 :][:2], "big")

    before = scrape(address).get(series, 0)
    assert run(go()) == close


def test_a_client_that_leaves_before_its_first_message_is_no_garbage(address):
    async def go(code):
        async with websockets.connect(f"ws://{address}/v1/stream") as socket:
            await socket.close(code)

    before = scrape(address)
    run(go(1000)), run(go(1002))  # the second says that we sent it a frame that it cannot read
    run(speak(address, sound(0.1)))
    for name, count in scrape(address).items():
        if name.startswith("asr_streams_refused_total"):
            assert count == before.get(name, 0), name


def test_a_client_that_stops_gets_its_text_after_a_while(loud_model):
    with serving(loud_model, SessionLimits(ahead_ms=60_000, idle_s=0.6)) as (address, _):
        began = time.monotonic()
        answers, _ = talk(address, START, as_pcm16(sound(0.5)))
        took = time.monotonic() - began
    assert took < SessionLimits.idle_s, "by its own limit, not by the usual one"
    assert answers[-1].items() >= {"type": "done", "samples": 8000, "reason": "idle"}.items()
    final = " ".join(a["text"] for a in answers if a["type"] == "final")
    assert " ".join(final.split()) == transcribe(loud_model, [sound(0.5)])[0]


def test_a_client_ten_times_too_fast_is_slowed_and_told_and_loses_nothing(loud_model):
    signal_N = sound(0.9)
    with serving(loud_model, SessionLimits(ahead_ms=200)) as (address, _):
        began = time.monotonic()
        heard = run(speak(address, signal_N, speed=10))
    assert time.monotonic() - began > 0.65, "0.9 s of sound, of which 0.2 may run ahead"
    assert [notice["type"] for notice in heard.notices] == ["throttled"]
    assert heard.text == transcribe(loud_model, [signal_N])[0] and heard.done == "end"


def test_a_client_that_comes_back_loses_nothing(address, loud_model):
    signal_N = sound(2.0, seed=7)

    async def go():
        first = await speak(address, signal_N, speed=8, stop_after_s=0.9)
        await until(lambda: scrape(address)["asr_streams"] == 0, "the loss was not noticed")
        return first, await speak(address, signal_N, speed=8, resume=first)

    first, second = run(go())
    whole = " ".join([*first.finals, *second.finals])
    assert second.stream == first.stream and second.done == "end"
    assert " ".join(whole.split()) == transcribe(loud_model, [signal_N])[0]


def test_metrics_are_read_by_prometheus_own_parser(loud_model):
    with serving(loud_model) as (address, _):
        run(speak(address, sound(0.6), speed=4))
        series = scrape(address)
    assert series["asr_request_success_total"] == series["asr_count_total"] == 10
    assert series["asr_queue_duration_us_total"] > 0 and series["asr_streams"] == 0
    assert series["asr_batch_size_sum"] == series["asr_response_seconds_count"] == 10
    assert 0 < series["asr_response_seconds_sum"] < 10
    assert series["asr_audio_seconds_total"] == pytest.approx(0.6)


def test_more_streams_than_allowed_are_refused(loud_model):
    async def go(address):
        async with contextlib.AsyncExitStack() as crowd:
            for _ in range(3):
                url = f"ws://{address}/v1/stream"
                held = await crowd.enter_async_context(websockets.connect(url))
                await held.send(START)
                assert json.loads(await held.recv())["type"] == "ready"
            return await speak(address, sound(0.1))

    with serving(loud_model, SessionLimits(), max_streams=3) as (address, _):
        assert run(go(address)).notices[0]["code"] == "full"


def test_while_it_drains_a_stream_under_way_ends_in_its_own_time(loud_model):
    async def go(address, service):
        async with websockets.connect(f"ws://{address}/v1/stream") as socket:
            await socket.send(START)
            assert json.loads(await socket.recv())["type"] == "ready"
            draining = asyncio.create_task(service.drain(PATIENCE_S))
            late = await speak(address, sound(0.1))
            with pytest.raises(urllib.error.HTTPError, match="503") as health:
                await asyncio.to_thread(urllib.request.urlopen, f"http://{address}/health")
            assert health.value.read() == b"draining"
            await socket.send(as_pcm16(sound(0.5)))
            await socket.send(json.dumps({"type": "end"}))
            told = [json.loads(await socket.recv())]
            while told[-1]["type"] != "done":
                told.append(json.loads(await socket.recv()))
            await socket.send(json.dumps({"type": "ack", "n": told[-1]["n"]}))
        await draining
        return late, told

    with serving(loud_model) as (address, service):
        late, told = run(go(address, service))
    assert late.notices[0]["code"] == "draining" and told[-1]["reason"] == "end"
    final = " ".join(" ".join(one["text"] for one in told if one["type"] == "final").split())
    assert final == transcribe(loud_model, [sound(0.5)])[0]


@pytest.mark.parametrize("wrong", ["--variant=int4", "--max-batch=many"])
def test_options_that_cannot_be_are_refused(wrong):
    with pytest.raises(SystemExit):
        parse([wrong])


def test_a_server_that_cannot_start_says_why():
    with pytest.raises(RuntimeError, match="did not start.*No module named"):
        Server("no_such_server").start().wait_ready()


@pytest.fixture(scope="module")
def processes(begun):
    return begun.wait_ready()


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGSTOP])
def test_a_killed_or_stopped_worker_costs_no_stream_a_letter(processes, loud_model, by):
    signals = [sound(1.2, seed) for seed in range(4)]
    address = processes.address
    run(until(lambda: scrape(address)["asr_workers_ready"] >= 2, "no spare is ready"))
    before = scrape(processes.address)

    def answered():
        now = scrape(processes.address)
        return now["asr_count_total"] > before["asr_count_total"] + 8

    async def go():
        speaking = asyncio.create_task(load(processes.address, signals, spread_s=0.2))
        await until(answered, "no window was answered")
        os.kill(worker_pids(processes)[0], by)
        return await speaking

    heard = run(go())
    assert [one.text for one in heard] == transcribe(loud_model, signals)
    assert not any(one.notices for one in heard)
    assert scrape(processes.address)["asr_worker_restarts"] == before["asr_worker_restarts"] + 1


@pytest.mark.slow
def test_fronts_share_a_port_and_a_stream_resumes_where_it_began(loud_model, tmp_path):
    checkpoint = save_model(loud_model, tmp_path / "small.safetensors")
    options = {"checkpoint": checkpoint, "spares": 0, "ahead_ms": 60_000}
    signals = [sound(0.6, seed) for seed in range(12)]
    wanted = transcribe(loud_model, signals)
    with contextlib.ExitStack() as stack:
        front = stack.enter_context(Server("serving.server", "--shared", **options))
        more = Server("serving.server", "--shared", **options, port=front.ports["port"])
        fronts = [front, stack.enter_context(more)]
        assert [one.text for one in run(load(front.address, signals, spread_s=0.5))] == wanted
        for one in fronts:
            assert scrape(f"127.0.0.1:{one.ports['own']}")["asr_audio_seconds_total"] > 0
        first = run(speak(front.address, signals[0], stop_after_s=0.3))
        second = run(speak(f"127.0.0.1:{first.port}", signals[0], resume=first))
        assert second.stream == first.stream and second.done == "end"
        assert front.terminate() == 0
        assert [one.text for one in run(load(more.address, signals, spread_s=0.5))] == wanted


def test_sigterm_drains_and_ends_the_process(processes):
    assert processes.get("/health") == (200, "ready")

    async def go():
        speaking = asyncio.create_task(speak(processes.address, sound(30.0, seed=1)))
        await until(lambda: scrape(processes.address)["asr_streams"] == 1, "no stream came")
        processes.process.send_signal(signal.SIGTERM)
        return await speaking

    long = run(go())
    assert long.done == "draining" and long.finals, "ended early, its text not lost"
    assert processes.process.wait(PATIENCE_S) == 0
