r"""Makes the shipped networks and the receipt of how they compare.

    python storage_cases.py ../../../_build/co2_cases --cases 600 --seed 1
    python storage_cases.py ../../../_build/co2_cases_outside --cases 100 --seed 2 \
        --ranges outside
    python train_storage_operator.py

Trains U-FNO, CNN and FNO of equal size with three seeds each on all training cases, and U-FNO
and CNN on shares of them. The last 100 cases of the data set and those of unseen rock are for
testing alone. Every finished network is kept in `_build/co2_networks`, so an interrupted run
goes on where it stopped. The three U-FNOs and the first FNO and CNN come to lie beside this
file, 16 bits a number; all errors, those of the 16-bit files for the shipped ones, in
`storage_operator_receipt.json`.
"""

import argparse
import hashlib
import json
import time
from pathlib import Path

import case_shards
import torch
from fourier_operator import FNO, UFNO, UNet, parameters
from helpers import device, root
from operator_training import Surrogate, case_errors, pick, train
from storage_cases import grid_of, load

KINDS = {"ufno": UFNO, "cnn": UNet, "fno": FNO}
SEEDS = (0, 1, 2)
SHARES = (0.125, 0.25, 0.5)
TEST = 100
HERE = Path(__file__).parent
RECEIPT = HERE / "storage_operator_receipt.json"
SHIPPED = {"ufno": SEEDS, "cnn": (0,), "fno": (0,)}


def shipped_path(kind, seed):
    """Where the shipped network of a kind ("ufno", "cnn", "fno") and a seed lies."""
    return HERE / f"storage_{kind}_{seed}.safetensors"


def load_shipped(grid, kind="ufno"):
    """The shipped `Surrogate`s of a kind, one a seed: `load_shipped(Grid.reduced())`."""
    return [
        Surrogate.load(shipped_path(kind, seed), KINDS[kind].reduced(), grid)
        for seed in SHIPPED[kind]
    ]


def plan():
    """(kind, seed, share of the training cases) of every network, the shipped ones first."""
    whole = [(kind, seed, 1.0) for kind in KINDS for seed in SEEDS]
    return whole + [(kind, 0, share) for share in SHARES for kind in ("ufno", "cnn")]


def split(cases):
    """(training cases, test cases): the last 100 are for testing."""
    number = len(cases["mask"])
    if number <= TEST:
        raise ValueError(f"{number} cases: more than the {TEST} that are set aside are needed")
    return pick(cases, slice(0, number - TEST)), pick(cases, slice(number - TEST, number))


def measured(surrogate, tests):
    """Mean and per-case errors on each set of test cases, ready for JSON."""
    found = {}
    for name, cases in tests.items():
        errors = case_errors(*surrogate.predict(cases, trained=False), cases)
        for field in ("plume", "pressure"):
            values = getattr(errors, field)
            found[f"{name}_{field}"] = values.mean().item()
            found[f"{name}_{field}_cases"] = [round(value, 5) for value in values.tolist()]
    return found


def one(kind, seed, share, training, tests, grid, epochs, folder):
    """The entry of the receipt for one network, trained now or found in `folder`."""
    stem = folder / f"{kind}_{seed}_{share:g}"
    if stem.with_suffix(".json").exists():
        return json.loads(stem.with_suffix(".json").read_text())
    began, number = time.perf_counter(), round(share * len(training["mask"]))
    device.seed(seed)
    net = KINDS[kind].reduced()
    # fewer cases, more epochs: half as many updates for an eighth of the cases
    rounds = round(epochs * share**-0.67)
    losses = train(net, pick(training, slice(0, number)), grid, rounds, seed, tell=tell(stem))
    path = Surrogate(net, grid).save(stem.with_suffix(".safetensors"))
    entry = {"kind": kind, "seed": seed, "share": share, "cases": number, "epochs": rounds}
    entry |= {"parameters": parameters(net)[1], "losses": [round(x, 4) for x in losses]}
    entry |= {"seconds": round(time.perf_counter() - began, 1)}
    entry |= {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    entry |= measured(Surrogate.load(path, KINDS[kind].reduced(), grid), tests)
    stem.with_suffix(".json").write_text(json.dumps(entry))
    return entry


def tell(stem):
    """A function that prints an epoch's loss."""
    return lambda epoch, loss: print(f"{stem.name} epoch {epoch}: {loss:.3f}", flush=True)


def ship(kind, seed, folder):
    """Copy a network beside this file, where it is one of those shipped."""
    if seed in SHIPPED[kind]:
        content = (folder / f"{kind}_{seed}_1.safetensors").read_bytes()
        shipped_path(kind, seed).write_bytes(content)


def write_receipt(entries, made):
    """Write the receipt: how, on what, and every network's errors."""
    RECEIPT.write_text(json.dumps(made | {"networks": entries}, indent=None) + "\n")


def main(argv=None):
    """Train, measure, keep."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    build = (root() or HERE) / "_build"
    parser.add_argument("--cases", type=Path, default=build / "co2_cases")
    parser.add_argument("--outside", type=Path, default=build / "co2_cases_outside")
    parser.add_argument("--keep", type=Path, default=build / "co2_networks")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--limit", type=int, help="use this many cases of the data set")
    args = parser.parse_args(argv)
    grid, cases = grid_of(args.cases), load(args.cases, limit=args.limit)
    training, test = split(cases)
    tests = {"test": test, "outside": load(args.outside)}
    args.keep.mkdir(parents=True, exist_ok=True)
    index = json.loads((args.cases / "index.json").read_text())
    made = {"cases": len(cases["mask"]), "training": len(training["mask"]), "test": TEST,
            "seed": index["seed"], "simulator": index["code"], "epochs": args.epochs,
            "outside": len(tests["outside"]["mask"]), "torch": torch.__version__,
            "machine": device.machine()["cpu"],
            "date": time.strftime("%Y-%m-%d", time.gmtime())}  # fmt: skip
    made["code"] = case_shards.code_hash(
        HERE / f"{name}.py"
        for name in ("fourier_operator", "spectral_conv", "operator_training")
    )
    entries = []
    for kind, seed, share in plan():
        entry = one(kind, seed, share, training, tests, grid, args.epochs, args.keep)
        entries.append(entry)
        told = {name: value for name, value in entry.items() if isinstance(value, float)}
        print(kind, seed, share, told, flush=True)
        if share == 1:
            ship(kind, seed, args.keep)
        write_receipt(entries, made)


if __name__ == "__main__":
    main()
