"""One client's stream on the server: its sound, its text, and what it is told.

Sound may run ahead of real time by `ahead_ms`; then the server says so once and stops reading,
so that TCP slows the client down and nobody else. A client that vanishes may resume within
`keep_s`, also while its old connection still seems open, for a network that dies sends no
farewell: whoever knows the stream's name displaces the connection that was there."""

import asyncio
import contextlib
import json
import secrets
import time
from collections import deque
from dataclasses import dataclass

import torch
from streaming import DeadlineMissed, QueueFull, StreamState, WorkerFailed
from websockets import ConnectionClosed

from .protocol import RATE_HZ, Later, Refused, parsed, pcm16

# close codes of RFC 6455: a broken frame, text that is no UTF-8, too long a message
BROKEN, TIMES = {1002, 1007, 1009}, ("response_ms", "queue_ms", "compute_ms")


@dataclass(frozen=True)
class SessionLimits:
    """What one client may do: be how far ahead of real time, silent and away for how long."""

    ahead_ms: float = 1500.0
    backlog_ms: float = 15_000.0  # sound that waits for a slow server before reading stops
    idle_s: float = 10.0
    keep_s: float = 10.0
    send_s: float = 5.0  # a client that does not read or acknowledge for so long is cut off
    journal: int = 256  # messages kept for a client that does not acknowledge


class Displaced(ConnectionError):
    """The client has come back on another connection, and this one is of no use."""


def gone(closed):
    """What a closed connection means: Refused after a frame that no client may send, else
    ConnectionError."""
    if closed.sent and closed.sent.code in BROKEN and not closed.rcvd_then_sent:
        return Refused("bad_frame", "a frame that no WebSocket client may send")
    return ConnectionError("the client went away")


