"""Many clients that speak in real time, and what each waited; some misbehave, on purpose.

Packet i of a stream is due at t0 + i P, whether answers came or not: an open loop, since a
client that waits for answers would stop asking just when the server is slow. For an answer that
needed the sound up to h ms, received at r:

    response = r - (t0 + time at which the packet with h was due, however late it was sent)
    felt     = chunk + (h - end of the chunk) + response    worst case: the chunk's first sound

The bracket is the right context, or what was left of it at the stream's end. When things break
at once, beside good clients, nothing else may be lost:

    stops      falls silent in the middle of a word and never hangs up
    garbage    sends half a sample
    hasty      sends ten times as fast as speech
    returns    loses its connection and dials again; or its network dies unheard, and it dials
               again while its old connection seems open
    worker     is killed under load, or stopped (SIGSTOP): then it hangs"""

import asyncio
import contextlib
import json
import math
import os
import signal
import time
from collections import namedtuple
from dataclasses import dataclass, field

import numpy as np
import websockets
from streaming import StreamOptions

from .launch import worker_pids
from .protocol import RATE_HZ

GOLDEN = 0.618034
Verdict = namedtuple("Verdict", "kind told text")  # of a client: what it was told, and heard
GONE = asyncio.CancelledError, OSError, websockets.WebSocketException


@dataclass
class Heard:
    """What one client got: texts, and for each chunk of its sound the times in ms, infinite
    where no answer came."""

    finals: list = field(default_factory=list)
    responses_ms: list = field(default_factory=list)
    felt_ms: list = field(default_factory=list)
    queue_ms: list = field(default_factory=list)
    compute_ms: list = field(default_factory=list)
    batches: list = field(default_factory=list)
    late_sends_ms: list = field(default_factory=list)  # the generator's own lateness
    notices: list = field(default_factory=list)  # throttled, late, error
    socket: object = None
    stream: str = ""
    port: int = 0  # where the process listens that holds the stream
    acked: int = 0  # the number of the last message that was acknowledged
    done: str = ""  # why the server ended the stream; "" if it did not

    @property
    def text(self):
        return " ".join(" ".join(self.finals).split())


async def speak(address, signal_N, packet_ms=20, speed=1.0, start_at=None, resume=None, **more):
    """What one client Heard, who says signal_N (N,) in real time, `speed` times as fast.
    `start_at`: time.perf_counter() of the first packet. `resume`: what the client Heard whose
    stream goes on, from the sample that the server names. `stop_after_s`: no sound from then
    on, and no end; `then` the connection breaks ("cut"), or stays ("silent"), or stays and
    hears no more ("deaf"), so that nobody tells the server. What else is given goes into the
    first message, such as `phrases={"nine": 1.0}`. `address` is host:port, or begins with
    wss:// for TLS."""
    heard, packet = Heard(), RATE_HZ * packet_ms // 1000
    stop_after_s, then = more.pop("stop_after_s", None), more.pop("then", "cut")
    if resume is not None:
        more |= {"resume": resume.stream, "ack": resume.acked}
    url = address if "://" in address else f"ws://{address}"
    await asyncio.sleep((start_at or 0) - 0.15 - time.perf_counter())  # dials, then speaks
    how = {"ping_interval": None, "max_queue": 256, "close_timeout": 1}
    heard.socket = socket = await websockets.connect(f"{url}/v1/stream", **how)
    with contextlib.ExitStack() as stack:
        stack.callback(socket.transport.abort)
        await socket.send(json.dumps({"type": "start"} | more))
        hello = json.loads(await socket.recv())
        if hello["type"] != "ready":
            heard.notices.append(hello)
            return _counted(heard, len(signal_N), StreamOptions.chunk_ms)
        heard.stream, heard.port, first = hello["stream"], hello["port"], hello["samples"]
        began = (start_at or time.perf_counter()) - first / RATE_HZ / speed
        reader = asyncio.create_task(_listen(socket, heard, hello, (began, packet_ms, speed)))
        stack.callback(reader.cancel)
        until = len(signal_N) if stop_after_s is None else first + int(RATE_HZ * stop_after_s)
        with contextlib.suppress(websockets.ConnectionClosed):
            for at in range(first, min(until, len(signal_N)), packet):
                due = began + (at + packet) / RATE_HZ / speed  # once the last of it was spoken
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                heard.late_sends_ms.append(max(0.0, (time.perf_counter() - due) * 1e3))
                await socket.send(as_pcm16(signal_N[at : at + packet]))
            if stop_after_s is None:
                await socket.send(json.dumps({"type": "end"}))
        if stop_after_s is not None and then == "deaf":
            socket.transport.pause_reading()
            reader.cancel()
            stack.pop_all()
        if stop_after_s is None or then == "silent":
            await asyncio.gather(reader, return_exceptions=True)
    whole = stop_after_s is None and resume is None
    return _counted(heard, len(signal_N), hello["chunk_ms"]) if whole else heard


def as_pcm16(signal_N):
    """The bytes of a signal (N,) in [-1, 1): 16-bit little-endian samples."""
    return (signal_N.clamp(-1, 32767 / 32768) * 32768).numpy().astype("<i2").tobytes()


