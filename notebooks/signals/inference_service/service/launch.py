"""Which engine computes, by configuration alone; and Triton as a process.

    Settings("local")                         the network in this process
    Settings("embedded")                      a server in this process, over a socket
    Settings("triton")                        NVIDIA's, where TRITON_PYTHON names it
    Settings("remote", ("node:8000",))        any server of KServe v2; one that reads numbers
                                              alone with client={"binary": False}

`with engine(settings, path) as infer`: `infer(patches (N, 48, 48))` returns ((N, 3), (N, 1))
for all of them. The environment variable TRITON_PYTHON is the Python of an environment with
`PINS`; nothing is installed here.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import urllib.request
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from sonic import Model, Sonic

from .embedded import EmbeddedServer
from .onnx_model import OnnxModel

PINS = "nvidia-pytriton==0.7.0 numpy==1.26.4 onnxruntime==1.31.1"
PINS += " tritonclient[http,grpc]==2.73.0"
OUTPUTS = {"em_trk_none_netout": (3,), "michel_netout": (1,)}
EMMICHEL = Model("emmichel", "patches", (48, 48), OUTPUTS, tuple(OUTPUTS))
MODES = ("local", "embedded", "triton", "remote")
START_S, HERE = 120, Path(__file__).parent


@dataclass(frozen=True)
class Settings:
    """`mode` (one of `MODES`), `addresses` of remote servers, options of the `server`
    (max_batch, delay_us, preferred, instances, threads, no_batching) and of the `client`,
    those of `Sonic`."""

    mode: str = "embedded"
    addresses: tuple = ()
    server: dict = field(default_factory=dict)
    client: dict = field(default_factory=dict)

    def __post_init__(self):
        if self.mode not in MODES or (self.mode == "remote") != bool(self.addresses):
            allowed = f"allowed are {', '.join(MODES)}, addresses for remote alone"
            raise ValueError(f"mode {self.mode!r} with {self.addresses}; {allowed}")


def triton_python():
    """The Python that has Triton, or "" where there is none."""
    found = os.environ.get("TRITON_PYTHON", "")
    return found if found and Path(found).is_file() else ""


@contextlib.contextmanager
def engine(settings, path=None, model=EMMICHEL):
    """The function from rows to outputs that the settings ask for, while it is open."""
    if settings.mode == "local":
        yield partial(local, OnnxModel(path, settings.server.get("threads", 1)), model)
        return
    with contextlib.ExitStack() as stack:
        addresses = settings.addresses
        if kind := {"embedded": EmbeddedServer, "triton": Triton}.get(settings.mode):
            server = kind({model.name: path}, **settings.server)
            addresses = [stack.enter_context(server).address]
        yield stack.enter_context(Sonic(addresses, model, **settings.client))


def local(network, model, rows, batch=256):
    """What a service would answer, computed here in the same blocks."""
    rows = np.asarray(rows)
    blocks = [network({model.input: rows[i : i + batch]}) for i in range(0, len(rows), batch)]
    empty = [{name: np.zeros((0, *shape), np.float32) for name, shape in model.outputs.items()}]
    return tuple(np.concatenate([b[name] for b in blocks or empty]) for name in model.outputs)


class Triton:
    """NVIDIA's server of models {name: path} as a process, `with Triton({"emmichel": path},
    delay_us=500) as server: server.address`. Raises RuntimeError with its last words where it
    does not start, and ValueError without TRITON_PYTHON."""

    def __init__(self, models, **options):
        if not triton_python():
            raise ValueError(f"TRITON_PYTHON names no Python; make an environment with {PINS}")
        paths = {name: str(Path(path).resolve()) for name, path in models.items()}
        told = json.dumps({"models": paths} | options)
        self.command = [triton_python(), str(HERE / "triton_models.py"), told]

    def __enter__(self):
        dropped = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}  # of another Python
        kept = {name: value for name, value in os.environ.items() if name not in dropped}
        joined = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        joined |= {"env": kept, "start_new_session": True}
        self.process, told, self.ports = subprocess.Popen(self.command, **joined), [], {}
        clock = threading.Timer(START_S, self.kill)
        clock.start()
        for line in self.process.stdout:  # ends when the process does
            told.append(line)
            if found := re.search(r'\{"http".*?\}', line):  # a log may share its line
                self.ports = json.loads(found[0])
                break
        clock.cancel()
        if not self.ports:
            self.kill()
            raise RuntimeError(f"the server did not start: {''.join(told).strip()[-800:]}")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()  # its log
        self.address = f"127.0.0.1:{self.ports['http']}"
        self.metrics_address = f"127.0.0.1:{self.ports['metrics']}"
        return self

    def __exit__(self, *_):
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        self.kill()

    def kill(self):
        """None; ends it at once, with the processes that it started: one is Triton's own."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def metrics(address, model=EMMICHEL.name):
    """{name: value} of a model in a server's metrics, Prometheus's text format."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text, found = answer.read().decode(), {}
    for line in text.splitlines():
        if line.startswith("nv_") and f'model="{model}"' in line:
            found[line.partition("{")[0]] = float(line.rsplit(" ", 1)[1])
    return found
