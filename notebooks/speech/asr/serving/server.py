"""The recogniser as a server: WebSocket streams, dynamic batches, metrics, a graceful end.

The front holds every stream's state and computes features and text (`service`); the network
runs in another process (`worker`), or behind Triton (`--backend`). SIGTERM drains: those under
way get `drain_s` seconds, then they are ended and answered. One event loop fills one core. Past
that, start more with `--shared` on one port: Linux deals the connections out (SO_REUSEPORT).
Each listens on a port of its own, too: there a client resumes, and there Prometheus scrapes.

    python -m serving.server --max-batch 16    # prints {"port": ...} when it is ready
    python -m serving.server --beam-width 16 --words sentences.txt    # a word model
    python -m serving.server --accounts accounts.json --certificate c.pem --private-key k.pem"""

import argparse
import asyncio
import contextlib
import json
import signal
import socket
import ssl
from pathlib import Path

import torch
from ctc import WordNGram
from quartznet import VARIANTS
from streaming import StreamOptions, WorkerPool
from websockets.asyncio.server import serve

from .protocol import LONGEST_MESSAGE_BYTES, Accounts
from .service import WIDTH, Service
from .session import SessionLimits

STREAM, LIMITS = ("chunk_ms", "right_ms", "endpoint_ms"), ("ahead_ms", "idle_s", "keep_s")
KINDS = STREAM, LIMITS, ("max_batch", "max_delay_ms", "max_queue", "deadline_ms")
DEAD_MS = 20_000  # a client that confirms no byte for so long is gone, though no farewell came


def listening(host, port, shared=False):
    """A socket that listens, on a free port where it is 0."""
    made = socket.create_server((host, port), backlog=512, reuse_port=shared)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections inherit it
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_MS)
    return made


@contextlib.asynccontextmanager
async def serving(service, listeners, certificate=None, private_key=None):
    """A service that serves on these sockets, with TLS where a certificate is given."""
    tls = None
    if certificate:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate, private_key)
    how = {"process_request": service.answer, "max_size": 2 * LONGEST_MESSAGE_BYTES, "ssl": tls}
    how |= {"compression": None, "ping_interval": None, "close_timeout": 2}
    service.batcher.start()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(service.batcher.stop)
        for listener in listeners:
            await stack.enter_async_context(serve(service.connection, sock=listener, **how))
        yield


async def run(service, listeners, tls, drain_s):
    """None; serves until SIGTERM or SIGINT, then drains."""
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with serving(service, listeners, *tls):
        ports = (one.getsockname()[1] for one in listeners)
        print(json.dumps(dict(zip(("port", "own"), ports, strict=False))), flush=True)
        await stop.wait()
        await service.drain(drain_s)


def parse(argv):
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--variant", default="folded", choices=VARIANTS)
    for name, default, words in (
        ("host", "127.0.0.1", "where to listen"),
        ("port", 0, "0: a free one"),
        ("checkpoint", "", "of the network; the shipped one"),
        ("device", "cpu", "where the network runs"),
        ("backend", "local", "local, or host:port of a Triton"),
        ("prior", "", "file of torch.save((mean, deviation))"),
        ("beam_width", 0, f"0: greedy, but {WIDTH} where phrases or words are given"),
        ("words", "", "file of sentences for a word model"),
        ("accounts", "", "file of keys and quotas; see `protocol`"),
        ("origins", "", "pages that may call, https://a.example,https://b.example"),
        ("certificate", "", "file, for TLS"),
        ("private_key", "", "file, for TLS"),
        ("max_streams", 256, "open at once"),
        ("drain_s", 5.0, "for streams to end after SIGTERM"),
        ("spares", 1, "workers that wait"),
        *((name, getattr(StreamOptions, name), "see `windows`") for name in STREAM),
        *((name, getattr(SessionLimits, name), "see `session`") for name in LIMITS),
        *((name, n, "see `batcher`") for name, n in (("max_batch", 16), ("max_queue", 256))),
        ("max_delay_ms", 2.0, "see `batcher`"),
        ("deadline_ms", 2000.0, "see `batcher`; a worker that takes half of it is killed"),
    ):
        how = {"type": type(default), "default": default, "help": words}
        parser.add_argument("--" + name.replace("_", "-"), **how)
    parser.add_argument("--shared", action="store_true", help="others listen on this port, too")
    return parser.parse_args(argv)


def main(argv=None):
    """Serves as the command line says."""
    o = parse(argv)
    torch.set_num_threads(1)
    listeners = [listening(o.host, o.port, o.shared)]
    if o.shared:
        listeners.append(listening(o.host, 0))
    stream, limits, given = ({name: vars(o)[name] for name in one} for one in KINDS)
    options, given["limits"] = StreamOptions(**stream), SessionLimits(**limits)
    given |= {"width": o.beam_width, "pad_to": options.window_frames}
    given["port"] = listeners[-1].getsockname()[1]
    given["words"] = WordNGram(Path(o.words).read_text().splitlines()) if o.words else None
    given["prior"] = torch.load(o.prior, weights_only=True) if o.prior else None
    given["accounts"] = Accounts.of(o.accounts) if o.accounts else None
    given["origins"] = tuple(filter(None, o.origins.split(",")))
    with contextlib.ExitStack() as stack:
        given |= _backend(o, options, stack)
        service = Service(options=options, max_streams=o.max_streams, **given)
        asyncio.run(run(service, listeners, (o.certificate, o.private_key), o.drain_s))


def _backend(o, options, stack):
    """`infer`, `alive`, `refresh` of our workers or of a Triton, which the stack closes."""
    if o.backend != "local":
        from .triton_backend import TritonBackend

        backend = stack.enter_context(TritonBackend(o.backend, o.deadline_ms / 1e3))
        return {"infer": backend.infer, "alive": backend.alive}
    of_worker = o.checkpoint, o.device, o.max_batch, options.window_frames
    pool = WorkerPool(o.variant, o.spares, *of_worker, answer_s=o.deadline_ms / 2e3)
    stack.enter_context(pool)

    def refresh(metrics):
        metrics.restarts.set(pool.restarts), metrics.ready.set(pool.ready)

    return {"infer": pool.infer, "alive": lambda: pool.ready > 0, "refresh": refresh}


if __name__ == "__main__":
    main()
