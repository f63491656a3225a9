"""Many clients that speak in real time, and what each of them waited.

Packet i of a stream is due at t0 + i P, whether answers came or not: an open loop, since a
client that waits for answers would stop asking just when the server is slow. For an answer that
needed the sound up to h ms, received at r:

    response = r - (t0 + time at which the packet with h was due)
    felt     = chunk + (h - end of the chunk) + response    worst case: the chunk's first sound

The bracket is the right context, or what was left of it at the end of the stream. The due time
counts, not the time of sending, so that a late generator flatters nobody.
"""

import asyncio
import contextlib
import json
import math
import time
from dataclasses import dataclass, field

import numpy as np
import websockets
from streaming import StreamOptions

from .protocol import RATE_HZ

__all__ = ["Heard", "as_pcm16", "load", "percentiles", "speak"]

GOLDEN = 0.618034
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
    hears no more, so that nobody tells the server of its end ("deaf"). What else is given goes
    into the first message, such as `phrases={"nine": 1.0}`. `address` is host:port, or begins
    with wss:// for TLS, with a certificate that the environment's SSL_CERT_FILE knows.
    """
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
                piece = as_pcm16(signal_N[at : at + packet])
                await _send_due(socket, piece, heard, began + (at + packet) / RATE_HZ / speed)
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


async def _send_due(socket, piece, heard, due):
    """Sends a packet when the last of it has been spoken, and notes how late."""
    await asyncio.sleep(max(0.0, due - time.perf_counter()))
    heard.late_sends_ms.append(max(0.0, (time.perf_counter() - due) * 1e3))
    await socket.send(piece)


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

    signals: a list of (N,) tensors, one for each client. Starts are spread over `spread_s` by
    steps of the golden ratio, since real callers do not speak in step, and chunks should not
    either. Who has no end after `limit_s`, or was cut off, counts as never answered.
    """
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
    """Percentiles 50, 95 and 99 of a list of every client's, pooled: the least values that so
    many percent do not exceed; infinite where too many chunks were never answered."""
    values = [value for heard in all_heard for value in getattr(heard, what)]
    return tuple(np.percentile(values, (50, 95, 99), method="inverted_cdf").tolist())
