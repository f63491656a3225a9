"""Equal trials for U-FNO, FNO and CNN; and the article's three axes, at small size.

    make study CHAPTERS=signals/co2_storage STUDY=tuning

Each kind gets the same number of trials, twice: with equal epochs, and with equal seconds of
one core. The first trial has the shipped shape, rate and batch; the others are drawn from
`SHAPES`, of about one size, `RATES` and `BATCHES`. For each seed, the trial with the smallest
sum of plume and pressure error on sites that no trial learns from is its kind's best, and it
alone is asked about other sites. At last a U-FNO over depth, radius and time, as the article's,
and the shipped kind with folded time learn for the same seconds.
"""

import copy
import hashlib
import itertools
import random
import time
from collections import namedtuple

import torch
from fourier_operator import UFNO, parameters
from fourier_operator.networks import REDUCED
from helpers.study import Arm, Metric, Outcome, Part, Study
from storage_sites import code_hash, generate, kept, simulate_shard
from two_phase import Grid

from .shipped import BUILD, KINDS
from .surrogate import Surrogate, case_errors, pick
from .training import train

SHAPES = {  # each within an eighth of the shipped size; the shipped first
    "ufno": ({}, {"width": 20, "modes": (3, 4), "layers": 4, "inner": 22, "u_layers": 4},
             {"width": 22, "modes": (4, 8), "layers": 3, "inner": 24, "u_layers": 2},
             {"width": 24, "modes": (3, 5), "layers": 4, "inner": 26, "u_layers": 2}),
    "fno": ({}, {"width": 37, "modes": (3, 5)}, {"width": 13, "modes": (8, 16)},
            {"width": 20, "layers": 6}),
    "cnn": ({}, {"width": 28, "halvings": 2}, {"width": 61, "halvings": 1},
            {"width": 18, "halvings": 2, "kernel": 5}),
}  # fmt: skip
RATES, BATCHES, TRIALS = (1e-3, 3e-3, 1e-2), (4, 8, 16), 5
UNITS = {"epochs": "epochs", "seconds": "s", "plume": "%", "pressure": "%"}
THREE_AXES = {"width": 10, "modes": (3, 5, 3), "layers": 3, "u_layers": 3, "inner": 12,
              "head": 32, "pad": (0, 8, 4), "normalise": False}  # fmt: skip
BUDGETS = {"equal_epochs": 0, "equal_seconds": 1}  # `Recipe.budgets` of a trial
LONGER = 8  # times a trial's seconds, for three axes
SITES = {"sites_training": 48, "sites_validation": 16, "sites_test": 16}
GRID, SEED, KEPT = Grid.reduced(), 4, BUILD / "co2_tuning"


# How a network learns: `budgets` times a trial's seconds, or 0: for equal epochs.
Recipe = namedtuple("Recipe", "rate batch budgets", defaults=(3e-3, 8, 0))
Trained = namedtuple("Trained", "net epochs seconds told")  # `told`: its setting in words


def drawn(kind, trials):
    """A kind's settings (shape, rate, batch), each once, the shipped first."""
    others = list(itertools.product(SHAPES[kind], RATES, BATCHES))
    shipped = {}, *Recipe()[:2]
    others.remove(shipped)
    return [shipped, *random.Random(0).sample(others, trials - 1)]


def words(arm):
    """ "width 37, modes (3, 5); rate 0.01; batch 8", as a receipt's note tells a setting."""
    told = ", ".join(f"{name} {value}" for name, value in arm.setting["shape"].items())
    return f"{told or 'as shipped'}; rate {arm.loss.rate:g}; batch {arm.loss.batch}"


def network(kind, shape):
    """A network of a kind in its reduced shape, changed by `shape`; or one of three axes."""
    if kind == "three_axes":
        return UFNO(outputs=2, **shape)
    made = KINDS[kind]
    return made(outputs=2, times=12, **REDUCED[made.__name__] | shape)


def parts(seed, sizes):
    """The sites to learn from, to choose by and to test on, the same for all seeds, simulated
    now or found; a site's unit is its rock."""
    ends = (0, *itertools.accumulate(sizes[name] for name in SITES))
    path = KEPT / f"sites_{ends[-1]}_{code_hash(generate.CODE)[:12]}.npz"
    whole = kept(path, lambda: simulate_shard(range(ends[-1]), SEED, GRID))
    rocks = (rock.tobytes() for rock in whole["permeability"].numpy())
    units = [hashlib.sha256(rock).hexdigest()[:16] for rock in rocks]
    spans = (slice(*pair) for pair in itertools.pairwise(ends))
    found = (Part(pick(whole, span), units[span]) for span in spans)
    return dict(zip(("training", "validation", "test"), found, strict=True))


