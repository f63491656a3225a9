"""The recorded studies: methods of averaging and of uncertainty, by seeds.

    make study CHAPTERS=training/weight_averaging STUDY=methods

What is compared starts from the same weights (an arm `fork`, three quarters of the epochs) and
has as many epochs. SGD's rates are those of the authors' recipe for such a network, AdamW's are
common ones, the fork is ours; nothing was tuned on what is reported.

Studies: `methods`, and `bits` (8 in training, few after it). `study_surface.py` and
`study_uncertainty.py` go by the same paths.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import loss_plane
import numpy as np
from averaging import WeightAverage, updates
from block_float import LowPrecisionSGD, round_activations, with_rounded_weights
from fashion_task import Task, fingerprints, task_of
from helpers import data, device
from helpers.study import Arm, Metric, Outcome, Part, Study, student
from predictive_scores import scores
from small_training import ADAM, SGD, logits_of, train

EMA = 0.99  # decay for each step: a memory of about a hundred
MEMBERS = 3  # runs of an ensemble, and cycles
FEW, WHOLE = (2, 3, 4, 5, 6, 8), 24  # 24 bits are a float32's
OTHERS = 100  # what is added to a seed for each further start


class Path(NamedTuple):
    """How an arm's network moves, and what is kept of it.

    way: "begins" up to the fork; from there the rate "falls", "stays" high, or "cycles"; or the
    network "rests"; or a curve between two "bends". snapshots: what is averaged, none or each
    "step", "epoch" or "cycle", with a `decay` or equally; weights, or with `ensemble`
    predictions. statistics: of the batch norms, "trained" with the last network, "averaged", or
    "recomputed". rates: before the fork, and high. bits: of activations from the beginning on;
    rounded: of weights after all.
    """

    way: str
    snapshots: str | None = None
    statistics: str = "trained"
    decay: float | None = None
    ensemble: bool = False
    optimiser: Callable = SGD
    rates: tuple = (0.1, 0.05)
    bits: int | None = None
    rounded: int | None = None


def task_for(job):
    """The `Task` of what the arm learns from; it has nothing to test on."""
    classes = int(job.train.labels_N.max()) + 1
    width = job.arm.setting.get("width", job.sizes.get("width"))
    return Task(job.train, job.choice, None, width, job.sizes["epochs"], classes)


def drawn(job):
    """The seed of the start and of the images' order: the study's, or a further one."""
    return job.seed + OTHERS * job.arm.setting.get("member", 0)


def begin(word, job):
    """A new network of the arm's width and dropout."""
    return task_for(job).network(drawn(job), dropout=job.arm.setting.get("dropout", 0.0))


def fit(job):
    """What a path leaves: the `Run` of a beginning, else a network, or a list of them."""
    path, task, seed = job.arm.loss, task_for(job), drawn(job)
    if path.way == "bends":
        ends = map(loss_plane.weights_of, job.start)
        epochs = task.epochs // 2
        return *job.start, loss_plane.bend(job.start[1], *ends, job.train, epochs=epochs)
    falls, stays = task.recipes(*path.rates, optimiser=path.optimiser)
    if path.way == "begins":
        if path.bits:
            round_activations(job.start, path.bits)
        return train(job.start, job.train, falls, seed=seed, last=task.start)
    if path.way == "rests":
        model = with_rounded_weights(job.start, path.rounded) if path.rounded else job.start
    elif path.ensemble:
        return task.cycles(seed, job.start, falls, MEMBERS)
    else:
        buffers = "average" if path.statistics == "averaged" else "last"
        average = WeightAverage(job.start.model, path.decay, buffers)
        if path.way == "cycles":
            for end in task.cycles(seed, job.start, falls, MEMBERS):
                average.update(end)
        else:
            recipe = {"falls": falls, "stays": stays}[path.way]
            calls = {f"at_{path.snapshots}": updates(average)} if path.snapshots else {}
            model = task.branch(seed, job.start, recipe, **calls)
        model = average.model if path.snapshots else model
    return task.refreshed(model) if path.statistics == "recomputed" else model


def probabilities(networks, images):
    """The mean probabilities (N, K) of one network or of several."""
    networks = networks if isinstance(networks, list) else [networks]
    return sum(logits_of(one.eval(), images).softmax(1) for one in networks) / len(networks)


def drawn_parts(seed, sizes, **how):
    """{name: Part} of a task's images, to train on, to choose with and to test on."""
    where, counts = device.device(), (sizes["images"], sizes.get("width"), sizes["epochs"])
    how |= {"tested": sizes["tested"], "seed": seed}
    task = task_of(data.fetch("fashion_mnist"), where, *counts, **how)
    return {name: clothes(getattr(task, name)) for name in ("train", "held", "test")}


def clothes(*several):
    """The `Part` of these images, whose units are the images themselves."""
    units = [one for images in several for one in fingerprints(images)]
    return Part(several if len(several) > 1 else several[0], units)


def against_sgd(prefix, differs, metrics):
    """Outcomes: each metric of each arm of `differs` less that of SGD."""
    both = itertools.product(differs.items(), metrics)
    return {f"{prefix}_less_sgd_{a}_{m}": Outcome(m, a, "sgd", d) for (a, d), m in both}


