"""One client's stream on the server: its sound, its text, and what it is told.

Article: "Solving Automatic Speech Recognition Deployment Challenges" (NVIDIA Technical Blog).
The protocol, over one WebSocket; text messages are JSON, binary ones 16-bit little-endian PCM
at 16 kHz:

    client  {"type": "start"} or {"type": "start", "resume": "<stream>"}
    server  {"type": "ready", "stream", "samples", "chunk_ms", "right_ms"}
    client  binary sound, in pieces of any size up to a second ...
    server  {"type": "partial" | "final", "text", "start_ms", "to_ms", "heard_ms",
             "queue_ms", "compute_ms", "batch"}                     for every chunk
    client  {"type": "end"}
    server  {"type": "done", "samples", "reason"}, and closes
    server  {"type": "throttled" | "late" | "error", "code", "message"}    where need be

Sound may run ahead of real time by `ahead_ms`; then the server says so once and stops reading,
so that TCP slows the client down and nobody else. A client that vanishes may resume within
`keep_s`; "samples", the number heard so far, tells it where to go on.
"""

import asyncio
import contextlib
import json
import secrets
import time
from dataclasses import asdict, dataclass

import numpy as np
import torch

from .batcher import DeadlineMissed, QueueFull, WorkerFailed
from .stream_state import StreamState

__all__ = ["Refused", "Session", "SessionLimits", "pcm16"]

RATE_HZ, LONGEST_MESSAGE_BYTES = 16_000, 32_000


@dataclass(frozen=True)
class SessionLimits:
    """What one client may do: be how far ahead of real time, silent and away for how long."""

    ahead_ms: float = 1500.0
    backlog_ms: float = 15_000.0  # sound that waits for a slow server before reading stops
    idle_s: float = 10.0
    keep_s: float = 10.0
    send_s: float = 5.0  # a client that does not read its answers for so long is cut off


