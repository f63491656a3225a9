"""A server of KServe's protocol v2 in this process, for readers without Triton: real sockets,
few features.

    with EmbeddedServer({"emmichel": "emmichel.onnx"}) as server:
        Sonic([server.address], EMMICHEL)

    python -m service.embedded --model emmichel=emmichel.onnx    # as a process; prints its port

It answers /v2/health/live and /ready, /v2/models/NAME with /ready and /infer, and /metrics in
Prometheus's text format under Triton's names. HTTP is uvicorn's; batches are `batcher`'s. It
has no gRPC, no shared memory, no versions of models, and binds to this machine alone.
"""

import argparse
import asyncio
import json
import signal
import socket
import threading
import time

import numpy as np
from sonic import HEADER, BadMessage, pack, unpack

from .batcher import Batcher, Overloaded

__all__ = ["EmbeddedServer", "add_options", "main"]

MOST_BYTES = 256 * 2**20  # of a request
COUNTERS = {
    "success": "inference_request_success",
    "failure": "inference_request_failure",
    "count": "inference_count",
    "exec_count": "inference_exec_count",
    "queue_us": "inference_queue_duration_us",
    "infer_us": "inference_compute_infer_duration_us",
}


class EmbeddedServer:
    """Serves models {name: path of an ONNX file, or a function with `inputs` and `outputs`}.

    Other options go to each model's `Batcher`; `threads` are those of one instance. `address`
    is host:port, `batchers` {name: Batcher}.
    """

    def __init__(self, models, threads=1, port=0, **options):
        from .onnx_model import OnnxModel

        self.models = {
            n: m if callable(m) else OnnxModel(m, threads) for n, m in models.items()
        }
        self.options, self.port = options, port

    def __enter__(self):
        import uvicorn

        self.batchers = {
            name: Batcher(model, **self.options) for name, model in self.models.items()
        }
        self.door = socket.create_server(("127.0.0.1", self.port), backlog=512)
        self.address = f"127.0.0.1:{self.door.getsockname()[1]}"
        quiet = {
            "log_level": "error",
            "lifespan": "off",
            "ws": "none",
            "interface": "asgi3",
            "timeout_keep_alive": 60,
        }
        self.server = uvicorn.Server(
            uvicorn.Config(self._app, timeout_graceful_shutdown=3, **quiet)
        )
        self.thread = threading.Thread(target=self._run, daemon=True)
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

    def _run(self):
        asyncio.run(self.server.serve(sockets=[self.door]))

    async def _app(self, scope, receive, send):
        """One request: ASGI."""
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        try:
            body = await _body(receive, headers)
            status, kind, answer, more = await self._answer(
                scope["method"], scope["path"], body, headers
            )
        except Overloaded as error:
            status, kind, answer, more = 503, *_told(str(error))
        except (BadMessage, ValueError) as error:
            status, kind, answer, more = 400, *_told(str(error))
        except LookupError as error:
            status, kind, answer, more = 404, *_told(str(error.args[0]))
        except RuntimeError as error:
            status, kind, answer, more = 500, *_told(str(error))
        pairs = {"content-type": kind, "content-length": str(len(answer))} | more
        pairs = [(name.encode(), value.encode()) for name, value in pairs.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": answer})

    async def _answer(self, method, path, body, headers):
        parts = path.strip("/").split("/")
        if path == "/metrics":
            return 200, "text/plain; version=0.0.4", self._metrics().encode(), {}
        if path in ("/v2/health/live", "/v2/health/ready"):
            return 200, "text/plain", b"", {}
        if parts[:2] != ["v2", "models"] or len(parts) not in (3, 4):
            raise LookupError(f"{path}: no such path")
        if parts[2] not in self.models:
            raise LookupError(
                f"model {parts[2]!r} is unknown; there are {', '.join(self.models)}"
            )
        if parts[3:] == ["infer"] and method == "POST":
            return await self._infer(parts[2], body, headers.get(HEADER.lower()))
        if parts[3:] == ["ready"]:
            return 200, "text/plain", b"", {}
        if len(parts) == 3:
            return 200, "application/json", json.dumps(self._described(parts[2])).encode(), {}
        raise LookupError(f"{method} {path}: no such path")

    async def _infer(self, name, body, header_length):
        arrays, header = unpack(body, header_length, "inputs")
        _fits(arrays, self.models[name].inputs)
        outputs = await asyncio.wrap_future(self.batchers[name].submit(arrays))
        more = {"id": header["id"]} if isinstance(header.get("id"), str) else {}
        answer, length = pack(outputs, "outputs", model_name=name, model_version="1", **more)
        return 200, "application/octet-stream", answer, {HEADER: str(length)}

    def _described(self, name):
        def told(tensors):
            kinds = {np.float32: "FP32", np.float64: "FP64", np.int64: "INT64"}
            return [
                {"name": n, "datatype": kinds[k], "shape": [-1, *s]}
                for n, (k, s) in tensors.items()
            ]

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


def _told(words):
    return "application/json", json.dumps({"error": words}).encode(), {}


async def _body(receive, headers):
    """The whole body; raises BadMessage for one that is too large or cut."""
    parts, size = [], 0
    if int(headers.get("content-length") or 0) > MOST_BYTES:
        raise BadMessage(f"{headers['content-length']} bytes came; {MOST_BYTES} are allowed")
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise BadMessage("the client left")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MOST_BYTES:
            raise BadMessage(f"more than {MOST_BYTES} bytes came")
        if not message.get("more_body"):
            return b"".join(parts)


def _fits(arrays, inputs):
    """None, where arrays are what the model takes; raises BadMessage."""
    if set(arrays) != set(inputs):
        raise BadMessage(f"inputs {sorted(arrays)} came; {sorted(inputs)} are needed")
    rows = {len(values) if values.ndim else None for values in arrays.values()}
    for name, (dtype, shape) in inputs.items():
        came = arrays[name]
        if came.dtype != dtype or came.shape[1:] != shape or len(rows) != 1:
            needed = f"{np.dtype(dtype)} of shape (rows, {', '.join(map(str, shape))})"
            raise BadMessage(
                f"{name}: {came.dtype} of shape {came.shape} came; {needed} is needed"
            )


def add_options(parser):
    """None; the options of a server process, Triton's and ours alike."""
    parser.add_argument("--model", action="append", required=True, help="NAME=FILE.onnx")
    for name, value in {
        "max-batch": 512,
        "delay-us": 2000,
        "instances": 1,
        "threads": 1,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--port", type=int, default=0, help="of HTTP; 0: a free one")
    parser.add_argument("--preferred", type=int, nargs="*", default=[])
    parser.add_argument("--no-batching", action="store_true")


def main(argv=None):
    """Serves until SIGTERM; prints {"http": port} when ready."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add_options(parser)
    o, stop = parser.parse_args(argv), threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    options = {"max_batch": o.max_batch, "delay_us": o.delay_us, "preferred": o.preferred}
    options |= {"instances": o.instances, "batching": not o.no_batching}
    models = dict(one.split("=", 1) for one in o.model)
    with EmbeddedServer(models, o.threads, o.port, **options) as server:
        print(json.dumps({"http": int(server.address.rsplit(":", 1)[1])}), flush=True)
        stop.wait()


if __name__ == "__main__":
    main()