METRICS = {"accuracy": Metric(""), "nll": Metric("nat"), "ece": Metric("")}
ERRORS = {"error": Metric("%", 100)}
SIZES = {"images": 3000, "tested": 400, "epochs": 16, "width": 8}
TRIAL = {"images": 200, "tested": 2, "epochs": 8, "width": 2}
COMMON = {"notebook": "weight_averaging", "seeds": range(3), "sizes": SIZES, "trial": TRIAL}
COMMON |= {"parts": drawn_parts, "begin": begin, "fit": fit}
ANEW = {"statistics": "recomputed"}
SWA = Path("stays", "epoch", **ANEW)
BY_ADAM = {"optimiser": ADAM, "rates": (2e-3, 1e-3)}
FORK = Arm(train="train", test=(), loss=Path("begins"))


def ending(start, loss, **more):
    """An arm that goes on from another."""
    return Arm(train="train", start=start, loss=loss, **more)


WAY, EACH, OF = "loss.way", "loss.snapshots", "loss.statistics"
BY_OTHER = ("loss.rates", "start", "loss.optimiser.function")
BY_OTHER += ("loss.optimiser.momentum", "loss.optimiser.weight_decay")


def methods_extra(receipt, found):
    """Record the gain in points, which a claim asks for."""
    gain = dict(receipt.metrics["study_methods_less_sgd_swa_accuracy"], unit="points")
    gain |= {end: 100 * gain[end] for end in ("value", "low", "high") if end in gain}
    receipt.record("study_methods_swa_gain", **gain)


METHODS = Study(
    name="methods",
    key="study_methods_{arm}_{metric}",
    metrics=METRICS,
    judge=lambda made, test, job: scores(probabilities(made, test), test.labels_N)._asdict(),
    extra=methods_extra,
    arms={
        "fork": FORK,
        "sgd": ending("fork", Path("falls")),
        "sgd_recomputed": ending("sgd", Path("rests", **ANEW)),
        "high": ending("fork", Path("stays")),
        "asgd": ending("fork", Path("falls", "step", "recomputed")),
        "ema": ending("fork", Path("falls", "step", "recomputed", EMA)),
        "ema_high": ending("fork", Path("stays", "step", "recomputed", EMA)),
        "swa": ending("fork", SWA),
        "swa_last": ending("fork", Path("stays", "epoch")),
        "swa_average": ending("fork", Path("stays", "epoch", "averaged")),
        "fge_mean": ending("fork", Path("cycles", "cycle", "recomputed")),
        "fge_ensemble": ending("fork", Path("cycles", "cycle", ensemble=True)),
        "adam_fork": Arm(train="train", test=(), loss=Path("begins", **BY_ADAM)),
        "adam": ending("adam_fork", Path("falls", **BY_ADAM)),
        "adam_swa": ending("adam_fork", SWA._replace(**BY_ADAM)),
    },
    outcomes=against_sgd(
        "study_methods",
        {
            "sgd_recomputed": (OF, WAY, "start"),
            "high": (WAY,),
            "asgd": (EACH, OF),
            "ema": ("loss.decay", EACH, OF),
            "ema_high": ("loss.decay", EACH, OF, WAY),
            "swa": (EACH, OF, WAY),
            "swa_last": (EACH, WAY),
            "swa_average": (EACH, OF, WAY),
            "fge_mean": (EACH, OF, WAY),
            "fge_ensemble": ("loss.ensemble", EACH, WAY),
            "adam": BY_OTHER,
            "adam_swa": (*BY_OTHER, EACH, OF, WAY),
        },
        METRICS,
    ),
    **COMMON,
)


def error_of(made, test, job):
    """The share of wrong answers."""
    return {"error": 1 - scores(probabilities(made, test), test.labels_N).accuracy}


def bits_extra(receipt, found):
    """Record by how much less SWA's error rises than SGD's with few bits, in points."""
    seeds = found["full_sgd"]

    def rises(name, count):
        few, whole = (found[f"full_{name}_{bits}_bits"] for bits in (count, WHOLE))
        error = [[one[seed]["test"]["error"] for seed in seeds] for one in (few, whole)]
        return 100 * np.subtract(*error)

    for count in FEW:
        mean, low, high = student((rises("sgd", count) - rises("swa", count)).tolist())
        told = "points", low, high, len(seeds), "mean over seeds, 95 % interval"
        receipt.record(f"study_bits_rounding_{count}_bits_gain", mean, *told, interval="95 %")


OWN = {key: SGD.keywords[key] for key in ("momentum", "weight_decay")}
EIGHT = {"bits": 8, "optimiser": partial(LowPrecisionSGD, bits=8, **OWN)}
ROUNDED = {
    f"full_{name}_{bits}_bits": ending(f"full_{name}", Path("rests", rounded=bits, **ANEW))
    for name, bits in itertools.product(("sgd", "swa"), (*FEW, WHOLE))
}
BY_BITS = ("loss.bits", "loss.optimiser.bits", "loss.optimiser.foreach", "start")
BY_BITS += ("loss.optimiser.function", EACH, OF, WAY)
BITS = Study(
    name="bits",
    key="study_bits_{arm}_{metric}",
    metrics=ERRORS,
    judge=error_of,
    extra=bits_extra,
    arms={
        "full_fork": FORK,
        "full_sgd": ending("full_fork", Path("falls")),
        "full_swa": ending("full_fork", SWA),
        "low_fork": replace(FORK, loss=Path("begins", **EIGHT)),
        "low_sgd": ending("low_fork", Path("falls", **EIGHT)),
        "low_swa": ending("low_fork", SWA._replace(**EIGHT)),
        **ROUNDED,
    },
    outcomes={
        "study_bits_swalp_gap": Outcome("error", "low_swa", "full_sgd", BY_BITS, unit="points")
    },
    **COMMON,
)
