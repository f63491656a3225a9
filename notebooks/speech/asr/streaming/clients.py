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
import time
from dataclasses import dataclass, field

import numpy as np
import torch
import websockets

__all__ = ["Heard", "load", "percentiles", "speak"]

RATE_HZ, GOLDEN = 16_000, 0.618034


@dataclass
class Heard:
    """What one client got: texts, and for each answer the times in ms."""

    finals: list = field(default_factory=list)
    responses_ms: list = field(default_factory=list)
    felt_ms: list = field(default_factory=list)
    queue_ms: list = field(default_factory=list)
    compute_ms: list = field(default_factory=list)
    batches: list = field(default_factory=list)
    late_sends_ms: list = field(default_factory=list)  # the generator's own lateness
    notices: list = field(default_factory=list)  # throttled, late, error
    stream: str = ""
    done: str = ""  # why the server ended the stream; "" if it did not

    @property
    def text(self):
        return " ".join(" ".join(self.finals).split())


async def speak(
    address, signal_N, packet_ms=20, speed=1.0, resume=None, start_at=None, stop_after_s=None
):
    """What one client Heard, who says signal_N (N,) in real time, `speed` times as fast.

    `start_at`: time.perf_counter() of the first packet. `resume`: the stream to go on with,
    from the sample that the server names. `stop_after_s`: then the connection breaks without
    an end.
    """
    heard, packet = Heard(), RATE_HZ * packet_ms // 1000
    sound = (signal_N.clamp(-1, 32767 / 32768) * 32768).to(torch.int16).numpy().tobytes()
    url = f"ws://{address}/v1/stream"
    await asyncio.sleep((start_at or 0) - 0.15 - time.perf_counter())  # dials, then speaks
    async with websockets.connect(url, ping_interval=None, max_queue=256) as socket:
        await socket.send(json.dumps({"type": "start", "resume": resume}))
        hello = json.loads(await socket.recv())
        if hello["type"] != "ready":
            heard.notices.append(hello)
            return heard
        heard.stream, first = hello["stream"], hello["samples"]
        began = (start_at or time.perf_counter()) - first / RATE_HZ / speed
        clock = began, packet_ms, speed
        reader = asyncio.create_task(_listen(socket, heard, hello, clock))
        until = first + RATE_HZ * stop_after_s if stop_after_s else len(signal_N)
        with contextlib.suppress(websockets.ConnectionClosed):
            for at in range(first, int(min(until, len(signal_N))), packet):
                piece = sound[2 * at : 2 * min(at + packet, len(signal_N))]
                await _send_due(socket, piece, heard, began + (at + packet) / RATE_HZ / speed)
            if stop_after_s is None:
                await socket.send(json.dumps({"type": "end"}))
        if stop_after_s is not None:
            socket.transport.abort()  # no farewell: the cable is cut
        await asyncio.gather(reader, return_exceptions=True)
    return heard


async def _send_due(socket, piece, heard, due):
    """Sends a packet when the last of it has been spoken, and notes how late."""
    wait = due - time.perf_counter()
    if wait > 0:
        await asyncio.sleep(wait)
    heard.late_sends_ms.append(max(0.0, (time.perf_counter() - due) * 1e3))
    await socket.send(piece)


async def _listen(socket, heard, hello, clock):
    """Reads answers until the server closes."""
    began, packet_ms, speed = clock
    async for message in socket:
        now, told = time.perf_counter(), json.loads(message)
        if told["type"] == "done":
            heard.done = told["reason"]
        elif told["type"] in ("throttled", "late", "error"):
            heard.notices.append(told)
        else:
            if told["type"] == "final":
                heard.finals.append(told["text"])
            if "queue_ms" in told and told["type"] == "partial":
                packets = -(-told["heard_ms"] // packet_ms)
                due = began + packets * packet_ms / 1e3 / speed
                response_ms = (now - due) * 1e3
                heard.responses_ms.append(response_ms)
                waited_ms = told["heard_ms"] - told["to_ms"] + hello["chunk_ms"]
                heard.felt_ms.append(waited_ms + response_ms)
                heard.queue_ms.append(told["queue_ms"])
                heard.compute_ms.append(told["compute_ms"])
                heard.batches.append(told["batch"])


async def load(address, signals, packet_ms=20, spread_s=1.0):
    """What each client Heard, all speaking at once: `await load(server.address, signals)`.

    signals: a list of (N,) tensors, one a client. Starts are spread over `spread_s` by steps of
    the golden ratio, since real callers do not speak in step, and chunks should not either.
    """
    start = time.perf_counter() + 0.2 + 0.004 * len(signals)
    return await asyncio.gather(
        *(
            speak(address, s, packet_ms, start_at=start + spread_s * (n * GOLDEN % 1))
            for n, s in enumerate(signals)
        )
    )


def percentiles(all_heard, what="responses_ms", points=(50, 95, 99)):
    """Percentiles of a list of every client's, pooled: a tuple of floats, NaN without any."""
    values = np.concatenate([np.asarray(getattr(heard, what), float) for heard in all_heard])
    if not len(values):
        return (np.nan,) * len(points)
    return tuple(np.percentile(values, points).tolist())
