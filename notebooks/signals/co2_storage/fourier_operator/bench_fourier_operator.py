"""The race of one spectral layer's three ways.

    python -m fourier_operator.bench_fourier_operator     # this machine's tier, 20 rounds

Fast transforms, products with the kept rows of the transforms' matrices, and neuraloperator's
layer (skipped where it is not installed), on the same weights, checked for equality first.
"""

import argparse
import functools

import torch
from helpers import bench, device, receipts

from .spectral_conv import SpectralConv

LAYERS = {  # points an axis, kept modes, channels
    "reduced": ((24, 56), (4, 8), 20), "darcy": ((32, 32), (8, 8), 24),
    "three_axes": ((32, 56, 20), (4, 6, 3), 20),
    "published": ((104, 208, 32), (10, 10, 10), 36),
}  # fmt: skip


def peer_of(conv, modes):
    """neuraloperator's layer with the weights of `conv`; None where it is not installed."""
    try:
        from neuralop.layers.spectral_convolution import SpectralConv as Peer
    except ImportError:
        return None
    channels_in, channels_out = conv.weight[0].shape[:2]
    both = tuple(2 * mode for mode in modes[:-1])
    last = 2 * modes[-1] - 2 if modes[-1] > 1 else 1  # it keeps last // 2 + 1
    options = {"bias": False, "implementation": "reconstructed"}
    peer = Peer(channels_in, channels_out, (*both, last), **options)
    whole = peer.weight.to_tensor() if hasattr(peer.weight, "to_tensor") else peer.weight.tensor
    with torch.no_grad():
        for number, weight in enumerate(conv.weight):
            starts = [(1 - (number >> axis) % 2) * mode for axis, mode in enumerate(modes[:-1])]
            at = (slice(start, start + m) for start, m in zip(starts, modes[:-1], strict=True))
            whole[(slice(None), slice(None), *at)] = weight
    return peer.to(conv.weight[0].device)


def layer_race(points, modes, channels, batch, where, rounds):
    """Race of one layer's ways, forward and backward; AssertionError where they disagree."""
    conv = SpectralConv(channels, channels, modes).to(where)
    field = torch.randn(batch, channels, *points, device=where, requires_grad=True)
    ways = {"fast transforms": conv._by_transforms, "matrices": conv._by_matrices}
    ways = {name: functools.partial(way, sizes=points) for name, way in ways.items()}
    if peer := peer_of(conv, modes):
        ways["neuraloperator"] = peer
    else:
        print("neuraloperator is not installed here: its layer is left out")
    wanted = ways["fast transforms"](field).detach()
    for name, way in ways.items():
        gap = (way(field) - wanted).abs().max() / wanted.abs().max()
        if not gap < 1e-4:
            raise AssertionError(f"{name} differs by {gap:.1e} of the largest value")

    def step(way):
        field.grad = None
        way(field).sum().backward()

    made = {name: functools.partial(step, way) for name, way in ways.items()}
    return bench.race(made, repeats=rounds, warmup=2, reference="fast transforms", device=where)


def main(argv=None):
    """Race at this machine's size and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    parser.add_argument("--batch", type=int, default=8, help="fields a layer")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    tier = device.tier()
    receipt = receipts.start("co2_storage", tier, args.threads)
    receipt.sizes(rounds=args.rounds, fields_a_layer=args.batch)
    names = tier.pick(cpu=("reduced", "darcy", "three_axes"), gpu=LAYERS, big=LAYERS)
    for name in names:
        race = layer_race(*LAYERS[name], args.batch, tier.device, args.rounds)
        print(f"{name}: {LAYERS[name]}, batch {args.batch}, forward and backward\n{race}\n")
        for way, ratio in race.ratios.items():
            receipt.record(f"layer_{name}_{way.replace(' ', '_')}", ratio)
    print(receipt.write("operators"))


if __name__ == "__main__":
    main()
