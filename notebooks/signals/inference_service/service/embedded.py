"""A server of KServe's protocol v2 in this process, for readers without Triton: real sockets,
few features.

    with EmbeddedServer({"emmichel": "emmichel.onnx"}) as server:
        Sonic([server.address], EMMICHEL)

It answers /v2/health/live and /ready, /v2/models/NAME/ready and /infer, and /metrics in
Prometheus's text format under Triton's names. Tensors are bytes or JSON numbers, answers what
`binary_data_output` asks for. One thread and one request for each connection; batches are
`batcher`'s. No gRPC, shared memory, versions or metadata of models; this machine alone.
"""

import contextlib
import json
import socket
import socketserver
import threading
import time
from http.server import BaseHTTPRequestHandler

import numpy as np
from sonic import HEADER, BadMessage, pack, unpack

from .batcher import Batcher
from .onnx_model import OnnxModel

MOST_BYTES, PATIENCE_S = 256 * 2**20, 30  # of a request; for the rest of a refused one
STATUS = {ValueError: 400, LookupError: 404, RuntimeError: 500}


class EmbeddedServer(socketserver.ThreadingTCPServer):
    """Serves models {name: path of an ONNX file, or a function with `inputs` and `outputs`};
    `threads` are those of one model, other options go to its `Batcher`. `address` is host:port,
    `batchers` {name: Batcher}."""

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
        """None; whatever the method was. A client reads no answer before its body is gone, so
        a refused one is read to its end, after the answer."""
        told = self.headers.get("Content-Length", "0")
        self.left, status, length = int(told[:18]) if told.isdecimal() else 0, 200, 0
        with contextlib.suppress(OSError):  # nobody may be there any more
            try:
                kind, length, body = self._answer(self.path.strip("/").split("/"))
            except tuple(STATUS) as error:
                status = next(code for one, code in STATUS.items() if isinstance(error, one))
                body = json.dumps({"error": str(error.args[0])}).encode()
                kind = "application/json"
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if length:
                self.send_header(HEADER, str(length))
            self.end_headers()
            self.wfile.write(body)
            self.connection.shutdown(socket.SHUT_WR)
            until = time.monotonic() + PATIENCE_S
            while self.left and time.monotonic() < until and self._read(2**16):
                pass

    def _read(self, most):
        part = self.rfile.read(min(most, self.left))
        self.left = self.left - len(part) if part else 0
        return part

    do_POST = do_GET

    def log_message(self, *_):
        """None; no log is kept."""

    def _answer(self, parts):
        """(content type, length of a JSON header, body); raises what `STATUS` knows."""
        batchers = self.server.batchers
        if parts == ["metrics"]:
            return "text/plain; version=0.0.4", 0, _metrics(batchers).encode()
        if parts[:2] == ["v2", "health"] and parts[2:] in (["live"], ["ready"]):
            return "application/json", 0, b""
        if parts[:2] != ["v2", "models"] or parts[3:] not in (["ready"], ["infer"]):
            raise LookupError(f"{self.path}: no such path")
        if parts[2] not in batchers:
            raise LookupError(f"model {parts[2]!r} is unknown; there are {', '.join(batchers)}")
        if parts[3] == "ready":
            return "application/json", 0, b""
        length, answer = self._infer(batchers[parts[2]])
        return f"application/{'octet-stream' if length else 'json'}", length, answer

    def _infer(self, batcher):
        if not 0 < self.left <= MOST_BYTES:
            raise BadMessage(f"{self.left} bytes came; 1 to {MOST_BYTES} are allowed")
        arrays, header = unpack(self._read(self.left), self.headers.get(HEADER), "inputs")
        _fits(arrays, batcher.model.inputs)
        outputs, asked = batcher.submit(arrays).result(), header.get("parameters")
        binary = isinstance(asked, dict) and asked.get("binary_data_output") is True
        more = {"id": header["id"]} if isinstance(header.get("id"), str) else {}
        answer, length = pack(outputs, "outputs", binary, model_version="1", **more)
        return length if binary else 0, answer


def _metrics(batchers):
    lines = []
    for name in next(iter(batchers.values())).counts:
        lines.append(f"# TYPE nv_inference_{name} counter")
        for model, one in batchers.items():
            lines.append(
                f'nv_inference_{name}{{model="{model}",version="1"}} {one.counts[name]}'
            )
    return "\n".join([*lines, ""])


def _fits(arrays, inputs):
    """None, where arrays are what the model takes; raises BadMessage."""
    if set(arrays) != set(inputs):
        raise BadMessage(f"inputs {sorted(arrays)} came; {sorted(inputs)} are needed")
    rows = {len(values) if values.ndim else None for values in arrays.values()}
    for name, (dtype, shape) in inputs.items():
        came = arrays[name]
        if came.dtype != dtype or came.shape[1:] != shape or not came.ndim or len(rows) != 1:
            needed = f"{np.dtype(dtype)} of shape (rows, {str(shape)[1:]}"
            raise BadMessage(f"{name}: {came.dtype} of {came.shape} came; {needed} is needed")