class Refused(Exception):
    """A message the server will not take: `code` for programs, words for people."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def pcm16(message):
    """The samples of one binary message, float32 (N,) in [-1, 1); Refused for half a sample."""
    if not message or len(message) % 2 or len(message) > LONGEST_MESSAGE_BYTES:
        raise Refused(
            "bad_audio",
            f"a message of {len(message)} bytes: 16-bit samples are wanted, so an even number, "
            f"from 2 to {LONGEST_MESSAGE_BYTES} (one second)",
        )
    return torch.from_numpy(np.frombuffer(message, "<i2").astype(np.float32) / 32768)


class Session:
    """The state of one stream across its connections.

    `attach(socket)` serves one connection until the stream is done; it raises ConnectionError
    where the client went away, who may come back. The socket has `receive` and `send`,
    coroutines as in ASGI's WebSocket. `batcher.submit` computes; a window that fails is taken
    as silence, and the client is told.
    """

    def __init__(self, batcher, metrics, options=None, limits=None, prior=None, decoder=None):
        self.id = secrets.token_urlsafe(12)
        self.state = StreamState(options, prior, decoder)
        self.batcher, self.metrics, self.limits = batcher, metrics, limits or SessionLimits()
        self.more, self.reason, self.left_at = asyncio.Event(), "end", None
        self.told, self.outbox = False, []  # messages stay there until they are sent

    async def attach(self, socket):
        """Serves a connection: reads sound and writes text, side by side."""
        self.left_at, self.began = None, time.monotonic() - self.state.samples / RATE_HZ
        o = self.state.options
        hello = {"stream": self.id, "samples": self.state.samples, "chunk_ms": o.chunk_ms}
        await self._send(socket, {"type": "ready"} | hello | {"right_ms": o.right_ms})
        reader = asyncio.create_task(self._read(socket))
        writer = asyncio.create_task(self._write(socket))
        try:
            done, _ = await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # raises what ended it
            await writer
        finally:
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)
            self.left_at = time.monotonic()

    def stop(self, reason):
        """None; ends the stream from the server's side: what was heard is still answered."""
        if not self.state.ended:
            self.reason = reason
            self._put(self.state.end())
            self.more.set()

    async def _read(self, socket):
        """Sound into the state, until the client ends, leaves or falls silent."""
        while not self.state.ended:
            try:
                async with asyncio.timeout(self.limits.idle_s):
                    message = await socket.receive()
            except TimeoutError:
                return self.stop("idle")
            if message["type"] == "websocket.disconnect":
                raise ConnectionError("the client went away")
            if self.state.ended:  # the server drains; what comes now is too late
                return None
            if message.get("bytes") is None:
                self._command(message.get("text"))
                continue
            signal_N = pcm16(message["bytes"])
            self.state.push(signal_N)
            self.metrics.audio_s.inc(len(signal_N) / RATE_HZ)
            self.more.set()
            await self._keep_pace(socket)
        return None

    def _command(self, text):
        with contextlib.suppress(ValueError, TypeError):
            if json.loads(text)["type"] == "end":
                return self.stop("end")
        raise Refused("bad_message", 'only {"type": "end"} may come as text once sound flows')

    async def _keep_pace(self, socket):
        """Waits while the client is too far ahead of real time or the server too far behind."""
        while not self.state.ended:
            ahead_ms = (self.state.samples / RATE_HZ - (time.monotonic() - self.began)) * 1e3
            if ahead_ms < 0:  # a client that pauses cannot save time for later
                self.began -= ahead_ms / 1e3
            late_ms = self.state.backlog_ms - self.state.options.delay_ms
            too_fast = ahead_ms > self.limits.ahead_ms
            if not too_fast and late_ms <= self.limits.backlog_ms:
                return
            if too_fast and not self.told:
                self.told = True
                self.metrics.throttled.inc()
                words = (
                    f"sound is {ahead_ms:.0f} ms ahead of real time, {self.limits.ahead_ms:.0f}"
                )
                words += " ms are allowed: send at the speed of speech; reading slows to it"
                await self._send(
                    socket, {"type": "throttled", "code": "pace", "message": words}
                )
            await asyncio.sleep(0.02)

    async def _write(self, socket):
        """Windows to the batcher and its answers to the client, one window at a time."""
        while True:
            while self.outbox:
                await self._send(socket, self.outbox[0])
                self.outbox.pop(0)
            if self.state.finished:
                done = {"type": "done", "samples": self.state.samples, "reason": self.reason}
                return await self._send(socket, done)
            window = self.state.pending[0] if self.state.pending else self.state.next_window()
            if window is None:
                self.more.clear()
                if not self.state.finished:
                    await self.more.wait()
                continue
            await self._answer(window)

    async def _answer(self, window):
        """Messages about one window, put out; a failure is told and counts as silence."""
        try:
            answer = await self.batcher.submit(window.features_FT.numpy())
        except (DeadlineMissed, QueueFull, WorkerFailed) as error:
            span = f"{window.to_ms - self.state.options.chunk_ms} to {window.to_ms} ms"
            words = f"the sound from {span} was not recognised: {error}"
            self.outbox.append({"type": "late", "code": type(error).__name__, "message": words})
            return self._put(self.state.skip())
        times = {"queue_ms": answer.queue_s * 1e3, "compute_ms": answer.compute_s * 1e3}
        times = {key: round(value, 3) for key, value in times.items()}
        log_probs_SV = torch.from_numpy(answer.log_probs_SV)
        return self._put(self.state.accept(log_probs_SV), times | {"batch": answer.batch})

    def _put(self, events, extra=None):
        for event in events:
            told = asdict(event)
            self.outbox.append({"type": told.pop("kind")} | told | (extra or {}))

    async def _send(self, socket, message):
        async with asyncio.timeout(self.limits.send_s):
            await socket.send(json.dumps(message))
