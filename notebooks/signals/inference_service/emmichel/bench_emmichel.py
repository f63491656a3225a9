"""The race: the network on blocks of patches, by torch and by ONNX Runtime, by size of block.

    python -m emmichel.bench_emmichel               # from the slice's folder: 20 rounds; a
    receipt

All must agree before they are timed. The same network, the same patches, the same threads.
"""

import argparse
import tempfile

import torch
from helpers import bench, check, device, receipts
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
    receipt.record("onnx_rate", max(rates["onnx"]), "patches/s")
    receipt.record("torch_rate", max(rates["torch"]), "patches/s")
    print(receipt.write("network"))


if __name__ == "__main__":
    main()
