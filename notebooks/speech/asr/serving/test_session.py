"""Streams that outlive their connections; limits that hold; words and phrases for one alone."""

import asyncio
import contextlib
import functools
import json
import threading
import time
from dataclasses import replace

import pytest
import websockets
from ctc import PhraseBoost, PrefixBeam, WordNGram
from streaming import WorkerFailed, computed, transcribe

from .clients import as_pcm16, load, percentiles, returns, speak
from .launch import scrape
from .service import Service
from .session import Session, SessionLimits
from .test_server import LIMITS, PATIENCE_S, run, serving, sound, until


@contextlib.asynccontextmanager
async def dialled(address, **start):
    """(socket, hello) of a client that has said its first message."""
    url = f"ws://{address}/v1/stream"
    async with websockets.connect(url, ping_interval=None, close_timeout=0.5) as socket:
        await socket.send(json.dumps({"type": "start"} | start))
        yield socket, json.loads(await socket.recv())


async def told(socket, last="done"):
    """Messages until the one of type `last`."""
    found = []
    while not found or found[-1]["type"] != last:
        found.append(json.loads(await socket.recv()))
    return found


@pytest.fixture(scope="module")
def address(loud_model):
    with serving(loud_model) as (address, _):
        yield address


def test_a_client_whose_network_vanishes_displaces_its_dead_connection(address, loud_model):
    signal_N = sound(0.8, seed=3)
    verdict = run(returns(address, signal_N, 0.4, "deaf", away_s=0.1))
    assert verdict.told == "resumed, then end"
    assert verdict.text == transcribe(loud_model, [signal_N])[0]


def test_the_displaced_connection_is_told(address):
    async def go():
        async with contextlib.AsyncExitStack() as both:
            old, hello = await both.enter_async_context(dialled(address))
            again = dialled(address, resume=hello["stream"])
            new, again = await both.enter_async_context(again)
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await old.recv()
            await new.send(as_pcm16(sound(0.3)))
            messages = await told(new, last="partial")
        return closed.value.rcvd.code, again["stream"] == hello["stream"], messages

    code, same, messages = run(go())
    assert code == 4001 and same and messages[-1]["text"] is not None


def test_what_was_sent_into_a_dying_connection_comes_again_until_acknowledged(
    address, loud_model
):
    async def go():
        async with dialled(address) as (socket, hello):
            await socket.send(as_pcm16(sound(0.5)))
            await socket.send('{"type": "end"}')
            lost = await told(socket)
            socket.transport.abort()  # all has arrived, and nobody can know
        numbers = [one["n"] for one in lost]
        final, done = lost[-2:]
        async with dialled(address, resume=hello["stream"]) as (socket, _):
            again = await told(socket)
        async with dialled(address, resume=hello["stream"], ack=final["n"]) as (socket, _):
            rest = await told(socket)
            await socket.send(json.dumps({"type": "ack", "n": done["n"]}))
            await socket.wait_closed()
        async with dialled(address, resume=hello["stream"]) as (_, refusal):
            return numbers, lost, again, rest, socket.close_code, refusal

    numbers, lost, again, rest, close, refusal = run(go())
    assert numbers == list(range(1, len(numbers) + 1))
    assert [one for one in again if one["type"] != "partial"] == lost[-2:]
    assert lost[-2]["text"] and len(again) <= 3, "of partial texts the last one is enough"
    assert rest == lost[-1:] and close == 1000 and refusal["code"] == "unknown_stream"


def test_a_client_that_stays_away_too_long_is_forgotten(loud_model):
    async def go(address):
        first = await speak(address, sound(1.0), stop_after_s=0.2)
        await until(lambda: scrape(address)["asr_streams"] == 0, "the loss was not noticed")
        await asyncio.sleep(0.2)
        return await speak(address, sound(1.0), resume=first)

    with serving(loud_model, SessionLimits(keep_s=0.1)) as (address, _):
        assert run(go(address)).notices[0]["code"] == "unknown_stream"


def test_a_client_that_left_is_forgotten_in_time_though_nobody_new_comes(loud_model):
    async def go(address, service):
        await speak(address, sound(1.0), stop_after_s=0.2)
        (session,) = service.sessions.values()
        await until(lambda: session.left_at is not None, "the loss was not noticed")
        await until(lambda: not service.sessions, "the stream is kept for ever")
        return time.monotonic() - session.left_at

    with serving(loud_model, SessionLimits(keep_s=0.3)) as (address, service):
        assert 0.3 <= run(go(address, service)) < 5, "not before its time, and soon after"


def test_streams_left_behind_are_bounded(loud_model):
    async def go(address):
        for _ in range(2):
            await speak(address, sound(1.0), stop_after_s=0.1)
            await until(lambda: scrape(address)["asr_streams"] == 0, "the loss was not noticed")
        return await speak(address, sound(0.1))

    with serving(loud_model, max_streams=1) as (address, _):
        assert run(go(address)).notices[0]["code"] == "full"


def test_a_client_that_never_starts_is_cut_off(loud_model):
    async def go(address):
        async with websockets.connect(f"ws://{address}/v1/stream") as socket:
            return json.loads(await socket.recv())

    with serving(loud_model, SessionLimits(idle_s=0.2)) as (address, _):
        began = time.monotonic()
        assert run(go(address))["code"] == "bad_start"
        took = time.monotonic() - began
    assert took < SessionLimits.idle_s, "by its own limit, not by the usual one"