def off(made, cases):
    """A trained network's mean plume and pressure error, own fields, in percent."""
    with torch.inference_mode():
        fields = Surrogate(made.net, GRID).unbalanced(cases)
    return [100 * each.mean().item() for each in vars(case_errors(*fields, cases)).values()]


def begin(word, job):
    """A new network of the arm's kind and shape."""
    return network(**job.arm.setting)


def fit(job):
    """A trial's network, trained; of several trials the one that is best on the choice. Within
    seconds it learns for as many epochs as fit, told by trial epochs of copies."""
    if job.choice:
        return min(job.start, key=lambda made: sum(off(made, job.choice)))
    rate, batch, budgets = job.arm.loss

    def timed(net, epochs):
        began = time.process_time()
        train(net, job.train, GRID, epochs, job.seed, batch, rate)
        return Trained(net, epochs, time.process_time() - began, words(job.arm))

    epochs = job.sizes["epochs"]
    if budgets:  # the first run of a process is slower
        epoch = min(timed(copy.deepcopy(job.start), 1).seconds for _ in range(2))
        epochs = max(1, round(budgets * job.sizes["seconds"] / epoch))
    return timed(job.start, epochs)


def judge(made, cases, job):
    """Its errors and what it took; in lists its setting in words and its size."""
    told = {"told": [made.told], "parameters": [parameters(made.net)[1]]}
    numbers = made.epochs, made.seconds, *off(made, cases)
    return dict(zip(UNITS, numbers, strict=True)) | told


def extra(receipt, found):
    """Note beside each best the settings that were it, in the seeds' order, and record the
    sizes of the networks that were compared last."""
    for name in [name for name, runs in found.items() if runs[0]]:  # trials are not judged
        told = [parts["test"] for parts in found[name].values()]
        if name in LAST:
            receipt.sizes(**{f"parameters_{name}": told[0]["parameters"][0]})
            continue
        best = " | ".join(dict.fromkeys(one["told"][0] for one in told))
        for metric in UNITS:
            receipt.metrics[f"{name}_{metric}"]["note"] = best


def searched(budget, kind):
    """The arms of one kind within one budget: its trials, and the best of them."""
    best = f"{budget}_{kind}"
    tried = {
        f"{best}_trial_{number}": Arm(
            train="training", test=(), loss=Recipe(*how, BUDGETS[budget]),
            setting={"kind": kind, "shape": shape},
        )
        for number, (shape, *how) in enumerate(drawn(kind, TRIALS))
    }  # fmt: skip
    return tried | {best: Arm(start=tuple(tried), choice="validation")}


LAST = {"three_axes": {"kind": "three_axes", "shape": THREE_AXES}}
LAST["folded"] = {"kind": "ufno", "shape": {}}
SHAPED = ("setting.kind", *(f"setting.shape.{name}" for name in THREE_AXES))
PAIRS = {
    f"{budget}_ufno_less_{kind}": (f"{budget}_ufno", f"{budget}_{kind}", ("start",))
    for budget in BUDGETS
    for kind in ("cnn", "fno")
} | {"three_axes_less_folded": (*LAST, SHAPED)}
GROUPS = [searched(budget, kind) for budget, kind in itertools.product(BUDGETS, KINDS)]
ARMS = {name: arm for group in GROUPS for name, arm in group.items()}
for name, setting in LAST.items():
    ARMS[name] = Arm(train="training", loss=Recipe(budgets=LONGER), setting=setting)
STUDY = Study(
    notebook="co2_storage", name="tuning", arms=ARMS, seeds=range(3), key="{arm}_{metric}",
    sizes={"trials": TRIALS, "epochs": 12, "seconds": 12, **SITES},
    trial={"epochs": 1, "seconds": 0.1} | dict.fromkeys(SITES, 2),
    metrics={name: Metric(unit) for name, unit in UNITS.items()},
    parts=parts, begin=begin, fit=fit, judge=judge, extra=extra,
    outcomes={
        f"{label}_{field}": Outcome(field, *pair, unit="percentage points")
        for label, pair in PAIRS.items()
        for field in ("plume", "pressure")
    },
)  # fmt: skip
