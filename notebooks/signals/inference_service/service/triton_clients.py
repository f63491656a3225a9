"""Our client beside NVIDIA's, asking one Triton server for the same block, in turn. Runs in
Triton's environment, by file name; prints milliseconds for each:

    PYTHON service/triton_clients.py '{"ports": {…}, "events": "events.npz", "rows": 256}'

HTTP and gRPC are tritonclient's; with shared memory the block stays in a region that both
processes map, and only its name is sent. Each answer is checked before the next is asked for.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import tritonclient.grpc as nvidia_grpc
import tritonclient.http as nvidia_http
import tritonclient.utils.shared_memory as shared

sys.path.insert(0, str(Path(__file__).parent.parent))
from sonic import Model, Sonic  # noqa: E402  it needs NumPy alone


def nvidia(library, client, model, patches, region=None):
    """A function that asks with a tritonclient: its outputs, in order."""

    def ask():
        sent = library.InferInput(model.input, list(patches.shape), "FP32")
        if region is None:
            sent.set_data_from_numpy(patches)
        else:
            shared.set_shared_memory_region(region, [patches])
            sent.set_shared_memory("block", patches.nbytes)
        wanted = [library.InferRequestedOutput(name) for name in model.outputs]
        found = client.infer(model.name, [sent], outputs=wanted)
        return [found.as_numpy(name) for name in model.outputs]

    return ask


def main(ports, events, rows, rounds=20):
    """{client: its times in ms}, interleaved."""
    with np.load(events) as file:
        model = Model(**json.loads(str(file["model"])))
        patches = file["patches"][:rows]
        wanted = [file[f"output_{i}"][:rows] for i in range(len(model.outputs))]
    http = nvidia_http.InferenceServerClient(f"127.0.0.1:{ports['http']}")
    grpc = nvidia_grpc.InferenceServerClient(f"127.0.0.1:{ports['grpc']}")
    region = shared.create_shared_memory_region("block", "/rebuilt_block", patches.nbytes)
    grpc.register_system_shared_memory("block", "/rebuilt_block", patches.nbytes)
    try:
        with Sonic([f"127.0.0.1:{ports['http']}"], model) as ours:
            ways = {"ours_http": lambda: ours(patches)}
            ways["nvidia_http"] = nvidia(nvidia_http, http, model, patches)
            ways["nvidia_grpc"] = nvidia(nvidia_grpc, grpc, model, patches)
            ways["nvidia_shared_memory"] = nvidia(nvidia_grpc, grpc, model, patches, region)
            times = {way: [] for way in ways}
            for number in range(rounds + 2):
                for way, ask in ways.items():
                    began = time.perf_counter()
                    found = ask()
                    took = time.perf_counter() - began
                    for got, want in zip(found, wanted, strict=True):
                        np.testing.assert_allclose(got, want, atol=1e-4)
                    times[way] += [1000 * took] * (number > 1)  # two to warm up
    finally:
        grpc.unregister_system_shared_memory("block")
        shared.destroy_shared_memory_region(region)
    return times


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
