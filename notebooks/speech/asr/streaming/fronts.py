"""Several front processes behind one port, since one event loop fills one core.

Article: "Solving Automatic Speech Recognition Deployment Challenges" (NVIDIA Technical Blog),
whose servers "can scale to hundreds and thousands of parallel streams". Each front is a whole
server with a worker of its own. All listen on one port (SO_REUSEPORT), and Linux deals the
connections out by a hash of their addresses. A stream's state lives in one of them, so that
each listens on a port of its own, too: there a client resumes, and there Prometheus scrapes.

    python -m streaming.server --fronts 4 --port 8000    # prints {"port": 8000, "front_0": ...}
"""

import json
import signal
import socket
import threading

from .launch import Server

__all__ = ["keep", "listening"]

DEAD_MS = 20_000  # a client that confirms no byte for so long is gone, though no farewell came


def listening(host, port, shared=False):
    """A socket that listens, on a free port where it is 0."""
    made = socket.create_server((host, port), backlog=512, reuse_port=shared)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; connections inherit it
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_MS)
    return made


def keep(argv, host, port, count, drain_s):
    """The exit code; runs `count` fronts until SIGTERM, and starts those that die again."""
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    held = socket.socket()  # bound, never listening: it keeps the port
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held.bind((host, port))
    port = held.getsockname()[1]
    ours = [*argv, "--fronts=1", "--shared", f"--port={port}"]
    running = [Server("streaming.server", *ours).start() for _ in range(count)]
    try:
        ports = {f"front_{n}": one.wait_ready().ports["own"] for n, one in enumerate(running)}
        print(json.dumps({"port": port} | ports), flush=True)
        while not stop.wait(0.2):
            for n, one in enumerate(running):
                if one.process.poll() is not None:
                    running[n] = Server("streaming.server", *ours).start()
                    threading.Thread(target=running[n].wait_ready, daemon=True).start()
    finally:
        for one in running:
            one.process.terminate()
        codes = {one.process.wait(drain_s + 15) for one in running}
    return int(not codes <= {0, -signal.SIGTERM})  # that of one which did not serve yet
