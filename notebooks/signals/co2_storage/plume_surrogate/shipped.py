"""The trained networks that the chapter ships, and the receipt of how they were trained.

`../weights` holds three U-FNOs, an FNO and a CNN of equal size, 16 bits a number; the receipt
losses, errors and seconds of all networks that were compared, with hashes of weights and code.
"""

from pathlib import Path

from fourier_operator import FNO, UFNO, UNet
from helpers import root

from .surrogate import Surrogate

KINDS = {"ufno": UFNO, "cnn": UNet, "fno": FNO}
SEEDS = (0, 1, 2)
SHIPPED = {"ufno": SEEDS, "cnn": (0,), "fno": (0,)}
WEIGHTS = Path(__file__).resolve().parents[1] / "weights"
BUILD = (root() or WEIGHTS.parent) / "_build"  # what can be made again
RECEIPT = WEIGHTS / "training_receipt.json"


def shipped_path(kind, seed):
    """Where the shipped network of a kind ("ufno", "cnn", "fno") and a seed lies."""
    return WEIGHTS / f"{kind}_{seed}.safetensors"


def load_shipped(grid, kind="ufno"):
    """The shipped `Surrogate`s of a kind, one a seed: `load_shipped(Grid.reduced())`."""
    return [
        Surrogate.load(shipped_path(kind, seed), KINDS[kind].reduced(), grid)
        for seed in SHIPPED[kind]
    ]
