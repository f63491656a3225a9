r"""Makes the shipped networks and the receipt of how they compare.

    python -m storage_sites.generate ../../../_build/co2_cases --cases 500 --seed 1
    python -m fourier_operator.train_networks
    python -m fourier_operator.train_networks --measure     # train nothing, measure the shipped

Trains U-FNO, CNN and FNO of equal size with three seeds each on all training cases, and U-FNO
and CNN on shares of them. Other cases are for testing alone: the hundred after the training
ones, fifty of unseen rock, and fifty from which the ensemble's spread is calibrated; they are
simulated when first needed, and kept beside the networks, so that an interrupted run goes on
where it stopped. The three U-FNOs and the first FNO and CNN come to lie in `weights/`, 16 bits
a number.

`training_receipt.json` there holds the errors of the networks' own fields (`test_plume` and so
on), and of the shipped ones those of the answers that hold the injected gas, with the gas that
either has in place, summed by the simulator's books (`deployed`).
"""

import argparse
import hashlib
import json
import time
from pathlib import Path

import numpy as np
import torch
from helpers import device, root
from storage_sites import code_hash, generate, load, simulate_shard, sites, to_case
from two_phase import Grid, co2_in_place_mt

from .mass import reach_m
from .networks import parameters
from .shipped import KINDS, RECEIPT, SEEDS, SHIPPED, load_shipped, shipped_path
from .surrogate import GAS, Surrogate, case_errors, pick
from .training import train

SHARES = (0.125, 0.25, 0.5)
SEED, TRAINING, EPOCHS = 1, 500, 40  # of the cases; cases, rounds over all cases
TESTS = {  # seed, numbers, ranges of cases that no network learns from
    "test": (SEED, range(TRAINING, TRAINING + 100), "training"),
    "outside": (2, range(50), "outside"),
    "calibration": (3, range(50), "training"),
}
HERE = Path(__file__).resolve().parent
MODULES = ("inputs", "networks", "spectral_conv", "training")
CODE = [HERE / f"{name}.py" for name in MODULES]


def plan():
    """(kind, seed, share of the training cases) of every network, the shipped ones first."""
    whole = [(kind, seed, 1.0) for kind in KINDS for seed in SEEDS]
    return whole + [(kind, 0, share) for share in SHARES for kind in ("ufno", "cnn")]


def tests_of(folder, grid):
    """The cases of `TESTS` by name, simulated now or found in a folder."""
    found, code = {}, code_hash(generate.CODE)
    for name, (seed, numbers, ranges) in TESTS.items():
        path = folder / f"{name}_{code[:12]}.npz"
        if not path.exists():
            made = simulate_shard(numbers, seed, grid, sites.RANGES[ranges])
            np.savez_compressed(path, **made)
        with np.load(path) as kept:
            found[name] = {key: torch.from_numpy(kept[key]) for key in kept.files}
    return found


def listed(values):
    """Mean and single values, ready for JSON."""
    values = [float(value) for value in values]
    return {"mean": round(sum(values) / len(values), 6), "cases": [round(v, 5) for v in values]}


def measured(surrogate, tests):
    """The errors of a network's own fields on each set of test cases."""
    found = {}
    for name in ("test", "outside"):
        with torch.inference_mode():
            saturation, pressure = surrogate.unbalanced(tests[name])
        inside = tests[name]["mask"][:, None]
        errors = case_errors(saturation.clamp(0, 1) * inside, pressure, tests[name])
        for field in ("plume", "pressure"):
            told = listed(getattr(errors, field))
            found |= {f"{name}_{field}": told["mean"], f"{name}_{field}_cases": told["cases"]}
    return found


def gas_ratios(cases, grid, saturation, pressure):
    """The gas in place at the end over what was injected, a number a case."""
    made = [to_case(cases, i) for i in range(len(cases["mask"]))]
    brought = grid.times_days[-1] / 365
    return [
        co2_in_place_mt(case, grid, saturation[i], pressure[i])[-1] / (case.rate_mt * brought)
        for i, case in enumerate(made)
    ]


