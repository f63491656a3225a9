"""The network behind a real Triton, and the backend that asks it over KServe v2.

The article's models are "served using the NVIDIA Triton Inference Server". Past one machine,
the fronts keep the streams and Triton keeps the networks; clients notice nothing. The model
`quartznet` takes `features` (64, T) float32 and `frames` (1) int64 and gives `log_probs` (S,
29), each with a batch axis before; Triton's batcher joins requests of one shape, so the front
pads.

    python -m serving.triton_backend    # prints its three ports when ready
    python -m serving.server --backend 127.0.0.1:8001    # the port of gRPC"""

import argparse
import contextlib
import json
import os
import signal
import socket
import sysconfig
import threading
from importlib.util import find_spec

import numpy as np
from quartznet import BLANK, MELS
from streaming import StreamOptions, WorkerFailed, computed, warmed

MODEL, PORTS = "quartznet", ("http", "grpc", "metrics")
DLPACK = {
    b"pb_utils.Tensor(name, value)": b"pb_utils.Tensor.from_dlpack(name, value)",
    b"input_tensor.as_numpy()": b'__import__("numpy").from_dlpack(input_tensor)',
}


def available():
    """Why Triton cannot be started here, or "" where it can."""
    missing = [name for name in ("pytriton", "tritonclient") if not find_spec(name)]
    return f"{missing[0]} is not installed here" if missing else ""


class TritonBackend:
    """`infer(batch_BFT, frames_B)` over gRPC, as `WorkerPool.infer` does it by a pipe: `with
    TritonBackend("127.0.0.1:8001") as backend: ...`. Raises WorkerFailed where Triton refuses
    or does not answer within `seconds`."""

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
        frames_B = np.full(batch, frames, np.int64) if frames_B is None else frames_B
        sound = self.grpc.InferInput("features", [batch, bands, frames], "FP32")
        sound.set_data_from_numpy(np.ascontiguousarray(batch_BFT))
        length = self.grpc.InferInput("frames", [batch, 1], "INT64")
        length.set_data_from_numpy(frames_B.reshape(-1, 1))
        try:
            found = self.client.infer(MODEL, [sound, length], client_timeout=self.seconds)
        except self.grpc.InferenceServerException as error:
            raise WorkerFailed(f"Triton: {error.message()}") from error
        return found.as_numpy("log_probs")


def main(argv=None):
    """Serves until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name, value in (("variant", "folded"), ("checkpoint", ""), ("device", "cpu")):
        parser.add_argument(f"--{name}", default=value)
    for name, value in (("max-batch", 16), ("max-delay-us", 2000)):
        parser.add_argument(f"--{name}", type=int, default=value)
    o, stop = parser.parse_args(argv), threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    library = sysconfig.get_config_var("LIBDIR")  # Triton's Python stub needs our libpython
    paths = [library, os.environ.get("LD_LIBRARY_PATH", "")]
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    with contextlib.ExitStack() as held:  # all at once, so that no two are one
        free = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in PORTS]
        ports = {name: one.getsockname()[1] for name, one in zip(PORTS, free, strict=True)}
    with _bound(o, ports) as triton:
        triton.run()
        print(json.dumps(ports), flush=True)
        stop.wait()


def _bound(o, ports):
    """A pytriton.Triton with the network bound to it, not yet running."""
    import torch
    from pytriton.decorators import batch
    from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
    from pytriton.triton import Triton, TritonConfig

    torch.set_num_threads(1)
    _mend_arrays()
    frames = StreamOptions().window_frames
    model = warmed(o.variant, o.checkpoint, o.device, o.max_batch, frames)

    @batch
    def infer(features, frames):
        full = (frames == features.shape[2]).all()
        found_BSV = computed(model, features, None if full else frames[:, 0])
        return {"log_probs": np.ascontiguousarray(found_BSV)}

    addresses = {f"{name}_port": port for name, port in ports.items()}
    addresses |= {f"{name}_address": "127.0.0.1" for name in ports}
    triton = Triton(config=TritonConfig(allow_gpu_metrics=False, **addresses))
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


def _mend_arrays():
    """Lets Triton's Python stub exchange arrays through DLPack where NumPy is 2 or later: that
    of pytriton 0.7.0 was built for NumPy 1, whose field of an element's size has moved, and the
    stub reads 0 there (inputs repeat their first element, outputs are empty)."""
    from pytriton.models.model import Model

    made = Model.get_proxy_model_files

    def mended(self):
        files = made(self)
        for old, new in DLPACK.items():
            files = {name: text.replace(old, new) for name, text in files.items()}
        return files

    if int(np.__version__.split(".")[0]) >= 2:
        Model.get_proxy_model_files = mended


if __name__ == "__main__":
    main()
