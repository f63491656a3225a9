"""The models behind NVIDIA's Triton Inference Server. Runs in an environment of its own, by
file name; prints its ports when ready:

    PYTHON service/triton_models.py '{"models": {"emmichel": "emmichel.onnx"}, "delay_us": 500}'

PYTHON has launch.py's `PINS`. Under NumPy 2 that Triton's stub answers with arrays of the right
shape and no data, so this file refuses to start there. The wheel holds the Python backend
alone: ONNX runs inside its callables, one an instance.
"""

import json
import os
import signal
import socket
import sys
import sysconfig
import threading

OPTIONS = {"max_batch": 512, "delay_us": 2000, "preferred": (), "instances": 1, "threads": 1}
OPTIONS |= {"no_batching": False, "port": 0, "repository": None}


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

    models = [OnnxModel(path, o["threads"]) for _ in range(o["instances"])]
    waits = {"max_queue_delay_microseconds": o["delay_us"]}
    waits["preferred_batch_size"] = list(o["preferred"]) or None
    batcher = None if o["no_batching"] else DynamicBatcher(**waits)
    inputs, outputs = (
        [Tensor(name=n, dtype=dtype, shape=shape) for n, (dtype, shape) in part.items()]
        for part in (models[0].inputs, models[0].outputs)
    )
    config = ModelConfig(max_batch_size=o["max_batch"], batcher=batcher)
    triton.bind(name, [served(one) for one in models], inputs, outputs, 1, config, strict=True)


def main(told):
    """Serves until SIGTERM."""
    import numpy

    if int(numpy.__version__.split(".")[0]) > 1:
        sys.exit(f"numpy {numpy.__version__} came; below 2 is needed: answers lose their data")
    library = sysconfig.get_config_var("LIBDIR")  # Triton's Python stub needs our libpython
    paths = [library, os.environ.get("LD_LIBRARY_PATH", "")]
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    from pytriton.triton import Triton, TritonConfig

    o, stop = OPTIONS | told, threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    ports, names = {}, ("http", "grpc", "metrics")
    held = [socket.create_server(("127.0.0.1", 0)) for _ in names]
    ports = {name: one.getsockname()[1] for name, one in zip(names, held, strict=True)}
    for one in held:
        one.close()
    ports |= {"http": o["port"]} if o["port"] else {}
    addresses = {f"{name}_port": port for name, port in ports.items()}
    addresses |= {f"{name}_address": "127.0.0.1" for name in ports}
    addresses |= {"model_repository": o["repository"]} if o["repository"] else {}
    config = TritonConfig(allow_gpu_metrics=False, **addresses)
    with Triton(config=config) as triton:
        for name, path in o["models"].items():
            bind(triton, name, path, o)
        triton.run()
        print(json.dumps(ports), flush=True)
        stop.wait()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
