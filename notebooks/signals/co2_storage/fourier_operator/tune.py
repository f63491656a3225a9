"""Equal trials for U-FNO, FNO and CNN; and the article's three axes, at small size.

    python -m fourier_operator.tune --trials 6 --seconds 24      # about half an hour of a core

Each kind gets the same number of trials, twice: with equal epochs, and with equal seconds of
one core. The first trial has the shipped shape, rate and batch; the others are drawn from
`SHAPES`, of about one size, `RATES` and `BATCHES`. Each is judged by the sum of plume and
pressure error on sites that no trial learns from; each kind's best is trained from three seeds,
and asked about other sites again. At last a U-FNO over depth, radius and time, as the
article's, and the shipped kind with folded time learn for the same seconds. The sites are
simulated in long steps, which is quick. What is finished is kept in `_build`: an interrupted
search goes on.
"""

import argparse
import functools
import hashlib
import itertools
import json
import random
import statistics
import time
from pathlib import Path

import numpy as np
import torch
from helpers import device, receipts, root
from storage_sites import code_hash, draw, generate, kept, to_arrays
from two_phase import Grid, simulate_batch

from .networks import REDUCED, UFNO, parameters
from .shipped import KINDS
from .surrogate import Surrogate, case_errors, pick
from .training import train

SHAPES = {  # each within an eighth of the shipped size; the shipped first
    "ufno": ({}, {"width": 20, "modes": (3, 4), "layers": 4, "inner": 22, "u_layers": 4},
             {"width": 22, "modes": (4, 8), "layers": 3, "inner": 24, "u_layers": 2},
             {"width": 24, "modes": (3, 5), "layers": 4, "inner": 26, "u_layers": 2}),
    "fno": ({}, {"width": 37, "modes": (3, 5)}, {"width": 13, "modes": (8, 16)},
            {"width": 20, "layers": 6}),
    "cnn": ({}, {"pad": (0, 8, 0)}, {"head": 256}, {"head": 16}),
}  # fmt: skip
RATES, BATCHES = (1e-3, 3e-3, 1e-2), (4, 8, 16)
SHIPPED_RATE, SHIPPED_BATCH, SEEDS = 3e-3, 8, (0, 1, 2)
THREE_AXES = {"width": 10, "modes": (3, 5, 3), "layers": 3, "u_layers": 3, "inner": 12,
              "head": 32, "pad": (0, 8, 4), "normalise": False}  # fmt: skip
EPOCHS = 12
UNITS = {"epochs": "epochs", "seconds": "s", "plume": "%", "pressure": "%"}
GRID, SEED, STEP = Grid.reduced(), 4, 0.5  # of the sites; the longest step, of the time passed
HERE = Path(__file__).resolve().parent
KEPT = (root() or HERE) / "_build" / "co2_tuning"
CODE = [HERE / f"{name}.py" for name in ("inputs", "networks", "spectral_conv", "training")]


def drawn(kind, trials):
    """The settings (shape, rate, batch) that a kind tries, the shipped first, none twice."""
    shipped = (SHAPES[kind][0], SHIPPED_RATE, SHIPPED_BATCH)
    others = [one for one in itertools.product(SHAPES[kind], RATES, BATCHES) if one != shipped]
    return [shipped, *random.Random(0).sample(others, trials - 1)]


def network(kind, shape):
    """A network of a kind in its reduced shape, changed by `shape`."""
    made = KINDS[kind]
    return made(outputs=2, times=12, **REDUCED[made.__name__] | shape)


def taught(make, setting, seed, sets, asked, epochs, seconds):
    """[epochs, seconds of this process, plume error, pressure error in %] of a network of
    `make()`, trained and asked about the sites `asked`; kept in `_build` once known.

    With `seconds` it takes as many epochs as fit, told by a trial epoch of another copy.
    """
    *_, rate, batch = setting
    size = len(sets["training"]["mask"])
    told = json.dumps([setting, seed, size, asked, epochs, seconds, code_hash(CODE)])
    path = KEPT / f"{hashlib.sha256(told.encode()).hexdigest()[:16]}.json"
    if not path.exists():
        if seconds:
            for _ in range(2):  # the first run of a process is slower
                began = time.process_time()
                train(make(), sets["training"], GRID, 1, seed, batch, rate)
            epochs = max(1, round(seconds / (time.process_time() - began)))
        torch.manual_seed(seed)
        net, began = make(), time.process_time()
        train(net, sets["training"], GRID, epochs, seed, batch, rate)
        spent = time.process_time() - began
        with torch.inference_mode():
            fields = Surrogate(net, GRID).unbalanced(sets[asked])
        errors = vars(case_errors(*fields, sets[asked])).values()
        found = [epochs, spent, *(100 * values.mean().item() for values in errors)]
        print(setting, seed, asked, *(f"{x:.4g}" for x in found), flush=True)
        path.write_text(json.dumps(found))
    return json.loads(path.read_text())


