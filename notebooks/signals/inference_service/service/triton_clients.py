"""Our client beside NVIDIA's, asking one Triton server for the same block, in turn, and the
model in this process: milliseconds, printed, every answer checked. For Triton's environment:

    PYTHON service/triton_clients.py '{"ports": {…}, "events": "events.npz", "rows": 256, …}'
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import tritonclient.grpc as nvidia_grpc
import tritonclient.http as nvidia_http
from onnx_model import OnnxModel

sys.path.insert(0, str(Path(__file__).parent.parent))
from sonic import Model, Sonic  # noqa: E402  it needs NumPy alone


def nvidia(library, port, model, patches):
    """A function that asks with a tritonclient: its outputs, in order."""
    client = library.InferenceServerClient(f"127.0.0.1:{port}")

    def ask():
        sent = library.InferInput(model.input, list(patches.shape), "FP32")
        sent.set_data_from_numpy(patches)
        wanted = [library.InferRequestedOutput(name) for name in model.outputs]
        found = client.infer(model.name, [sent], outputs=wanted)
        return [found.as_numpy(name) for name in model.outputs]

    return ask


def main(ports, events, rows, model_file, rounds=20):
    """{client: its times in ms}, interleaved."""
    with np.load(events) as file:
        model, patches = Model(**json.loads(str(file["model"]))), file["patches"][:rows]
        wanted = [file[f"output_{i}"][:rows] for i in range(len(model.outputs))]
    here, times = OnnxModel(model_file), {}
    with Sonic([f"127.0.0.1:{ports['http']}"], model) as ours:
        ways = {"no_server": lambda: here({model.input: patches}).values()}
        ways["ours_http"] = lambda: ours(patches)
        ways["nvidia_http"] = nvidia(nvidia_http, ports["http"], model, patches)
        ways["nvidia_grpc"] = nvidia(nvidia_grpc, ports["grpc"], model, patches)
        for number in range(rounds + 2):  # two to warm up
            for way, ask in ways.items():
                began = time.perf_counter()
                found = ask()
                took_ms = 1000 * (time.perf_counter() - began)
                for got, want in zip(found, wanted, strict=True):
                    np.testing.assert_allclose(got, want, atol=1e-4)
                times.setdefault(way, []).extend([took_ms] * (number > 1))
    return times


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
