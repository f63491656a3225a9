"""Who is served, over which connection, and what a monitor may read.

/v1/stream    the protocol of `protocol`; web pages get a 403 unless `origins` names theirs
/metrics      Prometheus's text format, series of `batcher.Metrics`
/health       200 and "ready"; 503 while draining or without a worker"""

import asyncio
import contextlib
import functools
import json
import time

from ctc import PhraseBoost, PrefixBeam
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from streaming import Batcher, StreamOptions
from websockets import ConnectionClosed

from .protocol import Account, Refused, Start, parsed
from .session import Displaced, Session, SessionLimits, gone

# close codes of RFC 6455, the last one ours
TRY_LATER, GOING_AWAY, UNSUPPORTED, POLICY, DISPLACED = 1013, 1001, 1003, 1008, 4001
CLOSES = {"draining": TRY_LATER, "full": TRY_LATER, "quota": POLICY, "no_account": POLICY}
WIDTH = 16  # of the beam, where phrases or words ask for one


class Service:
    """Everything behind the sockets: the batcher, the sessions, the rules of admission.
    `accounts`: Accounts, None lets all in; `words`: a word model; `width`: the beam's, or 0."""

    def __init__(self, infer, options=None, limits=None, max_streams=256, **more):
        for name in ("prior", "accounts", "width", "words", "port"):
            setattr(self, name, more.pop(name, None))
        self.origins, self.alive = more.pop("origins", ()), more.pop("alive", lambda: True)
        self.refresh = more.pop("refresh", lambda metrics: None)  # called before each scrape
        self.batcher = Batcher(infer, **more)
        self.metrics = self.batcher.metrics
        self.options, self.limits = options or StreamOptions(), limits or SessionLimits()
        self.max_streams, self.anybody = max_streams, Account(name="anybody")
        self.sessions, self.open, self.draining = {}, {}, False

    def admit(self, start):
        """The Session to serve, a kept one or a new one; Refused with the reason."""
        account = self.accounts.who(start.key) if self.accounts else self.anybody
        if start.resume is not None:
            session = self.sessions.get(start.resume)
            if session is None or session.account is not account:
                raise Refused("unknown_stream", "no such stream waits here: start a new one")
            session.left_at = None
            return session
        if self.draining:
            raise Refused("draining", "this server is about to stop: connect again elsewhere")
        if len(self.open) >= self.max_streams or len(self.sessions) >= 2 * self.max_streams:
            raise Refused("full", f"{self.max_streams} streams are the most allowed: try later")
        account.enter()
        decoder = None  # greedy
        if self.width or self.words or start.phrases:
            boost = PhraseBoost(start.phrases) if start.phrases else None
            decoder = functools.partial(PrefixBeam, self.width or WIDTH, self.words, boost)
        session = Session(self, account, decoder)
        self.sessions[session.id] = session
        return session

    async def answer(self, connection, request):
        """The answer to whoever asks for no stream; None lets one begin."""
        path, origin = request.path.partition("?")[0], request.headers.get("Origin")
        if path == "/metrics":
            self.refresh(self.metrics)
            found = connection.respond(200, generate_latest(self.metrics.registry).decode())
            del found.headers["Content-Type"]
            found.headers["Content-Type"] = CONTENT_TYPE_LATEST
            return found
        if path == "/health":
            alive = await asyncio.to_thread(self.alive)
            state = "draining" if self.draining else "ready" if alive else "no worker"
            return connection.respond(200 if state == "ready" else 503, state)
        if path != "/v1/stream":
            return connection.respond(404, "streams are at /v1/stream")
        if origin not in (None, *self.origins):
            self.metrics.refused.labels("origin").inc()
            return connection.respond(403, "pages of this site may not call")
        return None

    async def connection(self, socket):
        """None; one connection from its first message to its last."""
        try:
            try:
                message = await asyncio.wait_for(socket.recv(), self.limits.idle_s)
            except TimeoutError:
                raise Refused("bad_start", "no start message came in time") from None
            except ConnectionClosed as closed:
                raise gone(closed) from None
            start = parsed(Start, message, "bad_start")
            session = self.admit(start)
            await self._serve(socket, session, start.ack)
            await socket.close(GOING_AWAY if session.reason == "draining" else 1000)
        except Refused as refused:
            self.metrics.refused.labels(refused.code).inc()
            code = CLOSES.get(refused.code, UNSUPPORTED)
            await _refuse(socket, refused.code, str(refused), code)
        except Displaced as displaced:
            await socket.close(DISPLACED, str(displaced))
        except TimeoutError:
            await _refuse(socket, "too_slow", "answers were not read in time", TRY_LATER)
        except (ConnectionError, ConnectionClosed):
            pass  # the session waits for its client

    async def _serve(self, socket, session, acked):
        """None; one connection of a session, counted."""
        connection = object()
        self.open[connection] = session
        self.metrics.streams.set(len(self.open))
        try:
            await session.attach(socket, acked)
            if session.settled.is_set():
                self._drop(session)
        except Refused:  # no way to go on after garbage; a client that left may come back
            self._drop(session)
            raise
        finally:
            del self.open[connection]
            self.metrics.streams.set(len(self.open))
            asyncio.get_running_loop().call_later(self.limits.keep_s, self._forget)

    async def drain(self, seconds):
        """None; waits for the open streams, then ends them and waits for their answers."""
        self.draining = True
        for stage in (seconds, 5.0):
            until = time.monotonic() + stage
            while self.open and time.monotonic() < until:
                await asyncio.sleep(0.02)
            for session in self.open.values():
                session.stop("draining")

    def _forget(self):
        """Drops streams whose client has been away for too long."""
        now = time.monotonic()
        for session in list(self.sessions.values()):
            if session.left_at is not None and now - session.left_at >= self.limits.keep_s:
                self._drop(session)

    def _drop(self, session):
        if self.sessions.pop(session.id, None):
            session.account.leave()


async def _refuse(socket, code, words, close_code):
    with contextlib.suppress(ConnectionClosed, TimeoutError):
        message = json.dumps({"type": "error", "code": code, "message": words})
        await asyncio.wait_for(socket.send(message), 2)
    await socket.close(close_code, words.encode()[:120].decode(errors="ignore"))