def tuned(receipt, budget, seconds, trials, sets):
    """None; the search of all kinds within one budget goes into the receipt."""
    for kind in KINDS:
        settings, rows = drawn(kind, trials), []
        for setting in settings:
            make = functools.partial(network, kind, setting[0])
            told = (sets, "validation", EPOCHS, seconds)
            rows.append((*setting[1:], *taught(make, (kind, *setting), 0, *told)))
        columns = dict(zip(("rate", "batch", *UNITS), zip(*rows, strict=True), strict=True))
        receipt.curve(f"{budget}_{kind}", **columns)
        best = settings[min(range(trials), key=lambda i: sum(rows[i][-2:]))]
        make, told = functools.partial(network, kind, best[0]), (sets, "test", EPOCHS, seconds)
        found = [taught(make, (kind, *best), seed, *told) for seed in SEEDS]
        note = f"{best[0] or 'the shipped shape'}, rate {best[1]:g}, batch {best[2]}"
        for (name, unit), values in zip(UNITS.items(), zip(*found, strict=True), strict=True):
            spread = min(values), max(values), len(values)
            metric = f"{budget}_{kind}_{name}"
            receipt.record(metric, statistics.mean(values), unit, *spread, note)


def three_axes(receipt, seconds, sets):
    """None; time as an axis and time folded, trained for the same seconds, into the receipt."""
    makers = {
        "three_axes": functools.partial(UFNO, outputs=2, **THREE_AXES),
        "folded": functools.partial(network, "ufno", {}),
    }
    for name, make in makers.items():
        setting = (name, SHIPPED_RATE, SHIPPED_BATCH)
        found = taught(make, setting, 0, sets, "test", 1, seconds)
        receipt.sizes(**{f"parameters_{name}": parameters(make())[1]})
        for (field, unit), value in zip(UNITS.items(), found, strict=True):
            receipt.record(f"{name}_{field}", value, unit)


def simulated(number):
    """The arrays of so many sites, in long steps; those of about equal thickness together."""
    cases = [draw(SEED, each, GRID) for each in range(number)]
    found, in_order = {}, sorted(range(number), key=lambda i: cases[i].thickness_m)
    for first in range(0, number, 10):
        some = in_order[first : first + 10]
        results = simulate_batch([cases[i] for i in some], GRID, step_fraction=STEP)
        found |= dict(zip(some, results, strict=True))
    fields = (np.stack([found[i][at].float().numpy() for i in range(number)]) for at in (0, 1))
    return to_arrays(cases, GRID) | dict(zip(("saturation", "pressure"), fields, strict=True))


def split(sizes):
    """The sites to learn from, to choose by and to test on, simulated now or found."""
    path = KEPT / f"sites_{sum(sizes)}_{code_hash(generate.CODE)[:12]}.npz"
    whole = kept(path, lambda: simulated(sum(sizes)))
    ends = (0, *itertools.accumulate(sizes))
    names = ("training", "validation", "test")
    return {name: pick(whole, slice(*ends[i : i + 2])) for i, name in enumerate(names)}


def main(argv=None):
    """Simulate the sites, search, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--trials", type=int, default=6, help="of each kind in each budget")
    parser.add_argument("--seconds", type=float, default=24, help="of one trial's training")
    parser.add_argument("--sites", type=int, nargs=3, default=(60, 20, 20))
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    receipt = receipts.start("co2_storage", device.tier(), 1)
    sets = split(args.sites)
    receipt.sizes(trials=args.trials, seconds=args.seconds, epochs=EPOCHS, seeds=len(SEEDS))
    receipt.sizes(**{f"sites_{name}": len(part["mask"]) for name, part in sets.items()})
    tuned(receipt, "equal_epochs", None, args.trials, sets)
    tuned(receipt, "equal_seconds", args.seconds, args.trials, sets)
    three_axes(receipt, 6 * args.seconds, sets)
    print(receipt.write("tuning"))


if __name__ == "__main__":
    main()