class Session:
    """The state of one stream across its connections. `attach(socket, acked)` serves one
    connection until the stream is done; it raises ConnectionError where the client went away,
    who may come back, Displaced where it has. A window that fails is taken as silence, and the
    client is told."""

    def __init__(self, service, account, decoder=None):
        self.id, self.service, self.account = secrets.token_urlsafe(12), service, account
        self.batcher, self.metrics = service.batcher, service.metrics
        self.limits = service.limits
        self.state = StreamState(service.options, service.prior, decoder)
        self.more, self.reason, self.left_at, self.told = asyncio.Event(), "end", None, False
        self.journal, self.last, self.sent = [], 0, 0  # not acknowledged; two numbers
        self.done, self.settled = None, asyncio.Event()  # the last message; is it acknowledged?
        self.arrivals, self.ended_at = deque(), 0.0  # (ms of sound, when they were here)
        self.turn, self.serving = asyncio.Lock(), None

    async def attach(self, socket, acked=0):
        """Serves a connection: sound in, text out; whoever was there before must go."""
        if self.serving is not None:
            self.serving.cancel()
        task = self.serving = asyncio.create_task(self._converse(socket, acked))
        try:
            await asyncio.wait({task})
        finally:
            task.cancel()
        if task.cancelled():
            raise Displaced("the stream goes on over another connection")
        task.result()

    def stop(self, reason):
        """None; ends the stream from the server's side: what was heard is still answered."""
        if not self.state.ended:
            self.reason, self.ended_at = reason, time.monotonic()
            self._put(self.state.end())
            self.more.set()

    async def _converse(self, socket, acked):
        async with self.turn:
            self.left_at, self.began = None, time.monotonic() - self.state.samples / RATE_HZ
            self._acknowledged(acked)
            self.sent, o = acked, self.state.options
            hello = {"type": "ready", "stream": self.id, "samples": self.state.samples}
            hello |= {"chunk_ms": o.chunk_ms, "right_ms": o.right_ms, "port": self.service.port}
            both = []
            try:
                await self._send(socket, hello)
                both = [asyncio.create_task(work(socket)) for work in (self._read, self._write)]
                done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()  # raises what ended it
            except ConnectionClosed as closed:
                raise gone(closed) from None
            finally:
                for task in both:
                    task.cancel()
                await asyncio.gather(*both, return_exceptions=True)
                self.left_at = time.monotonic()

    async def _read(self, socket):
        """Sound into the state, until the last message is acknowledged or the client leaves."""
        while not self.settled.is_set():
            try:
                async with asyncio.timeout(None if self.state.ended else self.limits.idle_s):
                    message = await socket.recv()
            except TimeoutError:
                self.stop("idle")
                continue
            if isinstance(message, str):
                later = parsed(Later, message, "bad_message")
                self._acknowledged(later.n) if later.type == "ack" else self.stop("end")
            elif not self.state.ended:  # else it ended from our side, and this comes too late
                await self._hear(pcm16(message))

    async def _hear(self, signal_N):
        try:
            self.account.spend(len(signal_N) / RATE_HZ)
        except Refused as refused:
            self.metrics.refused.labels(refused.code).inc()
            return self.stop(refused.code)
        self.state.push(signal_N)
        self.arrivals.append((self.state.samples * 1000 / RATE_HZ, time.monotonic()))
        self.metrics.audio_s.inc(len(signal_N) / RATE_HZ)
        self.more.set()
        return await self._keep_pace()

    async def _keep_pace(self):
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
                words = f"sound is {ahead_ms:.0f} ms ahead: reading slows to speech's own speed"
                self._tell({"type": "throttled", "code": "pace", "message": words})
                self.more.set()
            await asyncio.sleep(0.02)

    async def _write(self, socket):
        """Windows to the batcher, answers to the client, until nothing is left to say."""
        while True:
            for message in [one for one in self.journal if one["n"] > self.sent]:
                await self._send(socket, message)
                self.sent = message["n"]
            if self.done is not None:  # who does not acknowledge may come back within `keep_s`
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.settled.wait(), self.limits.send_s)
                return
            if self.state.finished:
                done = {"samples": self.state.samples, "reason": self.reason}
                self._tell({"type": "done"} | done)
                self.done = self.last
            elif windows := self._due():
                await self._answer(windows)
            else:
                self.more.clear()
                await self.more.wait()

    def _due(self):
        """The windows to compute next, those of a connection that is gone first; as many as
        chunks fit into the delay, for so many fall due together at a stream's end."""
        most = self.state.options.delay_ms // self.state.options.chunk_ms
        while len(self.state.pending) < most and self.state.next_window():
            pass
        return self.state.pending[:most]

    async def _answer(self, windows):
        """Messages about these windows, in order; a failure is told and counts as silence."""
        asked = (self.batcher.submit(window.features_FT.numpy()) for window in windows)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for window, answer in zip(windows, answers, strict=True):
            response_s = self._response_s(window)
            self.metrics.response_s.observe(response_s)  # of a failure, too
            if isinstance(answer, (DeadlineMissed, QueueFull, WorkerFailed)):
                span = f"{window.to_ms - self.state.options.chunk_ms} to {window.to_ms} ms"
                words = f"the sound from {span} was not recognised: {answer}"
                self._tell({"type": "late", "code": type(answer).__name__, "message": words})
                self._put(self.state.skip())
            elif isinstance(answer, BaseException):
                raise answer
            else:
                took_s = response_s, answer.queue_s, answer.compute_s
                times = dict(zip(TIMES, (round(1e3 * s, 3) for s in took_s), strict=True))
                log_probs_SV = torch.from_numpy(answer.log_probs_SV)
                self._put(self.state.accept(log_probs_SV), times | {"batch": answer.batch})

    def _response_s(self, window):
        """The time since the window's sound was here, or the stream had ended before."""
        right_ms = self.state.options.right_ms
        if right_ms is None or window.heard_ms < window.to_ms + right_ms:
            return time.monotonic() - self.ended_at
        while self.arrivals[0][0] < window.heard_ms:
            self.arrivals.popleft()
        return time.monotonic() - self.arrivals[0][1]

    def _put(self, events, extra=None):
        for event in events:
            told = event._asdict()
            self._tell({"type": told.pop("kind")} | told | (extra or {}))

    def _tell(self, message):
        """None; numbers a message and keeps it; a new text replaces a partial that was sent."""
        self.last += 1
        kept = [one for one in self.journal if one["type"] != "partial" or one["n"] > self.sent]
        self.journal = [*kept, {"n": self.last} | message][-self.limits.journal :]

    def _acknowledged(self, n):
        if n > self.last:
            raise Refused("bad_ack", f"message {n}: the last one had the number {self.last}")
        self.journal = [one for one in self.journal if one["n"] > n]
        if self.done is not None and n >= self.done:
            self.settled.set()

    async def _send(self, socket, message):
        async with asyncio.timeout(self.limits.send_s):
            await socket.send(json.dumps(message))
