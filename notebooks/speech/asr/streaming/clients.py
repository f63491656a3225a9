"""Many clients that speak in real time, and what each of them waited.

Article: "Solving Automatic Speech Recognition Deployment Challenges" (NVIDIA Technical Blog),
whose clients send chunk i at its real time and take the time until its answer. Packet i of a
stream is due at t0 + i P, whether answers came or not (an open loop: a client that waits for
answers would stop asking just when the server is slow, and hide the queue). For an answer that
needed the sound up to h ms, received at r:

    response = r - (t0 + time at which the packet with h was due)
    felt     = chunk + (h - end of the chunk) + response    worst case: the chunk's first sound

The bracket is the right context, or what was left of it at the end of the stream.

The due time counts, not the time of sending, so that a late generator flatters nobody; how late
it was itself is reported beside.
"""

import asyncio
import contextlib
import json
import math
import time
from dataclasses import dataclass, field

import numpy as np
import websockets

from .protocol import RATE_HZ
from .windows import StreamOptions

__all__ = ["Heard", "as_pcm16", "load", "percentiles", "speak"]

GOLDEN = 0.618034


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
    stream goes on, from the sample that the server names. `stop_after_s`: then the connection
    breaks without an end, or is `silent` from then on. `heard`: filled as it goes. What else is
    given goes into the first message, such as `phrases={"nine": 1.0}`. `address` is host:port,
    or begins with wss:// for TLS, with a certificate that the environment's SSL_CERT_FILE
    knows.
    """
    heard, stop_after_s = more.pop("heard", None) or Heard(), more.pop("stop_after_s", None)
    silent, packet = more.pop("silent", False), RATE_HZ * packet_ms // 1000
    url = address if "://" in address else f"ws://{address}"
    await asyncio.sleep((start_at or 0) - 0.15 - time.perf_counter())  # dials, then speaks
    how = {"ping_interval": None, "max_queue": 256, "close_timeout": 1}
    async with websockets.connect(f"{url}/v1/stream", **how) as socket:
        if resume is not None:
            more |= {"resume": resume.stream, "ack": resume.acked}
        await socket.send(json.dumps({"type": "start"} | more))
        hello = json.loads(await socket.recv())
        if hello["type"] != "ready":
            heard.notices.append(hello)
            return _counted(heard, len(signal_N), StreamOptions.chunk_ms)
        heard.stream, heard.port, first = hello["stream"], hello["port"], hello["samples"]
        began = (start_at or time.perf_counter()) - first / RATE_HZ / speed
        reader = asyncio.create_task(_listen(socket, heard, hello, (began, packet_ms, speed)))
        until = first + RATE_HZ * stop_after_s if stop_after_s else len(signal_N)
        with contextlib.suppress(websockets.ConnectionClosed):
            for at in range(first, int(min(until, len(signal_N))), packet):
                piece = as_pcm16(signal_N[at : min(at + packet, len(signal_N))])
                await _send_due(socket, piece, heard, began + (at + packet) / RATE_HZ / speed)
            if stop_after_s is None:
                await socket.send(json.dumps({"type": "end"}))
        if stop_after_s is not None and not silent:
            socket.transport.abort()  # no farewell: the cable is cut
        await asyncio.gather(reader, return_exceptions=True)
    whole = stop_after_s is None and resume is None
    return _counted(heard, len(signal_N), hello["chunk_ms"]) if whole else heard


def as_pcm16(signal_N):
    """The bytes of a signal (N,) in [-1, 1): 16-bit little-endian samples."""
    return (signal_N.clamp(-1, 32767 / 32768) * 32768).numpy().astype("<i2").tobytes()


def _counted(heard, samples, chunk_ms):
    """The same, with a time that never ends for each chunk that no answer came to: who counts
    answers alone flatters a server that fails."""
    lost = -(-(samples * 1000 // RATE_HZ) // chunk_ms) - len(heard.responses_ms)
    heard.responses_ms += [math.inf] * lost
    heard.felt_ms += [math.inf] * lost
    return heard


async def _send_due(socket, piece, heard, due):
    """Sends a packet when the last of it has been spoken, and notes how late."""
    wait = due - time.perf_counter()
    if wait > 0:
        await asyncio.sleep(wait)
    heard.late_sends_ms.append(max(0.0, (time.perf_counter() - due) * 1e3))
    await socket.send(piece)


async def _listen(socket, heard, hello, clock):
    """Reads answers until the server closes, and acknowledges those that may not be lost."""
    began, packet_ms, speed = clock
    async for message in socket:
        now, told = time.perf_counter(), json.loads(message)
        if told["type"] == "partial":
            if "queue_ms" not in told:
                continue
            packets = -(-told["heard_ms"] // packet_ms)
            due = began + packets * packet_ms / 1e3 / speed
            response_ms = (now - due) * 1e3
            heard.responses_ms.append(response_ms)
            waited_ms = told["heard_ms"] - told["to_ms"] + hello["chunk_ms"]
            heard.felt_ms.append(waited_ms + response_ms)
            heard.queue_ms.append(told["queue_ms"])
            heard.compute_ms.append(told["compute_ms"])
            heard.batches.append(told["batch"])
            continue
        if told["type"] == "done":
            heard.done = told["reason"]
        elif told["type"] == "final":
            heard.finals.append(told["text"])
        else:
            heard.notices.append(told)
        if "n" in told:
            heard.acked = told["n"]
            await socket.send(json.dumps({"type": "ack", "n": heard.acked}))


async def load(address, signals, packet_ms=20, spread_s=1.0):
    """What each client Heard, all speaking at once: `await load(server.address, signals)`.

    signals: a list of (N,) tensors, one a client. Starts are spread over `spread_s` by steps of
    the golden ratio, since real callers do not speak in step, and chunks should not either.
    """
    start = time.perf_counter() + 0.2 + 0.004 * len(signals)
    starts = (start + spread_s * (n * GOLDEN % 1) for n in range(len(signals)))
    pairs = zip(signals, starts, strict=True)
    return await asyncio.gather(*(speak(address, s, packet_ms, start_at=at) for s, at in pairs))


def percentiles(all_heard, what="responses_ms", points=(50, 95, 99)):
    """Percentiles of a list of every client's, pooled: a tuple of floats, the least values that
    so many percent do not exceed; infinite where too many chunks were never answered, NaN
    without any."""
    values = np.concatenate([np.asarray(getattr(heard, what), float) for heard in all_heard])
    if not len(values):
        return (np.nan,) * len(points)
    return tuple(np.percentile(values, points, method="inverted_cdf").tolist())
