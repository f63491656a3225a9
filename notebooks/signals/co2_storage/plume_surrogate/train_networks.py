r"""Makes the shipped networks and the receipt of how they compare.

    python -m storage_sites.generate ../../../_build/co2_cases --cases 500 --seed 1
    python -m plume_surrogate.train_networks
    python -m plume_surrogate.train_networks --measure     # train nothing, measure the shipped

Trains U-FNO, CNN and FNO of equal size with three seeds each on all training cases, a U-FNO
with decoupled decay beside them, and U-FNO and CNN on shares of the cases. What the receipt has
already, of today's code, is not trained again. Other cases are for testing alone: the hundred
after the training ones, fifty of unseen rock, and fifty from which the ensemble's spread is
calibrated. All is kept in `_build`, so that an interrupted run goes on where it stopped. What
is shipped comes to lie in `weights/`, 16 bits a number; `training_receipt.json` has what
`measured` gives of each.
"""

import argparse
import functools
import json
import time
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import fourier_operator
import numpy as np
import torch
from fourier_operator import parameters
from helpers import device
from storage_sites import code_hash, generate, kept, load, simulate_shard, sites
from two_phase import Grid

from .mass import gas_ratios, reach_m
from .shipped import BUILD, KINDS, RECEIPT, SEEDS, SHIPPED, load_shipped, shipped_path
from .surrogate import GAS, Surrogate, case_errors, pick
from .training import train

SHARES, FIELDS, DECOUPLED = (0.125, 0.25, 0.5), ("saturation", "pressure"), "ufno_decoupled"
SEED, TRAINING, EPOCHS = 1, 500, 40  # of the cases; cases, rounds over all cases
TESTS = {  # seed, numbers, ranges of cases that no network learns from
    "test": (SEED, range(TRAINING, TRAINING + 100), "training"),
    "outside": (2, range(50), "outside"),
    "calibration": (3, range(50), "training"),
}
CASES = BUILD / "co2_cases"
CODE = [Path(__file__).with_name(f"{name}.py") for name in ("inputs", "training")]
OPERATOR = Path(fourier_operator.__file__)
CODE += [OPERATOR.with_name(f"{name}.py") for name in ("descent", "networks", "spectral_conv")]


def plan():
    """(kind, seed, share of the training cases) of every network."""
    whole = [(kind, seed, 1.0) for kind in (*KINDS, DECOUPLED) for seed in SEEDS]
    return whole + [(kind, 0, share) for share in SHARES for kind in ("ufno", "cnn")]


def tests_of(folder, grid):
    """The cases of `TESTS` by name, simulated now or found in a folder."""
    found, code = {}, code_hash(generate.CODE)
    for name, (seed, numbers, ranges) in TESTS.items():
        make = functools.partial(simulate_shard, numbers, seed, grid, sites.RANGES[ranges])
        found[name] = kept(folder / f"{name}_{code[:12]}.npz", make)
    return found


def measured(surrogate, tests, shipped=False):
    """The receipt's numbers on each set of test cases: errors of a network's own fields, of a
    shipped one also those of its answers (`deployed`), with the gas that either holds."""
    found, grid = {"deployed": {}} if shipped else {}, surrogate.grid
    for name in ("test", "outside"):
        cases = tests[name]
        with torch.inference_mode():
            own, fields = surrogate.unbalanced(cases), surrogate(cases)[:2]
        for field, values in vars(case_errors(*own, cases)).items():
            found[f"{name}_{field}"] = round(values.mean().item(), 6)
            found[f"{name}_{field}_cases"] = rounded(values)
        if shipped:
            reach, true = (reach_m(s, grid)[:, -1] for s in (fields[0], cases["saturation"]))
            columns = vars(case_errors(*fields, cases)) | {
                "reach": (reach - true).abs() / true,
                "gas_in_place_ratio": gas_ratios(cases, grid, *fields),
                "own_gas_in_place_ratio": gas_ratios(cases, grid, *own),
            }
            found["deployed"][name] = {key: rounded(values) for key, values in columns.items()}
    return found


def rounded(values):
    """Five digits of each number, for JSON."""
    return [round(float(value), 5) for value in values]


