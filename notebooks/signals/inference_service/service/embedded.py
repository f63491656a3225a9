"""A server of KServe's protocol v2 in this process, for readers without Triton: real sockets,
few features.

    with EmbeddedServer({"emmichel": "emmichel.onnx"}) as server:
        Sonic([server.address], EMMICHEL)

It answers /v2/health/live and /ready, /v2/models/NAME/ready and /infer, and /metrics in
Prometheus's text format under Triton's names. HTTP is Python's own, one thread and one request
for each connection; batches are `batcher`'s. It has no gRPC, no shared memory, no versions of
models, and binds to this machine alone.
"""

import contextlib
import json
import socketserver
import threading
from http.server import BaseHTTPRequestHandler

import numpy as np
from sonic import HEADER, BadMessage, pack, unpack

from .batcher import Batcher
from .onnx_model import OnnxModel

__all__ = ["EmbeddedServer"]

MOST_BYTES = 256 * 2**20  # of a request
COUNTERS = {
    "success": "inference_request_success",
    "failure": "inference_request_failure",
    "count": "inference_count",
    "exec_count": "inference_exec_count",
    "queue_us": "inference_queue_duration_us",
    "infer_us": "inference_compute_infer_duration_us",
}
STATUS = {ValueError: 400, LookupError: 404, RuntimeError: 500}


class EmbeddedServer(socketserver.ThreadingTCPServer):
    """Serves models {name: path of an ONNX file, or a function with `inputs` and `outputs`}.

    Other options go to each model's `Batcher`; `threads` are those of one model. `address` is
    host:port, `batchers` {name: Batcher}.
    """

    allow_reuse_address, daemon_threads, request_queue_size = True, True, 128

    def __init__(self, models, threads=1, **options):
        made = {n: m if callable(m) else OnnxModel(m, threads) for n, m in models.items()}
        self.batchers = {name: Batcher(model, **options) for name, model in made.items()}
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, args=[0.05], daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
        for batcher in self.batchers.values():
            batcher.stop()


class Handler(BaseHTTPRequestHandler):
    """One request and its answer."""

    # without it the body waits for the client's late acknowledgement of the header, some 40 ms
    disable_nagle_algorithm = True
    timeout = 60

    def do_GET(self):
        """None; whatever the method was."""
        with contextlib.suppress(OSError):  # nobody may be there any more
            try:
                kind, length, body = self._answer(self.path.strip("/").split("/"))
                status = 200
            except tuple(STATUS) as error:
                status = next(code for one, code in STATUS.items() if isinstance(error, one))
                body = json.dumps({"error": str(error.args[0])}).encode()
                kind, length = "application/json", 0
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if length:
                self.send_header(HEADER, str(length))
            self.end_headers()
            self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        """None; no log is kept."""

    def _answer(self, parts):
        """(content type, length of a JSON header, body); raises what `STATUS` knows."""
        batchers = self.server.batchers
        if parts == ["metrics"]:
            return "text/plain; version=0.0.4", 0, _metrics(batchers).encode()
        if parts in (["v2", "health", "live"], ["v2", "health", "ready"]):
            return "application/json", 0, b""
        if parts[:2] != ["v2", "models"] or parts[3:] not in (["ready"], ["infer"]):
            raise LookupError(f"{self.path}: no such path")
        if parts[2] not in batchers:
            raise LookupError(f"model {parts[2]!r} is unknown; there are {', '.join(batchers)}")
        if parts[3] == "ready":
            return "application/json", 0, b""
        return "application/octet-stream", *self._infer(batchers[parts[2]])

    def _infer(self, batcher):
        told = self.headers.get("Content-Length", "")
        if not told.isdecimal() or int(told) > MOST_BYTES:
            raise BadMessage(f"{told or 'no'} bytes came; up to {MOST_BYTES} are allowed")
        body = self.rfile.read(int(told))
        arrays, header = unpack(body, self.headers.get(HEADER, len(body)), "inputs")
        _fits(arrays, batcher.model.inputs)
        outputs = batcher.submit(arrays).result()
        more = {"id": header["id"]} if isinstance(header.get("id"), str) else {}
        answer, length = pack(outputs, "outputs", model_version="1", **more)
        return length, answer


def _metrics(batchers):
    lines = []
    for key, name in COUNTERS.items():
        lines.append(f"# TYPE nv_{name} counter")
        for model, batcher in batchers.items():
            lines.append(f'nv_{name}{{model="{model}",version="1"}} {batcher.counts[key]}')
    return "\n".join([*lines, ""])


def _fits(arrays, inputs):
    """None, where arrays are what the model takes; raises BadMessage."""
    if set(arrays) != set(inputs):
        raise BadMessage(f"inputs {sorted(arrays)} came; {sorted(inputs)} are needed")
    rows = {len(values) if values.ndim else None for values in arrays.values()}
    for name, (dtype, shape) in inputs.items():
        came = arrays[name]
        if came.dtype != dtype or came.shape[1:] != shape or not came.ndim or len(rows) != 1:
            needed = f"{np.dtype(dtype)} of shape (rows, {', '.join(map(str, shape))})"
            words = f"{name}: {came.dtype} of shape {came.shape} came; {needed} is needed"
            raise BadMessage(words)
