r"""Makes the shipped networks and the receipt of how they compare.

    python -m storage_sites.generate ../../../_build/co2_cases --cases 600 --seed 1
    python -m storage_sites.generate ../../../_build/co2_cases_outside --cases 50 --seed 2 \
        --ranges outside
    python -m fourier_operator.train_networks

Trains U-FNO, CNN and FNO of equal size with three seeds each on all training cases, and U-FNO
and CNN on shares of them. The 100 cases after the training ones and those of unseen rock are
for testing alone. Every finished network is kept in `_build/co2_networks`, so an interrupted
run goes on where it stopped. The three U-FNOs and the first FNO and CNN come to lie in
`weights/`, 16 bits a number; the errors of all, measured on those 16 bits, in its
`training_receipt.json`.
"""

import argparse
import hashlib
import json
import time
from pathlib import Path

import torch
from helpers import device, root
from storage_sites import code_hash, grid_of, load

from .networks import parameters
from .shipped import KINDS, RECEIPT, SEEDS, SHIPPED, shipped_path
from .surrogate import Surrogate, case_errors, pick
from .training import train

SHARES = (0.125, 0.25, 0.5)
TEST, TRAINING, EPOCHS = 100, 500, 40  # cases, cases, rounds over all cases
HERE = Path(__file__).resolve().parent
MODULES = ("inputs", "networks", "spectral_conv", "surrogate", "training")
CODE = [HERE / f"{name}.py" for name in MODULES]


def plan():
    """(kind, seed, share of the training cases) of every network, the shipped ones first."""
    whole = [(kind, seed, 1.0) for kind in KINDS for seed in SEEDS]
    return whole + [(kind, 0, share) for share in SHARES for kind in ("ufno", "cnn")]


def measured(surrogate, tests):
    """Mean and per-case errors on each set of test cases, ready for JSON."""
    found = {}
    for name, cases in tests.items():
        errors = case_errors(*surrogate.predict(cases, trained=False), cases)
        for field in ("plume", "pressure"):
            values = getattr(errors, field)
            found[f"{name}_{field}"] = round(values.mean().item(), 6)
            found[f"{name}_{field}_cases"] = [round(value, 5) for value in values.tolist()]
    return found


def trained(kind, seed, share, training, grid, epochs, folder):
    """(entry of the receipt, path of the weights) of one network, trained now or found: of the
    same size and code, with as many cases and epochs."""
    number = round(share * len(training["mask"]))
    path = folder / f"{kind}_{seed}_{share:g}.safetensors"
    notes = path.with_suffix(".json")
    device.seed(seed)
    net = KINDS[kind].reduced()
    rounds = round(epochs * share**-0.67)  # an eighth of the cases gets half of the updates
    entry = {"kind": kind, "seed": seed, "share": share, "cases": number, "epochs": rounds}
    entry |= {"parameters": parameters(net)[1], "code": code_hash(CODE)}
    found = json.loads(notes.read_text()) if notes.exists() else {}
    if entry.items() <= found.items():
        return found, path
    began = time.perf_counter()
    losses = train(
        net, pick(training, slice(0, number)), grid, rounds, seed, tell=tell(path.stem)
    )
    Surrogate(net, grid).save(path)
    entry |= {"losses": [round(x, 4) for x in losses]}
    entry |= {"seconds": round(time.perf_counter() - began, 1)}
    entry |= {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    notes.write_text(json.dumps(entry))
    if share == 1 and seed in SHIPPED[kind]:
        shipped_path(kind, seed).write_bytes(path.read_bytes())
    return entry, path


def tell(name):
    """A function that prints an epoch's loss."""
    return lambda epoch, loss: print(f"{name} epoch {epoch}: {loss:.3f}", flush=True)


def described(args, index, tests):
    """What the receipt says of data, simulator and machine."""
    return {
        "training": args.training,
        "test": len(tests["test"]["mask"]),
        "outside": len(tests["outside"]["mask"]),
        "epochs": args.epochs,
        "seed": index["seed"],
        "simulator": index["code"],
        "torch": torch.__version__,
        "machine": device.machine()["cpu"],
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def main(argv=None):
    """Train, ship, measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    build = (root() or HERE) / "_build"
    parser.add_argument("--cases", type=Path, default=build / "co2_cases")
    parser.add_argument("--outside", type=Path, default=build / "co2_cases_outside")
    parser.add_argument("--keep", type=Path, default=build / "co2_networks")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument(
        "--training", type=int, default=TRAINING, help="cases; the next are for testing"
    )
    parser.add_argument(
        "--found", action="store_true", help="measure what is trained, train nothing"
    )
    args = parser.parse_args(argv)
    grid, cases = grid_of(args.cases), load(args.cases, limit=args.training)
    args.keep.mkdir(parents=True, exist_ok=True)
    made = []
    for one in plan():
        if args.found and not (args.keep / "{}_{}_{:g}.json".format(*one)).exists():
            continue
        made.append(trained(*one, cases, grid, args.epochs, args.keep))
    last = args.training + TEST
    test = pick(load(args.cases, limit=last), slice(args.training, last))
    tests = {"test": test, "outside": load(args.outside)}
    for entry, path in made:
        surrogate = Surrogate.load(path, KINDS[entry["kind"]].reduced(), grid)
        entry |= measured(surrogate, tests)
        told = f"{entry['test_plume']:.4f} {entry['test_pressure']:.4f}"
        print(path.stem, told, flush=True)
    content = described(args, json.loads((args.cases / "index.json").read_text()), tests)
    RECEIPT.write_text(json.dumps(content | {"networks": [entry for entry, _ in made]}) + "\n")


if __name__ == "__main__":
    main()