def _counted(heard, samples, chunk_ms):
    """The same, with a time that never ends for each chunk that no answer came to: who counts
    answers alone flatters a server that fails."""
    chunks = -(-(samples * 1000 // RATE_HZ) // chunk_ms)
    for times in (heard.responses_ms, heard.felt_ms):
        times += [math.inf] * (chunks - len(times))
    return heard


async def _listen(socket, heard, hello, clock):
    """Reads answers until the server closes, and acknowledges those that may not be lost."""
    began, packet_ms, speed = clock
    async for message in socket:
        now, told = time.perf_counter(), json.loads(message)
        if told["type"] == "partial" and "batch" in told:
            packets = -(-told["heard_ms"] // packet_ms)
            response_ms = (now - began - packets * packet_ms / 1e3 / speed) * 1e3
            heard.responses_ms.append(response_ms)
            waited_ms = told["heard_ms"] - told["to_ms"] + hello["chunk_ms"]
            heard.felt_ms.append(waited_ms + response_ms)
            heard.queue_ms.append(told["queue_ms"])
            heard.compute_ms.append(told["compute_ms"])
            heard.batches.append(told["batch"])
        elif told["type"] == "done":
            heard.done = told["reason"]
        elif told["type"] == "final":
            heard.finals.append(told["text"])
        elif told["type"] != "partial":
            heard.notices.append(told)
        if "n" in told and told["type"] != "partial":
            heard.acked = told["n"]
            await socket.send(json.dumps({"type": "ack", "n": heard.acked}))


async def load(address, signals, packet_ms=20, spread_s=1.0, limit_s=math.inf):
    """What each client Heard, all speaking at once: `await load(server.address, signals)`.
    Starts are spread over `spread_s` by steps of the golden ratio, since real callers do not
    speak in step. Who has no end after `limit_s`, or was cut off, counts as never answered."""
    start = time.perf_counter() + 0.2 + 0.004 * len(signals)
    starts = (start + spread_s * (n * GOLDEN % 1) for n in range(len(signals)))
    pairs = zip(signals, starts, strict=True)
    tasks = [asyncio.create_task(speak(address, s, packet_ms, start_at=at)) for s, at in pairs]
    await asyncio.wait(tasks, timeout=None if limit_s == math.inf else limit_s)
    for task in tasks:
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    for n, end in enumerate(ends):
        if isinstance(end, GONE):
            ends[n] = _counted(Heard(), len(signals[n]), StreamOptions.chunk_ms)
        elif isinstance(end, BaseException):
            raise end
    return ends


def percentiles(all_heard, what="responses_ms"):
    """Percentiles 50, 95 and 99 of every client's, pooled: the least values that so many
    percent do not exceed; infinite where too many chunks were never answered."""
    values = [value for heard in all_heard for value in getattr(heard, what)]
    return tuple(np.percentile(values, (50, 95, 99), method="inverted_cdf").tolist())


async def stops(address, signal_N, after_s):
    """The Verdict on a client that speaks for `after_s` seconds and then falls silent."""
    heard = await speak(address, signal_N, stop_after_s=after_s, then="silent")
    return Verdict("stops mid-word", f"stream ended: {heard.done}", heard.text)


async def garbage(address):
    """The Verdict on a client that sends half a sample."""
    async with websockets.connect(f"ws://{address}/v1/stream", ping_interval=None) as socket:
        await socket.send(json.dumps({"type": "start"}))
        await socket.send(b"\x01\x02\x03")
        told = {}
        with contextlib.suppress(websockets.ConnectionClosed):
            while told.get("type") != "error":
                told = json.loads(await socket.recv())
    return Verdict("sends garbage", f"{told.get('code')}, closed {socket.close_code}", "")


async def hasty(address, signal_N, speed=10.0):
    """The Verdict on a client that sends `speed` times as fast as speech."""
    heard = await speak(address, signal_N, speed=speed)
    told = ", ".join(notice["type"] for notice in heard.notices) or "nothing"
    return Verdict(f"sends {speed:g}× too fast", f"{told}, then {heard.done}", heard.text)


async def returns(address, signal_N, after_s, then="cut", away_s=0.3):
    """The Verdict on a client whose connection breaks, and who resumes: its kernel says so
    (`cut`), or its network dies unheard and the old connection stays open (`deaf`)."""
    first = await speak(address, signal_N, stop_after_s=after_s, then=then)
    await asyncio.sleep(away_s)
    second = await speak(address, signal_N, resume=first)
    first.socket.transport.abort()
    same = "resumed" if second.stream == first.stream else f"refused: {second.notices}"
    text = " ".join(" ".join([*first.finals, *second.finals]).split())
    kind = "its network vanishes" if then == "deaf" else "loses its connection"
    return Verdict(kind, f"{same}, then {second.done}", text)


async def end_worker(server, after_s, by=signal.SIGKILL):
    """The process id of the worker that answered, killed without warning, or stopped."""
    await asyncio.sleep(after_s)
    pid = worker_pids(server)[0]
    os.kill(pid, by)
    return pid


async def break_everything(server, good, odd, at_s=1.5):
    """([Heard of the good clients], [Verdicts], pid killed): all at once, on one server. `odd`:
    signals of the client that stops, the hasty one and the two that come back. The worker dies
    after `at_s` seconds."""
    address = server.address
    clients = stops(address, odd[0], at_s), garbage(address), hasty(address, odd[1])
    clients += returns(address, odd[2], at_s), returns(address, odd[3], at_s, "deaf")
    everybody = load(address, good), *clients, end_worker(server, at_s)
    heard, *verdicts, pid = await asyncio.gather(*everybody)
    return heard, verdicts, pid
