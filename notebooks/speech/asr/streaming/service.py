"""Who is served, over which connection, and what a monitor may read.

Article: "Solving Automatic Speech Recognition Deployment Challenges" (NVIDIA Technical Blog).

    /v1/stream    the protocol of `protocol`; web pages get a 403 unless `origins` names theirs
    /metrics      Prometheus's text format, series of `batcher.Metrics`
    /health       200 and "ready"; 503 while draining or without a worker
"""

import asyncio
import contextlib
import functools
import json
import time

from ctc import PhraseBoost, PrefixBeam
from fastapi import FastAPI, Response, WebSocket
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.websockets import WebSocketDisconnect, WebSocketState

from .access import Account
from .batcher import Batcher, Metrics
from .protocol import Refused, Start, parsed
from .session import Displaced, Session, SessionLimits
from .windows import StreamOptions

__all__ = ["Service", "make_app"]

TRY_LATER, GOING_AWAY, UNSUPPORTED, POLICY, DISPLACED = (
    1013,
    1001,
    1003,
    1008,
    4001,
)  # close codes of RFC 6455
CLOSES = {"draining": TRY_LATER, "full": TRY_LATER, "quota": POLICY, "no_account": POLICY}
WIDTH = 16  # of the beam, where phrases or words ask for one


class Service:
    """Everything behind the sockets: the batcher, the sessions, the rules of admission.

    `accounts` are Accounts, None lets everybody in; `words` is a word model, `width` that of
    the beam (0: greedy).
    """

    def __init__(
        self,
        infer,
        options=None,
        limits=None,
        max_streams=256,
        prior=None,
        accounts=None,
        **more,
    ):
        self.width, self.words, self.port = (
            more.pop(name, None) for name in ("width", "words", "port")
        )
        self.metrics = Metrics()
        self.batcher = Batcher(infer, metrics=self.metrics, **more)
        self.options, self.limits = options or StreamOptions(), limits or SessionLimits()
        self.max_streams, self.prior, self.accounts = max_streams, prior, accounts
        self.sessions, self.open, self.draining, self.anybody = (
            {},
            {},
            False,
            Account(name="anybody"),
        )

    def admit(self, start):
        """The Session to serve, a kept one or a new one; Refused with the reason."""
        self._forget()
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
            words = f"{self.max_streams} streams are open, the most allowed: try again later"
            raise Refused("full", words)
        account.enter()
        common = self.batcher, self.metrics, self.options, self.limits, self.prior
        session = Session(*common, self._decoder(start.phrases), account, self.port)
        self.sessions[session.id] = session
        return session

    async def serve(self, socket, session, acked=0):
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

    async def drain(self, seconds):
        """None; waits for the open streams, then ends them and waits for their answers."""
        self.draining = True
        for stage in (seconds, 5.0):
            until = time.monotonic() + stage
            while self.open and time.monotonic() < until:
                await asyncio.sleep(0.02)
            for session in self.open.values():
                session.stop("draining")

    def _decoder(self, phrases):
        """What makes one stream's beam; None for greedy reading."""
        if not (self.width or self.words or phrases):
            return None
        boost = PhraseBoost(phrases) if phrases else None
        return functools.partial(PrefixBeam, self.width or WIDTH, self.words, boost)

    def _forget(self):
        """Drops streams whose client has been away for too long."""
        now = time.monotonic()
        for session in list(self.sessions.values()):
            if session.left_at is not None and now - session.left_at > self.limits.keep_s:
                self._drop(session)

    def _drop(self, session):
        if self.sessions.pop(session.id, None):
            session.account.leave()


class _Socket:
    """The two coroutines that a Session needs, of a Starlette WebSocket."""

    def __init__(self, socket):
        self.receive, self.send = socket.receive, socket.send_text


def make_app(service, alive=lambda: True, refresh=lambda metrics: None, origins=()):
    """The ASGI application of a Service: sockets, metrics, health."""

    @contextlib.asynccontextmanager
    async def running(_):
        service.batcher.start()
        yield
        await service.batcher.stop()

    app = FastAPI(lifespan=running, docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/metrics")
    def metrics():
        refresh(service.metrics)
        return Response(
            generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST
        )

    @app.get("/health")
    def health():
        state = "draining" if service.draining else "ready" if alive() else "no worker"
        return Response(state, 200 if state == "ready" else 503, media_type="text/plain")

    @app.websocket("/v1/stream")
    async def stream(socket: WebSocket):
        if socket.headers.get("origin") in (None, *origins):
            await socket.accept()
            return await _connection(service, socket)
        service.metrics.refused.labels("origin").inc()
        return await socket.close()  # before it is accepted: the page gets a 403

    return app


async def _connection(service, socket):
    """None; one connection from its first message to its last."""
    try:
        start = await _first_message(socket, service.limits.idle_s)
        session = service.admit(start)
        await service.serve(_Socket(socket), session, start.ack)
        await _close(socket, GOING_AWAY if session.reason == "draining" else 1000)
    except Refused as refused:
        code = refused.code
        service.metrics.refused.labels(code).inc()
        await _tell(socket, code, str(refused), CLOSES.get(code, UNSUPPORTED))
    except Displaced as displaced:
        await _close(socket, DISPLACED, str(displaced))
    except (WebSocketDisconnect, ConnectionError):
        pass  # the session waits for its client
    except TimeoutError:
        await _tell(socket, "too_slow", "answers were not read in time", TRY_LATER)


async def _first_message(socket, seconds):
    try:
        message = await asyncio.wait_for(socket.receive(), seconds)
    except TimeoutError:
        raise Refused("bad_start", f"no start message came within {seconds:g} s") from None
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1006))
    return parsed(Start, message.get("text"), "bad_start")


async def _tell(socket, code, words, close_code):
    with contextlib.suppress(RuntimeError, OSError, WebSocketDisconnect, TimeoutError):
        message = json.dumps({"type": "error", "code": code, "message": words})
        await asyncio.wait_for(socket.send_text(message), 2)
        await _close(socket, close_code, words)


async def _close(socket, code, words=""):
    if socket.application_state is WebSocketState.CONNECTED:
        with contextlib.suppress(RuntimeError, OSError, WebSocketDisconnect):
            await socket.close(code, words.encode()[:120].decode(errors="ignore"))
