"""The race: the network on blocks of patches, by torch and by ONNX Runtime, by size of block.

    python -m emmichel.bench_emmichel               # from the slice's folder: 20 rounds; a
    receipt

All must agree before they are timed. The same network, the same patches, the same threads.
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

from .network import EmMichelTrack, infer
from .onnx_file import save_onnx

BLOCKS = 1, 8, 32, 128, 256, 512


def contestants(network, path, patches, threads, where="cpu"):
    """The functions to race by name, each from the same patches (N, 48, 48) to both outputs."""
    model = OnnxModel(path, threads)
    return {
        "torch": lambda: infer(network, patches, len(patches)),
        "ONNX Runtime": lambda: tuple(model({"patches": patches.numpy()}).values()),
    }


def faster(receipt, network, rounds, where):
    """Records how many times as fast the network and the whole chain become on a GPU, for one
    event on the same machine: its CPU with all threads, its GPU."""
    place, rng = Detector(), np.random.default_rng(0)
    event = simulate(draw_primaries(place, rng, muons=20, stopping=20), place, rng)
    _, _, patches = prepare(event)
    here = EmMichelTrack().eval()
    here.load_state_dict({name: x.cpu() for name, x in network.state_dict().items()})
    ways = {"CPU": lambda p: infer(here, p), "GPU": lambda p: infer(network, p, 2_048)}
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
    torch.manual_seed(0)
    network = EmMichelTrack().eval().to(tier.device)
    receipt = receipts.start("inference_service", tier, threads=o.threads)
    rates = {"torch": [], "onnx": []}
    with tempfile.TemporaryDirectory() as folder:
        path = save_onnx(network, f"{folder}/network.onnx")
        network.to(tier.device)
        for block in BLOCKS:
            rivals = contestants(network, path, torch.randn(block, 48, 48), o.threads)
            for got, want in zip(*(rival() for rival in rivals.values()), strict=True):
                check.close(got, want, atol=1e-5, why="other orders of sums, float32")
            found = bench.race(rivals, o.rounds)
            print(block, found, flush=True)
            for name, key in (("torch", "torch"), ("ONNX Runtime", "onnx")):
                rates[key].append(block / found.results[name].median_s)
    receipt.curve(
        "blocks", block=list(BLOCKS), **{f"{k}_patches_per_s": v for k, v in rates.items()}
    )
    if tier.device != "cpu":
        faster(receipt, network, o.rounds, tier.device)
    receipt.record("onnx_rate", max(rates["onnx"]), "patches/s")
    receipt.record("torch_rate", max(rates["torch"]), "patches/s")
    print(receipt.write("network"))


if __name__ == "__main__":
    main()
