"""Equal trials for U-FNO, FNO and CNN; and the article's three axes, at small size.

    python -m plume_surrogate.tune      # a quarter of an hour, on one core

Each kind gets the same number of trials, twice: with equal epochs, and with equal seconds of
one core. The first trial has the shipped shape, rate and batch; the others are drawn from
`SHAPES`, of about one size, `RATES` and `BATCHES`. Each is judged by the sum of plume and
pressure error on sites that no trial learns from; each kind's best is trained from three seeds,
and asked about other sites again. At last a U-FNO over depth, radius and time, as the
article's, and the shipped kind with folded time learn for the same seconds. What is finished is
kept in `_build`: an interrupted search goes on.
"""

import argparse
import hashlib
import itertools
import json
import random
import statistics
import time

import torch
from fourier_operator import UFNO, parameters
from fourier_operator.networks import REDUCED
from helpers import device, receipts
from storage_sites import code_hash, generate, kept, simulate_shard
from two_phase import Grid

from .shipped import BUILD, KINDS, SEEDS
from .surrogate import Surrogate, case_errors, pick
from .train_networks import CODE
from .training import train

SHAPES = {  # each within an eighth of the shipped size; the shipped first
    "ufno": ({}, {"width": 20, "modes": (3, 4), "layers": 4, "inner": 22, "u_layers": 4},
             {"width": 22, "modes": (4, 8), "layers": 3, "inner": 24, "u_layers": 2},
             {"width": 24, "modes": (3, 5), "layers": 4, "inner": 26, "u_layers": 2}),
    "fno": ({}, {"width": 37, "modes": (3, 5)}, {"width": 13, "modes": (8, 16)},
            {"width": 20, "layers": 6}),
    "cnn": ({}, {"pad": (0, 8, 0)}, {"head": 256}, {"head": 16}),
}  # fmt: skip
RATES, BATCHES, SHIPPED = (1e-3, 3e-3, 1e-2), (4, 8, 16), ({}, 3e-3, 8)
THREE_AXES = {"width": 10, "modes": (3, 5, 3), "layers": 3, "u_layers": 3, "inner": 12,
              "head": 32, "pad": (0, 8, 4), "normalise": False}  # fmt: skip
EPOCHS, LONGER = 12, 8  # of a trial with equal epochs; times a trial's seconds, for three axes
UNITS = {"epochs": "epochs", "seconds": "s", "plume": "%", "pressure": "%"}
SETS = {"training": 48, "validation": 16, "test": 16}  # sites
GRID, SEED, KEPT = Grid.reduced(), 4, BUILD / "co2_tuning"


def drawn(kind, trials):
    """A kind's settings (kind, shape, rate, batch), each once, the shipped first."""
    others = [one for one in itertools.product(SHAPES[kind], RATES, BATCHES) if one != SHIPPED]
    return [(kind, *one) for one in (SHIPPED, *random.Random(0).sample(others, trials - 1))]


def words(setting):
    """ "width 37, modes (3, 5); rate 0.01; batch 8", as a receipt's note tells a setting."""
    _, shape, rate, batch = setting
    told = ", ".join(f"{name} {value}" for name, value in shape.items())
    return f"{told or 'as shipped'}; rate {rate:g}; batch {batch}"


def network(kind, shape):
    """A network of a kind in its reduced shape, changed by `shape`; or one of three axes."""
    if kind == "three_axes":
        return UFNO(outputs=2, **shape)
    made = KINDS[kind]
    return made(outputs=2, times=12, **REDUCED[made.__name__] | shape)


def taught(setting, seed, sets, asked, seconds=None):
    """[epochs, seconds of this process, plume error, pressure error in %] of a network of this
    setting, trained and asked about the sites `asked`; kept in `_build` once known.

    With `seconds` it takes as many epochs as fit, told by a trial epoch of another copy.
    """
    *kind, rate, batch = setting
    told = json.dumps([setting, seed, SETS, asked, EPOCHS, seconds, code_hash(CODE)])
    path = KEPT / f"{hashlib.sha256(told.encode()).hexdigest()[:16]}.json"
    if path.exists():
        return json.loads(path.read_text())

    def timed(epochs):
        torch.manual_seed(seed)
        net, began = network(*kind), time.process_time()
        train(net, sets["training"], GRID, epochs, seed, batch, rate)
        return net, time.process_time() - began

    epochs = EPOCHS
    if seconds:  # the first run of a process is slower
        epochs = max(1, round(seconds / min(timed(1)[1] for _ in range(2))))
    net, spent = timed(epochs)
    with torch.inference_mode():
        fields = Surrogate(net, GRID).unbalanced(sets[asked])
    errors = vars(case_errors(*fields, sets[asked])).values()
    found = [epochs, spent, *(100 * values.mean().item() for values in errors)]
    print(setting, seed, asked, *(f"{x:.4g}" for x in found), flush=True)
    path.write_text(json.dumps(found))
    return found


def tuned(receipt, budget, seconds, trials, sets):
    """None; the search within one budget goes into the receipt: each trial's sum of errors and
    setting, and what each kind's best has on the test sites."""
    for kind in KINDS:
        settings = drawn(kind, trials)
        sums = [sum(taught(one, 0, sets, "validation", seconds)[-2:]) for one in settings]
        for number, (setting, off) in enumerate(zip(settings, sums, strict=True)):
            receipt.record(f"{budget}_{kind}_trial_{number}", off, "%", note=words(setting))
        best = settings[sums.index(min(sums))]
        found = zip(*(taught(best, seed, sets, "test", seconds) for seed in SEEDS), strict=True)
        for (name, unit), values in zip(UNITS.items(), found, strict=True):
            spread = statistics.mean(values), unit, min(values), max(values), len(values)
            receipt.record(f"{budget}_{kind}_{name}", *spread, note=words(best))


def three_axes(receipt, seconds, sets):
    """None; time as an axis and time folded, trained for the same seconds, into the receipt."""
    for name, kind in (("three_axes", ("three_axes", THREE_AXES)), ("folded", ("ufno", {}))):
        found = taught((*kind, *SHIPPED[1:]), 0, sets, "test", seconds)
        receipt.sizes(**{f"parameters_{name}": parameters(network(*kind))[1]})
        for (field, unit), value in zip(UNITS.items(), found, strict=True):
            receipt.record(f"{name}_{field}", value, unit)


def split():
    """The sites to learn from, to choose by and to test on, simulated now or found."""
    ends = (0, *itertools.accumulate(SETS.values()))
    path = KEPT / f"sites_{ends[-1]}_{code_hash(generate.CODE)[:12]}.npz"
    whole = kept(path, lambda: simulate_shard(range(ends[-1]), SEED, GRID))
    return {name: pick(whole, slice(*ends[i : i + 2])) for i, name in enumerate(SETS)}


def main(argv=None):
    """Simulate the sites, search, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--trials", type=int, default=5, help="of each kind in each budget")
    parser.add_argument("--seconds", type=float, default=12, help="of one trial's training")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    receipt, sets = receipts.start("co2_storage", device.tier(), 1), split()
    receipt.sizes(trials=args.trials, seconds=args.seconds, epochs=EPOCHS, seeds=len(SEEDS))
    receipt.sizes(**{f"sites_{name}": number for name, number in SETS.items()})
    tuned(receipt, "equal_epochs", None, args.trials, sets)
    tuned(receipt, "equal_seconds", args.seconds, args.trials, sets)
    three_axes(receipt, LONGER * args.seconds, sets)
    print(receipt.write("tuning"))


if __name__ == "__main__":
    main()
