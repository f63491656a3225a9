"""The race: the network on blocks of patches, by torch and by ONNX Runtime, by size of block.

    python -m emmichel.bench_emmichel               # from the slice's folder; a receipt

All must agree before they are timed. The same network, the same patches, the same threads. On a
GPU it also records how many times as fast the network and the whole chain become, for one event
on the same machine: its CPU with all threads, its GPU.
"""

import argparse
import tempfile
from functools import partial

import numpy as np
import torch
from helpers import bench, check, device, receipts
from lartpc import Detector, draw_primaries, simulate
from reconstruction import prepare, reconstruct
from service.onnx_model import OnnxModel

from .network import infer
from .onnx_file import save_onnx
from .training import load_network

BLOCKS = 1, 8, 32, 128, 256, 512


def one_event():
    """A simulated event, its patches."""
    place, rng = Detector(), np.random.default_rng(0)
    event = simulate(draw_primaries(place, rng, muons=20, stopping=20), place, rng)
    return event, prepare(event)[2]


def faster(receipt, rounds, where):
    """None; records the speed-ups of the network and of the chain on a GPU."""
    event, patches = one_event()
    ways = {"CPU": partial(infer, load_network())}
    ways["GPU"] = partial(infer, load_network(device=where), batch=2_048)
    alone = {name: partial(way, patches) for name, way in ways.items()}
    whole = {name: partial(reconstruct, event, way) for name, way in ways.items()}
    for metric, rivals in (("network_speedup", alone), ("workflow_speedup", whole)):
        found = bench.race(
            rivals, max(3, rounds // 4), device="cpu"
        )  # by the clock on the wall
        receipt.record(metric, found.ratios["GPU"], device=where)


def main(argv=None):
    """Race and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    o, tier = parser.parse_args(argv), device.tier("auto")
    torch.set_num_threads(o.threads)
    network, (_, patches) = load_network(), one_event()
    receipt = receipts.start("inference_service", tier, threads=o.threads)
    rates = {"torch": [], "ONNX Runtime": []}
    with tempfile.TemporaryDirectory() as folder:
        model = OnnxModel(save_onnx(network, f"{folder}/network.onnx"), o.threads)
        for block in BLOCKS:
            rows = patches[:block]
            ours = partial(infer, network, rows, block)
            theirs = partial(
                lambda rows: tuple(model({"patches": rows}).values()), rows.numpy()
            )
            for got, want in zip(theirs(), ours(), strict=True):
                check.close(got, want, atol=1e-5, why="other orders of sums, float32")
            found = bench.race({"torch": ours, "ONNX Runtime": theirs}, o.rounds)
            for name, rate in rates.items():
                rate.append(block / found.results[name].median_s)
    columns = {"torch_per_s": rates["torch"], "onnx_per_s": rates["ONNX Runtime"]}
    receipt.curve("blocks", block=BLOCKS, **columns)
    receipt.record("torch_rate", max(rates["torch"]), "patches/s")
    receipt.record("onnx_rate", max(rates["ONNX Runtime"]), "patches/s")
    if tier.device != "cpu":
        faster(receipt, o.rounds, tier.device)
    print(receipt.write("network"))


if __name__ == "__main__":
    main()