def calibrated(members, tests):
    """How often the truth lies within two spreads of the ensemble's mean, in the plume and over
    the rock, and the factor in place of two that covers 95 % of the calibration cases."""

    def away(cases):
        answers = [member.predict(cases) for member in members]
        gas = torch.stack([s for s, _ in answers]).amax(0) > GAS
        inside = cases["mask"][:, None].expand_as(gas)
        for at, (name, cells) in enumerate(zip(FIELDS, (gas, inside), strict=True)):
            fields = torch.stack([answer[at] for answer in answers])
            gap = (fields.mean(0) - cases[name]).abs()
            yield (gap / fields.std(0).clamp(min=1e-9))[cells]

    found = {}
    pairs = zip(away(tests["calibration"]), away(tests["test"]), strict=True)
    for name, (before, now) in zip(FIELDS, pairs, strict=True):
        factor = np.quantile(before.numpy(), 0.95)
        shares = {"covered_by_2": now <= 2, "covered_by_factor": now <= factor}
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
    net = KINDS[kind.partition("_")[0]].reduced()
    rounds = round(epochs * share**-0.67)  # an eighth of the cases gets half of the updates
    entry = {"kind": kind, "seed": seed, "share": share, "cases": number, "epochs": rounds}
    entry |= {"parameters": parameters(net)[1], "code": code_hash(CODE)}
    found = json.loads(notes.read_text()) if notes.exists() else {}
    if entry.items() <= found.items():
        return found, path
    some, began = pick(training, slice(0, number)), time.perf_counter()
    losses = train(net, some, grid, rounds, seed, decoupled=kind == DECOUPLED)
    print(f"{path.stem}: {losses[-1]:.3f} in the last epoch", flush=True)
    Surrogate(net, grid).save(path)
    entry |= {"seconds": round(time.perf_counter() - began, 1), "date": today()}
    digest = sha256(path.read_bytes()).hexdigest()
    entry |= {"losses": [round(x, 4) for x in losses], "sha256": digest}
    notes.write_text(json.dumps(entry))
    if share == 1 and seed in SHIPPED.get(kind, ()):
        shipped_path(kind, seed).write_bytes(path.read_bytes())
    return entry, path


def all_trained(folder, grid, tests, told):
    """The receipt `told` with every network of the plan: those that it has, by today's code or
    one noted there as equal, and others trained now or found in a folder."""
    code, moved = code_hash(CODE), told.get("moved", {})
    equal = {code} | {old for old, new in moved.items() if new["to"] == code}
    whole = [one for one in told.get("networks", ()) if one["code"] in equal]
    known = {(one["kind"], one["seed"], one["share"]): one for one in whole}
    cases, made_by = None, None
    for one in [each for each in plan() if each not in known]:
        cases = cases or load(CASES, limit=TRAINING)
        made_by = json.loads((CASES / "index.json").read_text())["code"]
        entry, path = trained(*one, cases, grid, EPOCHS, folder)
        surrogate = Surrogate.load(path, KINDS[one[0].partition("_")[0]].reduced(), grid)
        known[one] = entry | measured(surrogate, tests) | {"simulator": made_by}
    about = {"training": TRAINING, "epochs": EPOCHS, "seed": SEED, "simulator": made_by}
    about |= {"torch": torch.__version__, "machine": device.machine()["cpu"], "date": today()}
    return about | told | {"networks": [known[one] for one in plan()]}


def today():
    """The date, as text."""
    return f"{datetime.now(UTC):%Y-%m-%d}"


def main(argv=None):
    """Train, ship, measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--measure", action="store_true", help="measure the shipped alone")
    args, grid, folder = parser.parse_args(argv), Grid.reduced(), BUILD / "co2_networks"
    folder.mkdir(parents=True, exist_ok=True)
    tests = tests_of(folder, grid)
    told = json.loads(RECEIPT.read_text()) if RECEIPT.exists() else {}
    told = told if args.measure else all_trained(folder, grid, tests, told)
    for kind, seeds in SHIPPED.items():
        for seed, surrogate in zip(seeds, load_shipped(grid, kind), strict=True):
            for entry in told["networks"]:
                if (entry["kind"], entry["seed"], entry["share"]) == (kind, seed, 1):
                    entry |= measured(surrogate, tests, shipped=True)
    told["ensemble"] = calibrated(load_shipped(grid), tests)
    now = {"simulator": code_hash(generate.CODE), "date": today()}
    told["measured"] = told.get("measured", {}) | now
    RECEIPT.write_text(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
