"""A server of KServe's protocol v2 in this process, for readers without Triton: real sockets,
few features.

    with EmbeddedServer({"emmichel": "emmichel.onnx"}) as server:
        Sonic([server.address], EMMICHEL)

    python -m service.embedded '{"models": {"emmichel": "emmichel.onnx"}}'    # prints its port

It answers /v2/health/live and /ready, /v2/models/NAME with /ready and /infer, and /metrics in
Prometheus's text format under Triton's names. HTTP is uvicorn's; batches are `batcher`'s. It
has no gRPC, no shared memory, no versions of models, and binds to this machine alone.
"""

import asyncio
import json
import signal
import socket
import sys
import threading
import time

import numpy as np
from sonic import HEADER, BadMessage, pack, unpack

from .batcher import Batcher, Overloaded

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
STATUS = {
    Overloaded: 503,
    BadMessage: 400,
    ValueError: 400,
    LookupError: 404,
    RuntimeError: 500,
}


class EmbeddedServer:
    """Serves models {name: path of an ONNX file, or a function with `inputs` and `outputs`}.

    Other options go to each model's `Batcher`; `threads` are those of one instance. `address`
    is host:port, `batchers` {name: Batcher}.
    """

    def __init__(self, models, threads=1, port=0, **options):
        from .onnx_model import OnnxModel

        made = {n: m if callable(m) else OnnxModel(m, threads) for n, m in models.items()}
        self.models, self.options, self.port = made, options, port

    def __enter__(self):
        import uvicorn

        made = {name: Batcher(model, **self.options) for name, model in self.models.items()}
        # asyncio sends small answers at once only where the socket names its protocol; else the
        # body waits for the client's delayed acknowledgement of the header, some 40 ms
        self.door = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self.door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.door.bind(("127.0.0.1", self.port))
        self.batchers = made
        self.address = f"127.0.0.1:{self.door.getsockname()[1]}"
        told = {"log_level": "error", "lifespan": "off", "ws": "none", "interface": "asgi3"}
        told |= {"timeout_keep_alive": 60, "timeout_graceful_shutdown": 3, "backlog": 512}
        self.server = uvicorn.Server(uvicorn.Config(self._app, **told))
        served = self.server.serve(sockets=[self.door])
        self.thread = threading.Thread(target=asyncio.run, args=[served], daemon=True)
        self.thread.start()
        while not self.server.started and self.thread.is_alive():
            time.sleep(0.005)
        return self

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join()
        for batcher in self.batchers.values():
            batcher.stop()
        self.door.close()

    async def _app(self, scope, receive, send):
        """One request: ASGI."""
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        try:
            body = await _body(receive, headers)
            answer, more = await self._answer(scope["method"], scope["path"], body, headers)
            status, kind = 200, more.pop("content-type", "application/json")
        except tuple(STATUS) as error:
            status = next(code for one, code in STATUS.items() if isinstance(error, one))
            answer = json.dumps({"error": str(error.args[0])}).encode()
            kind, more = "application/json", {}
        pairs = {"content-type": kind, "content-length": str(len(answer))} | more
        pairs = [(name.encode(), value.encode()) for name, value in pairs.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": answer})

    async def _answer(self, method, path, body, headers):
        """(body, headers); raises what `STATUS` knows."""
        parts = path.strip("/").split("/")
        if path == "/metrics":
            return self._metrics().encode(), {"content-type": "text/plain; version=0.0.4"}
        if path in ("/v2/health/live", "/v2/health/ready"):
            return b"", {}
        if parts[:2] != ["v2", "models"] or len(parts) not in (3, 4):
            raise LookupError(f"{path}: no such path")
        name, action = parts[2], parts[3:]
        if name not in self.models:
            raise LookupError(f"model {name!r} is unknown; there are {', '.join(self.models)}")
        if action == ["infer"] and method == "POST":
            return await self._infer(name, body, headers.get(HEADER.lower(), len(body)))
        if action == ["ready"]:
            return b"", {}
        if not action:
            return json.dumps(self._described(name)).encode(), {}
        raise LookupError(f"{method} {path}: no such path")

    async def _infer(self, name, body, header_length):
        arrays, header = unpack(body, header_length, "inputs")
        _fits(arrays, self.models[name].inputs)
        outputs = await asyncio.wrap_future(self.batchers[name].submit(arrays))
        more = {"id": header["id"]} if isinstance(header.get("id"), str) else {}
        answer, length = pack(outputs, "outputs", model_name=name, model_version="1", **more)
        return answer, {"content-type": "application/octet-stream", HEADER: str(length)}

    def _described(self, name):
        def told(tensors):
            kinds = {np.float32: "FP32", np.float64: "FP64", np.int64: "INT64"}
            named = {n: (kinds[kind], [-1, *shape]) for n, (kind, shape) in tensors.items()}
            return [{"name": n, "datatype": k, "shape": s} for n, (k, s) in named.items()]

        model = self.models[name]
        described = {"inputs": told(model.inputs), "outputs": told(model.outputs)}
        return {"name": name, "versions": ["1"], "platform": "onnxruntime"} | described

    def _metrics(self):
        lines = []
        for key, name in COUNTERS.items():
            lines.append(f"# TYPE nv_{name} counter")
            for model, batcher in self.batchers.items():
                lines.append(f'nv_{name}{{model="{model}",version="1"}} {batcher.counts[key]}')
        return "\n".join([*lines, ""])


async def _body(receive, headers):
    """The whole body; raises BadMessage for one that is too large or cut."""
    parts, size, told = [], 0, headers.get("content-length", "0")
    more = told.isdecimal() and int(told) <= MOST_BYTES
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise BadMessage("the client left")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MOST_BYTES:
            break
        if not message.get("more_body"):
            return b"".join(parts)
    raise BadMessage(f"{max(told, str(size), key=len)} bytes came; {MOST_BYTES} are allowed")


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


def main(told):
    """Serves until SIGTERM; prints {"http": port} when ready."""
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    with EmbeddedServer(**json.loads(told)) as server:
        print(json.dumps({"http": int(server.address.rsplit(":", 1)[1])}), flush=True)
        stop.wait()


if __name__ == "__main__":
    main(sys.argv[1])
