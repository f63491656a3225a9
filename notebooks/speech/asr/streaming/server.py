"""The recogniser as a server: WebSocket streams, dynamic batches, metrics, a graceful end.

Article: "Solving Automatic Speech Recognition Deployment Challenges" (NVIDIA Technical Blog),
which lists what a deployment needs: streaming, resource management, serving, monitoring.

    /v1/stream    the protocol of `session`
    /metrics      Prometheus's text format, series of `batcher.Metrics`
    /health       200 and "ready"; 503 while draining or without a worker

The front process holds every stream's state and computes features and text; the network runs
in another (`worker`), or behind Triton (`--backend`, see `triton_backend`). SIGTERM
drains: no new streams, those under way get `drain_s` seconds to end, then they are ended and
answered.

    python -m streaming.server --max-batch 16    # prints {"port": ...} when it is ready
    python -m streaming.server --boost nine,five --boost-weight 1    # boosted phrases
"""

import argparse
import asyncio
import contextlib
import functools
import json
import signal
import socket
import sys
import time

import torch
import uvicorn
from ctc import PhraseBoost, PrefixBeam
from fastapi import FastAPI, Response, WebSocket
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from quartznet import VARIANTS
from starlette.websockets import WebSocketDisconnect, WebSocketState

from .batcher import Batcher, Metrics
from .session import LONGEST_MESSAGE_BYTES, Refused, Session, SessionLimits
from .windows import StreamOptions
from .worker import WorkerPool

__all__ = ["Service", "make_app", "main"]

TRY_LATER, GOING_AWAY, UNSUPPORTED, PROBLEM = 1013, 1001, 1003, 1011  # close codes of RFC 6455


class Service:
    """Everything behind the sockets: the batcher, the sessions, the rules of admission."""

    def __init__(
        self,
        infer,
        options=None,
        limits=None,
        max_streams=256,
        prior=None,
        decoder=None,
        **batching,
    ):
        self.metrics = Metrics()
        self.batcher = Batcher(infer, metrics=self.metrics, **batching)
        self.options, self.limits = options or StreamOptions(), limits or SessionLimits()
        self.max_streams, self.prior, self.decoder = max_streams, prior, decoder
        self.sessions, self.open, self.draining = {}, set(), False

    def admit(self, wanted):
        """The Session to serve, a kept one or a new one; Refused with the reason."""
        self._forget()
        if self.draining:
            raise Refused("draining", "this server is about to stop: connect again elsewhere")
        if wanted is not None:
            session = self.sessions.get(wanted)
            if session is None or session in self.open:
                raise Refused("unknown_stream", "no such stream waits here: start a new one")
            return session
        if len(self.open) >= self.max_streams or len(self.sessions) >= 2 * self.max_streams:
            words = f"{self.max_streams} streams are open, the most allowed: try again later"
            raise Refused("full", words)
        options = self.options, self.limits, self.prior, self.decoder
        session = Session(self.batcher, self.metrics, *options)
        self.sessions[session.id] = session
        return session

    async def serve(self, socket, session):
        """None; one connection of a session, counted."""
        self.open.add(session)
        self.metrics.streams.set(len(self.open))
        try:
            await session.attach(socket)
            self.sessions.pop(session.id, None)
        except Refused:  # no way to go on after garbage; a client that left may come back
            self.sessions.pop(session.id, None)
            raise
        finally:
            self.open.discard(session)
            self.metrics.streams.set(len(self.open))

    async def drain(self, seconds):
        """None; waits for the open streams, then ends them and waits for their answers."""
        self.draining = True
        for stage in (seconds, 5.0):
            until = time.monotonic() + stage
            while self.open and time.monotonic() < until:
                await asyncio.sleep(0.02)
            for session in self.open:
                session.stop("draining")

    def _forget(self):
        """Drops streams whose client has been away for too long."""
        now = time.monotonic()
        for key, session in list(self.sessions.items()):
            if session.left_at is not None and now - session.left_at > self.limits.keep_s:
                del self.sessions[key]


class _Socket:
    """The two coroutines that a Session needs, of a Starlette WebSocket."""

    def __init__(self, socket):
        self.receive, self.send = socket.receive, socket.send_text


def make_app(service, alive=lambda: True, refresh=lambda metrics: None):
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
        await socket.accept()
        try:
            session = service.admit(await _wanted(socket, service.limits.idle_s))
            await service.serve(_Socket(socket), session)
            await _close(socket, GOING_AWAY if session.reason == "draining" else 1000)
        except Refused as refused:
            service.metrics.refused.labels(refused.code).inc()
            late = refused.code in ("draining", "full")
            await _tell(socket, refused.code, str(refused), TRY_LATER if late else UNSUPPORTED)
        except (WebSocketDisconnect, ConnectionError):
            pass  # the session waits for its client
        except TimeoutError:
            await _tell(socket, "too_slow", "answers were not read in time", TRY_LATER)

    return app