class Deaf:
    """A socket that takes no word."""

    async def recv(self):
        await asyncio.sleep(60)

    async def send(self, text):
        await asyncio.sleep(60)


def test_a_client_that_does_not_read_is_cut_off():
    session_of = SessionLimits(send_s=0.1)

    async def go():
        await Session(Service(None, limits=session_of), None).attach(Deaf())

    began = time.monotonic()
    with pytest.raises(TimeoutError):
        run(go())
    assert time.monotonic() - began < PATIENCE_S / 2, "by its own limit, not by this test's"


def test_a_client_that_never_acknowledges_keeps_the_newest_messages_alone():
    async def go():
        session = Session(Service(None, limits=SessionLimits(journal=20)), None)
        for n in range(100):
            session._tell({"type": "final", "text": str(n)})
        return session.journal

    journal = run(go())
    assert [one["n"] for one in journal] == list(range(81, 101))


def test_who_does_not_acknowledge_the_end_is_not_waited_for(loud_model):
    async def go(address):
        async with dialled(address) as (socket, _):
            began = time.monotonic()
            await socket.send('{"type": "end"}')
            await told(socket)
            await socket.wait_closed()
            return time.monotonic() - began, socket.close_code

    with serving(loud_model, SessionLimits(send_s=0.4)) as (address, _):
        waited_s, close = run(go(address))
    assert 0.4 <= waited_s < PATIENCE_S / 2 and close == 1000


def test_sound_that_a_slow_server_cannot_take_stays_with_the_client(loud_model):
    async def go(address, service):
        async with dialled(address) as (socket, _):
            for _ in range(20):
                await socket.send(as_pcm16(sound(0.1)))
            (state,) = (session.state for session in service.sessions.values())
            await until(lambda: state.backlog_ms > 300 + 240, "too little sound was read")
            await asyncio.sleep(0.2)  # whoever reads too much would read on
            return state.backlog_ms

    stuck = threading.Event()
    slow = LIMITS, lambda *batch: stuck.wait(PATIENCE_S) and computed(loud_model, *batch)
    with serving(loud_model, replace(slow[0], backlog_ms=300), slow[1]) as (address, service):
        try:
            left_ms = run(go(address, service))
        finally:
            stuck.set()
    assert left_ms <= 300 + 240 + 100, "the limit, the delay, and the last message"


def test_windows_that_fail_count_in_the_percentiles(loud_model):
    calls = []

    def failing(*batch):
        calls.append(1)
        if len(calls) % 5 == 0:
            raise WorkerFailed("a fifth is lost")
        return computed(loud_model, *batch)

    with serving(loud_model, infer=failing, max_batch=1) as (address, _):
        heard = run(load(address, [sound(0.6)], spread_s=0))
        series = scrape(address)
    late = [one for one in heard[0].notices if one["type"] == "late"]
    assert len(late) == 2 and len(heard[0].felt_ms) == 10
    assert percentiles(heard)[0] < percentiles(heard)[1] == float("inf")
    assert series["asr_response_seconds_count"] == 10


def test_who_has_no_end_in_time_counts_as_never_answered(address):
    (heard,) = run(load(address, [sound(2.0 * PATIENCE_S)], spread_s=0, limit_s=0.3))
    assert heard.felt_ms == [float("inf")] * 2000
    (heard,) = run(load("127.0.0.1:9", [sound(0.6)], spread_s=0))
    assert heard.felt_ms == [float("inf")] * 10, "nobody listens there"


def test_a_refused_client_was_never_answered(address):
    heard = run(speak(address, sound(0.6), rate_hz=8000))
    assert heard.responses_ms == [float("inf")] * 10


@pytest.fixture(scope="module")
def beams(loud_model):
    words = WordNGram(["zero one two", "two one zero", "nine"], order=2)
    with serving(loud_model, width=4, words=words) as (address, _):
        yield address, words


def test_phrases_are_one_streams_alone(address, loud_model):
    signal_N, phrases = sound(1.5, seed=4), {"ab": 3.0, "e": -2.0}

    async def go():
        both = (
            speak(address, signal_N, speed=8, **more) for more in ({}, {"phrases": phrases})
        )
        return await asyncio.gather(*both)

    plain, boosted = run(go())
    boosted_beam = PrefixBeam, 16, None, PhraseBoost(phrases)
    wanted = transcribe(loud_model, [signal_N], decoder=functools.partial(*boosted_beam))
    assert boosted.text == wanted[0] != plain.text
    assert plain.text == transcribe(loud_model, [signal_N])[0]


def test_beam_and_word_model_work_behind_the_socket(beams, loud_model):
    address, words = beams
    signal_N = sound(1.0, seed=2)
    wanted = transcribe(loud_model, [signal_N], decoder=lambda: PrefixBeam(4, words))
    assert run(speak(address, signal_N, speed=8)).text == wanted[0]
    assert wanted != transcribe(loud_model, [signal_N], decoder=lambda: PrefixBeam(4))
