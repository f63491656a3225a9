"""The models behind NVIDIA's Triton Inference Server. Runs in an environment of its own, by
file name:

    PYTHON service/triton_models.py --model emmichel=emmichel.onnx    # prints its ports when
    ready

PYTHON has `nvidia-pytriton==0.7.0 numpy==1.26.4 onnxruntime==1.31.1` and nothing of this book.
Under NumPy 2 that Triton's Python stub answers with arrays of the right shape and no data, so
this file refuses to start there. The wheel holds Triton's Python backend alone: ONNX runs
inside its callables, one for each instance.
"""

import argparse
import json
import os
import signal
import socket
import sys
import sysconfig
import threading

PORTS = "http", "grpc", "metrics"


def options():
    """The command line; the same names as `service.embedded`'s."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
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
    return parser.parse_args()


def free_port():
    """A port that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        return held.getsockname()[1]


def served(model):
    """Triton's callable of one instance: requests in, batched arrays out."""
    from pytriton.decorators import batch

    @batch
    def infer(**arrays):
        return model(arrays)

    return infer


def bind(triton, name, path, o):
    """None; the model of a file, bound under a name."""
    from onnx_model import OnnxModel
    from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor

    models = [OnnxModel(path, o.threads) for _ in range(o.instances)]
    waits = DynamicBatcher(
        max_queue_delay_microseconds=o.delay_us, preferred_batch_size=o.preferred or None
    )
    tensors = [
        [Tensor(name=n, dtype=dtype, shape=shape) for n, (dtype, shape) in part.items()]
        for part in (models[0].inputs, models[0].outputs)
    ]
    triton.bind(
        model_name=name,
        infer_func=[served(model) for model in models],
        inputs=tensors[0],
        outputs=tensors[1],
        config=ModelConfig(
            max_batch_size=o.max_batch, batcher=None if o.no_batching else waits
        ),
        strict=True,
    )


def main():
    """Serves until SIGTERM."""
    import numpy

    if int(numpy.__version__.split(".")[0]) > 1:
        sys.exit(
            f"numpy {numpy.__version__} came; below 2 is needed, or answers lose their data"
        )
    library = sysconfig.get_config_var("LIBDIR")  # Triton's Python stub needs our libpython
    paths = [library, os.environ.get("LD_LIBRARY_PATH", "")]
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    from pytriton.triton import Triton, TritonConfig, TritonSecurityConfig

    o, stop = options(), threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    ports = {name: free_port() for name in PORTS} | ({"http": o.port} if o.port else {})
    addresses = {f"{name}_port": port for name, port in ports.items()}
    addresses |= {f"{name}_address": "127.0.0.1" for name in ports}
    open_all = TritonSecurityConfig(
        restricted_endpoints=[]
    )  # statistics, on this machine alone
    config = TritonConfig(allow_gpu_metrics=False, **addresses)
    with Triton(config=config, security_config=open_all) as triton:
        for one in o.model:
            bind(triton, *one.split("=", 1), o)
        triton.run()
        print(json.dumps(ports), flush=True)
        stop.wait()


if __name__ == "__main__":
    main()