async def _wanted(socket, seconds):
    """The stream a client wants to resume, None for a new one, from its first message."""
    try:
        message = await asyncio.wait_for(socket.receive(), seconds)
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1006))
        told = json.loads(message.get("text") or "")
        rate_hz = told.get("rate_hz", 16_000)
        if told["type"] == "start" and rate_hz == 16_000:
            return told.get("resume")
    except (ValueError, KeyError, TypeError, AttributeError, TimeoutError):
        pass
    raise Refused(
        "bad_start", 'the first message must be {"type": "start"}, sound at 16,000 Hz'
    )


async def _tell(socket, code, words, close_code):
    with contextlib.suppress(RuntimeError, OSError, WebSocketDisconnect, TimeoutError):
        message = json.dumps({"type": "error", "code": code, "message": words})
        await asyncio.wait_for(socket.send_text(message), 2)
        await _close(socket, close_code, words)


async def _close(socket, code, words=""):
    if socket.application_state is WebSocketState.CONNECTED:
        with contextlib.suppress(RuntimeError, OSError):
            await socket.close(code, words.encode()[:120].decode(errors="ignore"))


class _Server(uvicorn.Server):
    """uvicorn without its own handling of signals: it would cut the streams off."""

    @contextlib.contextmanager
    def capture_signals(self):
        yield


def front(app):
    """A uvicorn server of the application, not yet serving; it leaves signals to others."""
    sizes = {"ws_max_size": 2 * LONGEST_MESSAGE_BYTES, "ws_ping_interval": None}
    return _Server(uvicorn.Config(app, log_level="warning", **sizes))


async def run(service, listener, alive, refresh, drain_s):
    """None; serves until SIGTERM or SIGINT, then drains."""
    server, stop = front(make_app(service, alive, refresh)), asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([stopping, serving], return_when=asyncio.FIRST_COMPLETED)
    await service.drain(drain_s)
    server.should_exit = True
    await serving


def parse(argv):
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--variant", default="folded", choices=VARIANTS)
    parser.add_argument("--checkpoint", default="")
    parser.add_argument("--device", default="cpu", help="where the network runs")
    parser.add_argument("--backend", default="local", help="local, or host:port of a Triton")
    for name, kind, default in (
        ("chunk_ms", int, StreamOptions.chunk_ms),
        ("right_ms", int, StreamOptions.right_ms),
        ("endpoint_ms", int, StreamOptions.endpoint_ms),
        ("idle_s", float, SessionLimits.idle_s),
        ("ahead_ms", float, SessionLimits.ahead_ms),
        ("keep_s", float, SessionLimits.keep_s),
        ("max_batch", int, 16),
        ("max_delay_ms", float, 2.0),
        ("max_queue", int, 256),
        ("deadline_ms", float, 2000.0),
        ("max_streams", int, 256),
        ("drain_s", float, 5.0),
        ("spares", int, 1),
        ("beam_width", int, 0),
        ("boost", str, ""),
        ("boost_weight", float, 1.0),
    ):
        parser.add_argument("--" + name.replace("_", "-"), type=kind, default=default)
    parser.add_argument("--prior", default="", help="file of torch.save((mean, deviation))")
    return parser.parse_args(argv)


def main(argv=None):
    """Serves as the command line says."""
    o = parse(argv)
    torch.set_num_threads(1)
    boost = PhraseBoost(o.boost.split(","), o.boost_weight) if o.boost else None
    decoder = functools.partial(PrefixBeam, o.beam_width or 16, None, boost)
    decoder = decoder if o.beam_width or boost else None
    prior = torch.load(o.prior, weights_only=True) if o.prior else None
    options = StreamOptions(o.chunk_ms, right_ms=o.right_ms, endpoint_ms=o.endpoint_ms)
    limits = SessionLimits(o.ahead_ms, idle_s=o.idle_s, keep_s=o.keep_s)
    batching = {"max_batch": o.max_batch, "max_delay_ms": o.max_delay_ms}
    batching |= {"max_queue": o.max_queue, "deadline_ms": o.deadline_ms}
    batching |= {"pad_to": options.window_frames}
    listener = socket.create_server(("127.0.0.1", o.port), backlog=512)
    with contextlib.ExitStack() as stack:
        pool = None
        if o.backend == "local":
            warm = o.max_batch, options.window_frames
            pool = WorkerPool(o.variant, o.spares, o.checkpoint, o.device, warm)
            infer, alive = stack.enter_context(pool).infer, lambda: pool.alive
        else:
            from .triton_backend import TritonBackend

            backend = stack.enter_context(TritonBackend(o.backend))
            infer, alive = backend.infer, backend.alive
        service = Service(infer, options, limits, o.max_streams, prior, decoder, **batching)

        def refresh(metrics):
            metrics.restarts.set(pool.restarts if pool else 0)

        asyncio.run(run(service, listener, alive, refresh, o.drain_s))


if __name__ == "__main__":
    sys.exit(main())
