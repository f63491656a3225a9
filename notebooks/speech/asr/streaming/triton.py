"""The network behind a real Triton, and the backend that asks it over KServe v2.

Article: "Solving Automatic Speech Recognition Deployment Challenges" (NVIDIA Technical Blog),
whose models are "served using the NVIDIA Triton Inference Server". Past one machine, the front
processes keep the streams and Triton keeps the networks: each scales by itself. What a client
says over its WebSocket stays the same.

    python triton_asr.py --http-port 8000 --grpc-port 8001    # prints {"grpc": ...} when ready
    python asr_server.py --backend 127.0.0.1:8001

The model `quartznet` has inputs `features` (64, T) float32 and `frames` (1) int64, and the
output `log_probs` (S, 29) float32, each with a batch axis before. Triton's batcher joins
requests of one shape; the front pads to a common length, so that all have one.

Legend: B batch, F mel bands, T frames, S output steps, V letters and blank.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

import numpy as np
from acoustic_worker import WorkerFailed
from mel_features import MELS
from quartznet import BLANK
from stream_options import StreamOptions

__all__ = ["MODEL", "TritonBackend", "TritonServer", "available", "main"]

MODEL, START_S = "quartznet", 60
DLPACK = {
    b"pb_utils.Tensor(name, value)": b"pb_utils.Tensor.from_dlpack(name, value)",
    b"input_tensor.as_numpy()": b'__import__("numpy").from_dlpack(input_tensor)',
}


def available():
    """Why Triton cannot be started here, or "" where it can."""
    try:
        import pytriton  # noqa: F401
        import tritonclient.grpc  # noqa: F401
    except ImportError as error:
        return f"{error.name} is not installed here"
    return ""


class TritonBackend:
    """`infer(batch_BFT, frames_B)` over gRPC, as `WorkerPool.infer` does it by a pipe.

    >>> with TritonBackend("127.0.0.1:8001") as backend:
    ...     answer_BSV = backend.infer(np.zeros((2, 64, 84), np.float32))

    Raises WorkerFailed where Triton refuses or does not answer within `seconds`.
    """

    def __init__(self, address, seconds=5.0):
        from tritonclient import grpc

        self.grpc, self.seconds = grpc, seconds
        self.client = grpc.InferenceServerClient(address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def alive(self):
        """Whether Triton says that the model is ready."""
        try:
            return self.client.is_model_ready(MODEL, client_timeout=self.seconds)
        except self.grpc.InferenceServerException:
            return False

    def infer(self, batch_BFT, frames_B=None):
        """Log-probabilities (B, S, V), float32."""
        batch, bands, frames = batch_BFT.shape
        if frames_B is None:
            frames_B = np.full(batch, frames, np.int64)
        inputs = [
            self.grpc.InferInput("features", [batch, bands, frames], "FP32"),
            self.grpc.InferInput("frames", [batch, 1], "INT64"),
        ]
        inputs[0].set_data_from_numpy(np.ascontiguousarray(batch_BFT))
        inputs[1].set_data_from_numpy(frames_B.reshape(-1, 1))
        try:
            found = self.client.infer(MODEL, inputs, client_timeout=self.seconds)
        except self.grpc.InferenceServerException as error:
            raise WorkerFailed(f"Triton: {error.message()}") from error
        return found.as_numpy("log_probs")


class TritonServer:
    """A Triton in a process of its own: `with TritonServer() as triton: triton.grpc`.

    Addresses `http`, `grpc` and `metrics`, all on this machine. RuntimeError with its last
    words if it does not start.
    """

    def __init__(
        self, variant="folded", checkpoint="", device="cpu", max_batch=16, max_delay_us=2000
    ):
        self.command = [sys.executable, str(Path(__file__).resolve()), f"--variant={variant}"]
        self.command += [f"--checkpoint={checkpoint}", f"--max-batch={max_batch}"]
        self.command += [f"--device={device}"]
        self.command += [f"--max-delay-us={max_delay_us}"]
        self.process = None

    def start(self):
        """The server, its process begun but perhaps not ready."""
        ports = free_ports(3)
        names = ("http", "grpc", "metrics")
        flags = [f"--{name}-port={port}" for name, port in zip(names, ports, strict=True)]
        self.http, self.grpc, self.metrics = (f"127.0.0.1:{port}" for port in ports)
        library = sysconfig.get_config_var("LIBDIR")  # its Python stub needs our libpython
        paths = [library, *os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)]
        self.process = subprocess.Popen(
            [*self.command, *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"LD_LIBRARY_PATH": os.pathsep.join(filter(None, paths))},
            start_new_session=True,
        )
        return self

    def wait_ready(self):
        """The server, ready."""
        clock = threading.Timer(START_S, self.process.kill)
        clock.start()
        told = []
        for line in self.process.stdout:
            told.append(line)
            if line.startswith('{"grpc"'):
                break
        else:
            raise RuntimeError(f"Triton did not start: {''.join(told)[-800:]}")
        clock.cancel()
        threading.Thread(target=self.process.stdout.read, daemon=True).start()  # its log
        return self

    def __enter__(self):
        return (self if self.process else self.start()).wait_ready()

    def __exit__(self, *_):
        try:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(5)


def free_ports(count):
    """So many ports of this machine that nobody uses now."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def main(argv=None):
    """Serves until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name, default in (("http", 8000), ("grpc", 8001), ("metrics", 8002)):
        parser.add_argument(f"--{name}-port", type=int, default=default)
    parser.add_argument("--variant", default="folded")
    parser.add_argument("--checkpoint", default="")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--max-batch", type=int, default=16)
    parser.add_argument("--max-delay-us", type=int, default=2000)
    o = parser.parse_args(argv)
    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    with _bound(o) as triton:
        triton.run()
        print(json.dumps({"grpc": o.grpc_port}), flush=True)
        stop.wait()


def _bound(o):
    """A pytriton.Triton with the network bound to it, not yet running."""
    import torch
    from pytriton.decorators import batch
    from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
    from pytriton.triton import Triton
    from quartznet_files import DIGITS_BASE, load_model
    from quartznet_variants import variant

    torch.set_num_threads(1)
    _mend_arrays()
    model = variant(load_model(o.checkpoint or DIGITS_BASE, o.device), o.variant)

    with torch.inference_mode():  # every batch size once, before the first request
        for size in range(1, o.max_batch + 1):
            model(torch.zeros(size, MELS, StreamOptions().window_frames, device=o.device))

    @batch
    @torch.inference_mode()
    def infer(features, frames):
        lengths_B = torch.from_numpy(frames[:, 0]).to(o.device)
        full = bool((lengths_B == features.shape[2]).all())
        found = model(torch.from_numpy(features).to(o.device), None if full else lengths_B)
        return {"log_probs": np.ascontiguousarray(found[0].cpu().numpy())}

    triton = Triton(config=_config(o))
    triton.bind(
        model_name=MODEL,
        infer_func=infer,
        inputs=[
            Tensor(name="features", dtype=np.float32, shape=(MELS, -1)),
            Tensor(name="frames", dtype=np.int64, shape=(1,)),
        ],
        outputs=[Tensor(name="log_probs", dtype=np.float32, shape=(-1, BLANK + 1))],
        config=ModelConfig(
            max_batch_size=o.max_batch,
            batcher=DynamicBatcher(max_queue_delay_microseconds=o.max_delay_us),
        ),
    )
    return triton


def _config(o):
    """pytriton's TritonConfig: this machine's addresses alone, no metrics of a GPU."""
    from pytriton.triton import TritonConfig

    ports = {"http": o.http_port, "grpc": o.grpc_port, "metrics": o.metrics_port}
    config = {f"{name}_port": port for name, port in ports.items()}
    config |= {f"{name}_address": "127.0.0.1" for name in ports}
    return TritonConfig(allow_gpu_metrics=False, **config)


def _mend_arrays():
    """Lets Triton's Python stub exchange arrays through DLPack where NumPy is 2 or later.

    The stub that pytriton 0.7.0 brings was built for NumPy 1. NumPy 2 moved the field that
    holds an element's size, and the stub reads 0 there: inputs repeat their first element, and
    outputs come back empty.
    """
    from pytriton.models.model import Model

    made = Model.get_proxy_model_files
    if int(np.__version__.split(".")[0]) < 2 or getattr(made, "mended", False):
        return

    def mended(self):
        files = made(self)
        for name, text in files.items():
            for old, new in DLPACK.items():
                text = text.replace(old, new)
            files[name] = text
        return files

    mended.mended = True
    Model.get_proxy_model_files = mended


if __name__ == "__main__":
    main()
