"""The study of Darcy flow: FNO, U-Net and neuraloperator's FNO, one trainer, the same batches.

    python -m fourier_operator.study_darcy    # from the slice's folder; over an hour
    python -m fourier_operator.study_darcy --epochs 2 --seeds 1

No race: it takes longer than a race may. After each epoch, every network is asked on unseen
fields at 16 × 16 and at 32 × 32 points; the receipt keeps the means over seeds as curves, and
the errors at the end with their spread. neuraloperator's network is skipped where it is not
installed.
"""

import argparse
import statistics
import time

import torch
from helpers import data, device, receipts

from . import darcy
from .networks import parameters


class Flat(torch.nn.Module):
    """A network of planes (N, 3, Z, R) to (N, 1, Z, R), such as the peer's, called as ours."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        """(N, Z, R, 1)."""
        return self.net(x[..., 0])[:, 0, :, :, None]


def contestants(seed):
    """`darcy.contestants`, and neuraloperator's FNO where it is installed, by short names."""
    found = dict(zip(("fno", "cnn"), darcy.contestants(seed).values(), strict=True))
    try:
        from neuralop.models import FNO as PeerFNO
    except ImportError:
        print("neuraloperator is not installed here: its network is left out")
        return found
    torch.manual_seed(seed)
    peer = PeerFNO((12, 12), 3, 1, 24, n_layers=4, positional_embedding=None)
    return found | {"neuraloperator": Flat(peer)}


def study(net, flows, epochs, seed):
    """(3, epochs): seconds of training, errors in % at 16², at 32² of each epoch."""
    rows, began = [], time.perf_counter()

    def tell(epoch, loss):
        nonlocal began
        seconds = time.perf_counter() - began
        asked = (darcy.errors(net, flows[f"test_{points}"]).mean() for points in (16, 32))
        rows.append((seconds, *(100 * error.item() for error in asked)))
        began = time.perf_counter()

    darcy.fit(net, flows["train_16"], epochs, seed=seed, tell=tell)
    return list(zip(*rows, strict=True))


def kept(receipt, runs, epochs):
    """None; what the runs of each network gave goes into the receipt."""
    columns = {"epoch": list(range(1, epochs + 1))}
    for name, found in runs.items():
        seconds, *errors = zip(*found, strict=True)  # each (seeds, epochs)
        seconds = [s for times in seconds for s in times]
        low, middle, high = statistics.quantiles(seconds, n=4)
        receipt.record(f"darcy_epoch_{name}", middle, "s", low, high, len(seconds))
        for points, of in zip((16, 32), errors, strict=True):
            last, label = [one[-1] for one in of], f"{name}_{points}"
            spread = min(last), max(last), len(last)
            receipt.record(f"darcy_trained_{label}", statistics.mean(last), "%", *spread)
            columns[label] = [statistics.mean(values) for values in zip(*of, strict=True)]
    receipt.curve("darcy", **columns)


def main(argv=None):
    """Train, measure, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    receipt = receipts.start("co2_storage", device.tier(), args.threads)
    flows, runs = darcy.load(data.fetch("darcy")), {}
    fields = {"training_fields": len(flows["train_16"].a_NZR), "test_fields": 50}
    receipt.sizes(epochs=args.epochs, seeds=args.seeds, **fields)
    for seed in range(args.seeds):
        for name, net in contestants(seed).items():  # in turn, so that load meets all alike
            runs.setdefault(name, []).append(study(net, flows, args.epochs, seed))
            receipt.sizes(**{f"parameters_{name}": parameters(net)[1]})
    kept(receipt, runs, args.epochs)
    print(receipt.write("darcy"))


if __name__ == "__main__":
    main()
