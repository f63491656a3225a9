"""DLRM behind the real Triton Inference Server: latency and hit rate against the batch.

    make race CHAPTERS=recsys/parameter_server BENCH=serving

It runs in the environment of the card's peers. Under NumPy 2 that server answers with the right
shape and no data, so this file refuses it. The page's three ways are models of one server, each
of two instances with a dense part of its own. Those of the hierarchy share one cache of 10 %;
the threshold is 1.0, so every request waits for what it lacks. The law is the article's, solved
for this table. Every answer is compared with the model's own.
"""

import argparse
import collections
import contextlib
import functools
import os
import socket
import sysconfig
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from embedding_hierarchy import ParameterServer, exponent_for
from helpers import bench, check, device, receipts
from storage_tiers import InProcess, Rocks

from .click_world import ClickWorld
from .dlrm import Dlrm, all_on_cpu, hierarchy, tables_on_cpu

BATCHES = (1, 4, 16, 64, 256, 1024)
OTHERS = {"all_on_cpu": "cpu_ms", "tables_on_cpu": "tables_ms"}


@contextlib.contextmanager
def triton_of(models, world):
    """The HTTP address of a Triton server of {name: a function for each instance}."""
    library = sysconfig.get_config_var("LIBDIR")  # Triton's Python stub needs our libpython
    paths = [library, os.environ.get("LD_LIBRARY_PATH", "")]
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    from pytriton.model_config import ModelConfig, Tensor
    from pytriton.triton import Triton, TritonConfig

    names = ("http", "grpc", "metrics")
    told = {f"{name}_address": "127.0.0.1" for name in names}
    with contextlib.ExitStack() as held:
        for name in names:
            port = held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            told[f"{name}_port"] = port
    inputs = [Tensor(name="numbers", dtype=np.float32, shape=(world.numbers,))]
    inputs += [Tensor(name="keys", dtype=np.int64, shape=(world.features,))]
    outputs = [Tensor(name="chance", dtype=np.float32, shape=(1,))]
    with Triton(config=TritonConfig(allow_gpu_metrics=False, **told)) as triton:
        most = ModelConfig(max_batch_size=max(BATCHES), batching=True)
        for name, scores in models.items():
            served = [_served(one) for one in scores]
            triton.bind(name, served, inputs, outputs, config=most)
        triton.run()
        yield f"127.0.0.1:{told['http_port']}"


def _served(score):
    from pytriton.decorators import batch

    @batch
    def infer(numbers, keys):
        # the server's buffers go when the call ends: copies are ours
        made = torch.from_numpy(numbers.copy()), torch.from_numpy(keys.copy())
        return {"chance": score(*made).numpy()[:, None]}

    return infer


def measured(address, world, table, truth, rounds):
    """(columns by batch: milliseconds of each way, and the hit rate; the hierarchy's
    milliseconds at the last batch, a number for each round). AssertionError if wrong."""
    import tritonclient.http as client

    line, rng = client.InferenceServerClient(address), np.random.default_rng(5)
    ask = functools.partial(_ask, client, line, world, truth, rng)
    ends = time.monotonic() + 120
    while len(table.cache.dump()) < 0.95 * table.cache.capacity and time.monotonic() < ends:
        ask("hierarchy", max(BATCHES))  # until the cache is full
    columns = collections.defaultdict(list)
    for many in BATCHES:
        for _ in range(5):
            ask("hierarchy", many)
        before, took = table.counts.copy(), collections.defaultdict(list)
        for _ in range(rounds):
            for name in ("hierarchy", *OTHERS):  # in turns
                took[name].append(ask(name, many))
        keys, hits = (table.counts[name] - before[name] for name in ("keys", "hits"))
        own = took["hierarchy"]
        row = {"batch": many, "latency_ms": np.median(own), "p99_ms": np.percentile(own, 99)}
        row |= {"hit_rate": hits / keys}
        row |= {short: np.median(took[name]) for name, short in OTHERS.items()}
        for name, value in row.items():
            columns[name].append(float(value))
    line.close()
    return columns, own


def _ask(client, line, world, truth, rng, name, many):
    numbers, keys, _ = world.draw(many, rng)
    asked = []
    for part, values, kind in (("numbers", numbers, "FP32"), ("keys", keys, "INT64")):
        asked.append(client.InferInput(part, values.shape, kind))
        asked[-1].set_data_from_numpy(values.numpy())
    began = time.perf_counter()
    answer = line.infer(name, asked).as_numpy("chance")[:, 0]
    took = 1e3 * (time.perf_counter() - began)
    check.close(answer, truth(numbers, keys), atol=1e-5, why="float32 sums in another order")
    return took


def main(arguments=None):
    """Serves, asks, prints the curve, writes the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=200, help="requests of each way")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--categories", type=int, default=25_000, help="of each feature")
    options = parser.parse_args(arguments)
    if int(np.__version__.split(".")[0]) > 1 or not find_spec("pytriton"):
        return print("left out: it needs pytriton and NumPy below 2 (see the text at the top)")
    torch.set_num_threads(options.threads)
    hot = max(1, round(options.categories * 305 / 188_000))
    exponent = exponent_for(options.categories, hot, 0.959)
    world = ClickWorld(categories=options.categories, exponent=exponent)
    model = Dlrm(world, 64).eval().requires_grad_(False)
    where = device.tier()
    receipt = receipts.start("parameter_server", where, threads=options.threads)
    receipt.sizes(rows=world.rows, width=64, features=world.features, slots=world.rows // 10)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        tier = stack.enter_context(Rocks(Path(folder, "db"), {"dlrm.all": 64}))
        tier.load("dlrm.all", np.arange(world.rows), model.table.weight.numpy())
        server = stack.enter_context(ParameterServer(tier, InProcess(world.rows // 4)))
        table = server.deploy("dlrm.all", cache_rows=world.rows // 10, device=where.device)
        weight = model.table.weight
        models = {
            "hierarchy": [hierarchy(model, table) for _ in range(2)],
            "all_on_cpu": [all_on_cpu(model, weight) for _ in range(2)],
            "tables_on_cpu": [tables_on_cpu(model, weight, where.device) for _ in range(2)],
        }
        address = stack.enter_context(triton_of(models, world))
        truth = all_on_cpu(model, weight)
        columns, own_ms = measured(address, world, table, truth, options.rounds)
    receipt.curve("triton_by_batch", **columns)
    receipt.record("triton_latency", bench.spread(own_ms), "ms")
    receipt.record("cache_full", 100 * len(table.cache.dump()) / table.cache.capacity, "%")
    for row in zip(*columns.values(), strict=True):
        print(dict(zip(columns, row, strict=True)))
    print(receipt.write(name="serving"))


if __name__ == "__main__":
    main()