def deployed(surrogate, tests):
    """What `predict` answers: errors, gas in place, reach; and the gas of the own fields."""
    found, grid = {}, surrogate.grid
    for name in ("test", "outside"):
        cases = tests[name]
        fields = surrogate.predict(cases, trained=name == "test")
        errors = case_errors(*fields, cases)
        reach, true = (reach_m(s, grid)[:, -1] for s in (fields[0], cases["saturation"]))
        with torch.inference_mode():
            saturation, pressure = surrogate.unbalanced(cases)
        own = saturation.clamp(0, 1) * cases["mask"][:, None]
        columns = {
            "plume": errors.plume,
            "pressure": errors.pressure,
            "reach": (reach - true).abs() / true,
            "gas_in_place_ratio": gas_ratios(cases, grid, *fields),
            "own_gas_in_place_ratio": gas_ratios(cases, grid, own, pressure),
        }
        found[name] = {key: listed(values) for key, values in columns.items()}
    return found


def calibrated(members, tests):
    """How often the truth lies within two spreads of the ensemble's mean, in the plume and
    over the rock, and the factor in place of two that covers 95 % of the calibration cases."""

    def away(cases):
        answers = [member.predict(cases) for member in members]
        gas = torch.stack([s for s, _ in answers]).amax(0) > GAS
        inside = cases["mask"][:, None].expand_as(gas)
        for at, (name, cells) in enumerate((("saturation", gas), ("pressure", inside))):
            fields = torch.stack([answer[at] for answer in answers])
            gap = (fields.mean(0) - cases[name]).abs()
            yield name, (gap / fields.std(0).clamp(min=1e-9))[cells]

    found = {}
    for (name, before), (_, now) in zip(
        away(tests["calibration"]), away(tests["test"]), strict=True
    ):
        factor = np.quantile(before.numpy(), 0.95)
        shares = {"covered_by_2": (now <= 2), "covered_by_factor": (now <= factor)}
        found[name] = {"factor": round(float(factor), 2)}
        found[name] |= {key: round(hit.float().mean().item(), 4) for key, hit in shares.items()}
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


def described(args, tests):
    """What the receipt says of data, simulator and machine."""
    return {
        "training": args.training,
        "test": len(tests["test"]["mask"]),
        "outside": len(tests["outside"]["mask"]),
        "epochs": args.epochs,
        "seed": SEED,
        "simulator": json.loads((args.cases / "index.json").read_text())["code"],
        "torch": torch.__version__,
        "machine": device.machine()["cpu"],
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def all_trained(args, grid, tests):
    """The receipt of every network of the plan, trained now or found."""
    cases, made = load(args.cases, limit=args.training), []
    for one in plan():
        entry, path = trained(*one, cases, grid, args.epochs, args.keep)
        surrogate = Surrogate.load(path, KINDS[entry["kind"]].reduced(), grid)
        made.append(entry | measured(surrogate, tests))
        told = f"{made[-1]['test_plume']:.4f} {made[-1]['test_pressure']:.4f}"
        print(path.stem, told, flush=True)
    return described(args, tests) | {"networks": made}


def main(argv=None):
    """Train, ship, measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    build = (root() or HERE) / "_build"
    parser.add_argument("--cases", type=Path, default=build / "co2_cases")
    parser.add_argument("--keep", type=Path, default=build / "co2_networks")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--training", type=int, default=TRAINING, help="cases")
    parser.add_argument(
        "--measure", action="store_true", help="train nothing, measure the shipped"
    )
    args = parser.parse_args(argv)
    grid = Grid.reduced()
    args.keep.mkdir(parents=True, exist_ok=True)
    tests = tests_of(args.keep, grid)
    content = (
        json.loads(RECEIPT.read_text()) if args.measure else all_trained(args, grid, tests)
    )
    for kind, seeds in SHIPPED.items():
        for seed, surrogate in zip(seeds, load_shipped(grid, kind), strict=True):
            for entry in content["networks"]:
                if (entry["kind"], entry["seed"], entry["share"]) == (kind, seed, 1):
                    entry |= measured(surrogate, tests) | {
                        "deployed": deployed(surrogate, tests)
                    }
    content["ensemble"] = calibrated(load_shipped(grid), tests)
    content["measured"] = content.get("measured", {}) | {
        "simulator": code_hash(generate.CODE),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }
    RECEIPT.write_text(json.dumps(content) + "\n")


if __name__ == "__main__":
    main()
