"""The recogniser as a server: WebSocket streams, dynamic batches, metrics, a graceful end.

Article: "Solving Automatic Speech Recognition Deployment Challenges" (NVIDIA Technical Blog),
which lists what a deployment needs: streaming, resource management, serving, monitoring.

The front process holds every stream's state and computes features and text (`service`); the
network runs in another (`worker`), or behind Triton (`--backend`, see `triton_backend`).
SIGTERM drains: no new streams, those under way get `drain_s` seconds to end, then they are
ended and answered. `--fronts 4` starts four behind one port, see `fronts`.

    python -m streaming.server --max-batch 16    # prints {"port": ...} when it is ready
    python -m streaming.server --beam-width 16 --words sentences.txt    # a word model
    python -m streaming.server --accounts accounts.json --certificate c.pem --private-key k.pem
"""

import argparse
import asyncio
import contextlib
import json
import logging
import signal
import sys
from pathlib import Path

import torch
import uvicorn
from ctc import WordNGram
from quartznet import VARIANTS

from . import fronts
from .access import Accounts
from .protocol import LONGEST_MESSAGE_BYTES
from .service import WIDTH, Service, make_app
from .session import SessionLimits
from .windows import StreamOptions
from .worker import WorkerPool

__all__ = ["front", "main"]


class _Server(uvicorn.Server):
    """uvicorn without its own handling of signals: it would cut the streams off."""

    @contextlib.contextmanager
    def capture_signals(self):
        yield


def front(app, certificate=None, private_key=None):
    """A uvicorn server of the application, not yet serving; it leaves signals to others."""
    sizes = {"ws_max_size": 2 * LONGEST_MESSAGE_BYTES, "ws_ping_interval": None}
    tls = {"ssl_certfile": certificate or None, "ssl_keyfile": private_key or None}
    config = uvicorn.Config(app, log_level="warning", **sizes, **tls)
    garbage = (
        "Invalid UTF-8 sequence"  # of a client is told to it, and counted, and no traceback
    )
    logging.getLogger("uvicorn.error").addFilter(lambda told: garbage not in told.getMessage())
    return _Server(config)


async def run(service, server, listeners, drain_s):
    """None; serves until SIGTERM or SIGINT, then drains."""
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    serving = asyncio.create_task(server.serve(sockets=listeners))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    ports = dict(
        zip(("port", "own"), (one.getsockname()[1] for one in listeners), strict=False)
    )
    print(json.dumps(ports), flush=True)
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([stopping, serving], return_when=asyncio.FIRST_COMPLETED)
    await service.drain(drain_s)
    server.should_exit = True
    await serving


def parse(argv):
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--variant", default="folded", choices=VARIANTS)
    for name, default, words in (
        ("host", "127.0.0.1", "where to listen"),
        ("port", 0, "0: a free one"),
        ("fronts", 1, "processes behind the port"),
        ("checkpoint", "", "of the network; the shipped one"),
        ("device", "cpu", "where the network runs"),
        ("backend", "local", "local, or host:port of a Triton"),
        ("prior", "", "file of torch.save((mean, deviation))"),
        ("beam_width", 0, f"0: greedy, but {WIDTH} where phrases or words are given"),
        ("words", "", "file of sentences for a word model"),
        ("accounts", "", "file of keys and quotas; see `access`"),
        ("origins", "", "pages that may call, https://a.example,https://b.example"),
        ("certificate", "", "file, for TLS"),
        ("private_key", "", "file, for TLS"),
        ("max_streams", 256, "open at once"),
        ("drain_s", 5.0, "for streams to end after SIGTERM"),
        ("spares", 1, "workers that wait"),
        ("chunk_ms", StreamOptions.chunk_ms, "see `windows`"),
        ("right_ms", StreamOptions.right_ms, "see `windows`"),
        ("endpoint_ms", StreamOptions.endpoint_ms, "see `windows`"),
        ("idle_s", SessionLimits.idle_s, "see `session`"),
        ("ahead_ms", SessionLimits.ahead_ms, "see `session`"),
        ("keep_s", SessionLimits.keep_s, "see `session`"),
        ("max_batch", 16, "see `batcher`"),
        ("max_delay_ms", 2.0, "see `batcher`"),
        ("max_queue", 256, "see `batcher`"),
        ("deadline_ms", 2000.0, "see `batcher`; a worker that takes half of it is killed"),
    ):
        parser.add_argument(
            "--" + name.replace("_", "-"), type=type(default), default=default, help=words
        )
    parser.add_argument(
        "--shared", action="store_true", help="others listen on this port, too: set by --fronts"
    )
    return parser.parse_args(argv)


def main(argv=None):
    """Serves as the command line says."""
    argv = sys.argv[1:] if argv is None else argv
    o = parse(argv)
    if o.fronts > 1:
        return fronts.keep(argv, o.host, o.port, o.fronts, o.drain_s)
    torch.set_num_threads(1)
    listeners = [fronts.listening(o.host, o.port, o.shared)]
    if o.shared:
        listeners.append(fronts.listening(o.host, 0))
    options = StreamOptions(o.chunk_ms, right_ms=o.right_ms, endpoint_ms=o.endpoint_ms)
    limits = SessionLimits(o.ahead_ms, idle_s=o.idle_s, keep_s=o.keep_s)
    given = {
        name: getattr(o, name)
        for name in ("max_batch", "max_delay_ms", "max_queue", "deadline_ms")
    }
    given |= {
        "pad_to": options.window_frames,
        "width": o.beam_width,
        "port": listeners[-1].getsockname()[1],
    }
    given["words"] = WordNGram(Path(o.words).read_text().splitlines()) if o.words else None
    given["prior"] = torch.load(o.prior, weights_only=True) if o.prior else None
    given["accounts"] = Accounts.of(o.accounts) if o.accounts else None
    with contextlib.ExitStack() as stack:
        infer, alive, refresh = _backend(o, options, stack)
        service = Service(infer, options, limits, o.max_streams, **given)
        app = make_app(service, alive, refresh, tuple(filter(None, o.origins.split(","))))
        asyncio.run(
            run(service, front(app, o.certificate, o.private_key), listeners, o.drain_s)
        )
    return 0


def _backend(o, options, stack):
    """(infer, alive, refresh) of our workers or of a Triton, which the stack closes."""
    if o.backend != "local":
        from .triton_backend import TritonBackend

        backend = stack.enter_context(TritonBackend(o.backend, o.deadline_ms / 1e3))
        return backend.infer, backend.alive, lambda metrics: None
    warm = o.max_batch, options.window_frames
    pool = WorkerPool(
        o.variant, o.spares, o.checkpoint, o.device, warm, answer_s=o.deadline_ms / 2e3
    )
    stack.enter_context(pool)

    def refresh(metrics):
        metrics.restarts.set(pool.restarts), metrics.ready.set(pool.ready)

    return pool.infer, lambda: pool.alive, refresh


if __name__ == "__main__":
    sys.exit(main())
