"""The race: checked, then timed, ours and its peer in turn on the same data.

In the slice's folder, a receipt or a quick look:

    python -m bench_visual_tts
    python -m bench_visual_tts --rounds 3
"""

import argparse

import numpy as np
import torch
from helpers import bench, check, device, receipts
from visual_tts import window_sums


def contestants(stream, length):
    """The functions to race, by name. Peers get their best settings.

    A peer that is not installed is left out, and it is said.
    """
    ones = np.ones(length)
    return {
        "ours": lambda: window_sums(stream, length),
        "NumPy convolve": lambda: np.convolve(stream, ones, mode="valid"),
    }


def main(arguments=None):
    """Check, race, print the table and the receipt's path."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)
    stream = np.random.default_rng(0).normal(size=options.points)
    pairs = contestants(stream, options.length)
    check.close(
        pairs["ours"](),
        pairs["NumPy convolve"](),
        atol=1e-6,
        why="sums of different order, float64",
    )
    race = bench.race(pairs, repeats=options.rounds, reference="NumPy convolve")
    print(race)
    receipt = receipts.start("visual_tts", device.tier(), threads=options.threads)
    receipt.sizes(points=options.points, length=options.length)
    receipt.record("sums_speedup", race.ratios["ours"])
    print(receipt.write(name="sums"))


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--rounds", type=int, default=20, help="interleaved rounds (default: %(default)s)"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=device.cores(),
        help="default: the cores this process may use",
    )
    parser.add_argument(
        "--points", type=int, default=200_000, help="of the stream (default: %(default)s)"
    )
    parser.add_argument(
        "--length", type=int, default=256, help="of a window (default: %(default)s)"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
