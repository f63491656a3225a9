"""Which engine computes, by configuration alone; and servers as processes: started, awaited,
ended.

    with engine(Settings("local"), path) as infer: …       # the network in this process
    with engine(Settings("embedded"), path) as infer: …    # a server in this process, over a
    socket with engine(Settings("triton"), path) as infer: …      # NVIDIA's, where
    TRITON_PYTHON names it with engine(Settings("remote", ("node:8000",))) as infer: …    # any
    server of KServe v2

`infer(patches (N, 48, 48))` returns ((N, 3), (N, 1)) for all of them. The environment variable
TRITON_PYTHON is the Python of an environment with `PINS`; nothing is installed here.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from sonic import Model, Sonic

__all__ = ["EMMICHEL", "PINS", "Process", "Settings", "engine", "metrics", "triton_python"]

PINS = (
    "nvidia-pytriton==0.7.0 numpy==1.26.4 onnxruntime==1.31.1 tritonclient[http,grpc]==2.73.0"
)
EMMICHEL = Model(
    "emmichel", "patches", (48, 48), {"em_trk_none_netout": (3,), "michel_netout": (1,)}
)
MODES, START_S = ("local", "embedded", "process", "triton", "remote"), 120
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Settings:
    """`mode` (one of `MODES`), `addresses` of remote servers, options of the server (`server`:
    max_batch, delay_us, preferred, instances, threads, no_batching) and of the client
    (`client`)."""

    mode: str = "embedded"
    addresses: tuple = ()
    server: dict = field(default_factory=dict)
    client: dict = field(default_factory=dict)

    def __post_init__(self):
        if self.mode not in MODES or (self.mode == "remote") != bool(self.addresses):
            came = f"mode {self.mode!r} with addresses {self.addresses}"
            raise ValueError(
                f"{came}; allowed are {', '.join(MODES)}, addresses for remote alone"
            )


def triton_python():
    """The Python that has Triton, or "" where there is none."""
    found = os.environ.get("TRITON_PYTHON", "")
    return found if found and Path(found).is_file() else ""


@contextlib.contextmanager
def engine(settings, path=None, model=EMMICHEL):
    """The function from rows to outputs that the settings ask for, while it is open."""
    from .embedded import EmbeddedServer
    from .onnx_model import OnnxModel

    with contextlib.ExitStack() as stack:
        if settings.mode == "local":
            network = OnnxModel(path, settings.server.get("threads", 1))
            yield lambda rows: local(network, model, rows, settings.client.get("batch", 256))
            return
        addresses = settings.addresses
        if settings.mode == "embedded":
            server = EmbeddedServer({model.name: path}, **settings.server)
            addresses = [stack.enter_context(server).address]
        elif settings.mode != "remote":
            server = Process({model.name: path}, settings.mode == "triton", **settings.server)
            addresses = [stack.enter_context(server).address]
        yield stack.enter_context(Sonic(addresses, model, **settings.client))


def local(network, model, rows, batch=256):
    """What a service would answer, computed here in the same blocks."""
    import numpy as np

    rows = np.asarray(rows)
    blocks = [network({model.input: rows[i : i + batch]}) for i in range(0, len(rows), batch)]
    empty = [{name: np.zeros((0, *shape), np.float32) for name, shape in model.outputs.items()}]
    return tuple(np.concatenate([b[name] for b in blocks or empty]) for name in model.outputs)


class Process:
    """A server of models {name: path} as a process of its own: ours, or Triton.

    `with Process({"emmichel": path}, triton=True, delay_us=500) as server: server.address`.
    `ports` is what it printed. Raises RuntimeError with its last words where it does not start,
    and ValueError for Triton without TRITON_PYTHON.
    """

    def __init__(self, models, triton=False, **options):
        if triton and not triton_python():
            raise ValueError(f"TRITON_PYTHON names no Python; make an environment with {PINS}")
        program = (
            [triton_python(), str(HERE / "triton_models.py")]
            if triton
            else [sys.executable, "-m", "service.embedded"]
        )
        flags = [f"--model={name}={Path(path).resolve()}" for name, path in models.items()]
        for key, value in options.items():
            name = f"--{key.replace('_', '-')}"
            if value is True:
                flags.append(name)
            elif isinstance(value, list | tuple):
                flags += [name, *map(str, value)] if value else []
            elif value is not False:
                flags.append(f"{name}={value}")
        self.command, self.ports = program + flags, {}

    def __enter__(self):
        joined = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        joined |= {"cwd": HERE.parent, "env": _environment(), "start_new_session": True}
        self.process = subprocess.Popen(self.command, **joined)
        clock, told = threading.Timer(START_S, self.kill), []
        clock.start()
        for line in self.process.stdout:  # ends when the process does
            told.append(line)
            with contextlib.suppress(ValueError, AttributeError):
                self.ports = {name: int(port) for name, port in json.loads(line).items()}
                break
        clock.cancel()
        if not self.ports:
            self.process.wait()
            raise RuntimeError(f"the server did not start: {''.join(told).strip()[-800:]}")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()  # its log
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(30)
        self.kill()

    def kill(self):
        """None; ends it at once, with the processes that it started: Triton's own is one of
        them, and would go on saying that it is ready."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @property
    def address(self):
        """host:port of HTTP."""
        return f"127.0.0.1:{self.ports['http']}"

    @property
    def metrics_address(self):
        """host:port of the metrics."""
        return f"127.0.0.1:{self.ports.get('metrics', self.ports['http'])}"


def free_port():
    """A port that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        return held.getsockname()[1]


def metrics(address):
    """{(name, model): value} of a server's metrics in Prometheus's text format."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text, found = answer.read().decode(), {}
    for line in text.splitlines():
        if line.startswith("nv_") and 'model="' in line:
            name, _, rest = line.partition("{")
            found[name, rest.split('model="')[1].split('"')[0]] = float(line.rsplit(" ", 1)[1])
    return found


def _environment():
    """This process's, without what would change how another Python starts."""
    dropped = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    return {name: value for name, value in os.environ.items() if name not in dropped}
