"""The recorded studies: methods of averaging and of uncertainty, by seeds.

    make study CHAPTERS=training/weight_averaging STUDY=methods

What is compared starts from the same weights (an arm `fork`, 9 of 16 epochs) and has as many
epochs. SGD's rates are those of the authors' recipe for such a network, AdamW's are common
ones; SWALP has its authors' rates, which fall before the fork; nothing was tuned on what is
reported. The other study, `bits`: 8 in training, few after it. `study_surface.py` and
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
from fashion_task import ADAM, SGD, Task, fingerprints, logits_of, task_of
from helpers import data, device
from helpers.study import Arm, Metric, Outcome, Part, Study, student
from predictive_scores import scores

EMA = 0.99  # decay for each step: a memory of about a hundred
MEMBERS = 3  # runs of an ensemble, and cycles
FEW, WHOLE = (2, 3, 4, 5, 6, 8), 24  # 24 bits are a float32's
FURTHER = 100  # what is added to a seed for each further start


class Path(NamedTuple):
    """How an arm's network moves, and what is kept of it.

    way: "begins" up to the fork; from there the rate "falls", "stays" high, or "cycles"; or the
    network "rests"; or a curve between two "bends". snapshots: what is averaged, none or each
    "step", "epoch" or "cycle", with a `decay` or equally; weights, or, in an `ensemble`,
    predictions. statistics of batch norms: "trained", "averaged", or "recomputed". rates: at
    first, and high; one that `settles` has fallen at the fork. bits: of activations, but where
    an average of weights is asked. rounded: bits of weights after all.
    """

    way: str
    snapshots: str | None = None
    statistics: str = "trained"
    decay: float | None = None
    ensemble: bool = False
    optimiser: Callable = SGD
    rates: tuple = (0.1, 0.05)
    settles: bool = False
    bits: int | None = None
    rounded: int | None = None


def task_for(job):
    """The `Task` of what the arm learns from; it has nothing to test on."""
    classes = int(job.train.labels_N.max()) + 1
    width = job.arm.setting.get("width", job.sizes.get("width"))
    return Task(job.train, job.choice, None, width, job.sizes["epochs"], classes)


def drawn(job):
    """The seed of the start and of the images' order: the study's, or a further one."""
    return job.seed + FURTHER * job.arm.setting.get("member", 0)


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
    how = {"settles": path.settles, "optimiser": path.optimiser}
    falls, stays = task.recipes(*path.rates, **how)
    if path.way == "begins":
        start = round_activations(job.start, path.bits) if path.bits else job.start
        return task.begun(seed, falls, start)
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
        if path.snapshots:
            model, average.model.snapshots = average.model, average.count
            model = round_activations(model, None) if path.bits else model
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


def compared(study, pairs, metrics):
    """Outcomes: each metric of arms less that of another: {less: {arm: (what differs, …)}}."""
    found = {}
    for less, arms in pairs.items():
        for (arm, (differs, *_)), metric in itertools.product(arms.items(), metrics):
            unit = "nat" if metric == "nll" else "points"
            outcome = Outcome(metric, arm, less, differs, unit=unit)
            found[f"study_{study}_less_{less}_{arm}_{metric}"] = outcome
    return found


METRICS = {"accuracy": Metric("%", 100), "nll": Metric("nat"), "ece": Metric("%", 100)}
ERRORS = {"error": Metric("%", 100)}
SIZES = {"images": 3000, "tested": 400, "epochs": 48, "width": 8}
TRIAL = {"images": 200, "tested": 2, "epochs": 8, "width": 2}
COMMON = {"notebook": "weight_averaging", "seeds": range(5), "sizes": SIZES, "trial": TRIAL}
COMMON |= {"parts": drawn_parts, "begin": begin, "fit": fit, "processes": 2}
ANEW = {"statistics": "recomputed"}
SWA = Path("stays", "epoch", **ANEW)
BY_ADAM = {"optimiser": ADAM, "rates": (2e-3, 1e-3)}
FORK = Arm(train="train", test=(), loss=Path("begins"))


def ending(start, loss, **more):
    """An arm that goes on from another."""
    return Arm(train="train", start=start, loss=loss, **more)


def methods_judge(made, test, job):
    """Scores, and of how many networks the weights (or predictions) were averaged."""
    count = len(made) if isinstance(made, list) else getattr(made, "snapshots", 1)
    found = scores(probabilities(made, test), test.labels_N)
    return found._asdict() | {"snapshots": count}


WAY, EACH, OF, DECAY = "loss.way", "loss.snapshots", "loss.statistics", "loss.decay"
BY_OTHER = ("loss.rates", "start", "loss.optimiser.function")
BY_OTHER += ("loss.optimiser.momentum", "loss.optimiser.weight_decay")
SGD_EMA = Path("falls", "step", decay=EMA, **ANEW)
AVERAGES = {  # what each differs in from SGD, and how it goes on from the fork
    "high": ((WAY,), Path("stays")),
    "asgd_epochs": ((EACH, OF), Path("falls", "epoch", **ANEW)),
    "swa": ((EACH, OF, WAY), SWA),
    "asgd": ((EACH, OF), Path("falls", "step", **ANEW)),
    "swa_steps": ((EACH, OF, WAY), SWA._replace(snapshots="step")),
    "ema": ((DECAY, EACH, OF), SGD_EMA),
    "ema_high": ((DECAY, EACH, OF, WAY), SGD_EMA._replace(way="stays")),
    "swa_last": ((EACH, WAY), Path("stays", "epoch")),
    "swa_average": ((EACH, OF, WAY), Path("stays", "epoch", "averaged")),
    "fge_mean": ((EACH, OF, WAY), Path("cycles", "cycle", **ANEW)),
    "fge_ensemble": (("loss.ensemble", EACH, WAY), Path("cycles", "cycle", ensemble=True)),
}
OTHERS = {
    "sgd_recomputed": ((OF, WAY, "start"), ending("sgd", Path("rests", **ANEW))),
    "adam": (BY_OTHER, ending("adam_fork", Path("falls", **BY_ADAM))),
    "adam_swa": ((*BY_OTHER, EACH, OF, WAY), ending("adam_fork", SWA._replace(**BY_ADAM))),
}
PAIRS = {  # arms that differ in one thing alone
    "asgd_epochs": {"swa": ((WAY,),)},
    "asgd": {"swa_steps": ((WAY,),)},
    "swa": {"swa_last": ((OF,),), "swa_steps": ((EACH,),)},
}
METHODS = Study(
    name="methods",
    key="study_methods_{arm}_{metric}",
    metrics=METRICS | {"snapshots": Metric("")},
    judge=methods_judge,
    arms={
        "fork": FORK,
        "adam_fork": replace(FORK, loss=Path("begins", **BY_ADAM)),
        "sgd": ending("fork", Path("falls")),
        **{name: ending("fork", path) for name, (_, path) in AVERAGES.items()},
        **{name: arm for name, (_, arm) in OTHERS.items()},
    },
    outcomes=compared("methods", {"sgd": AVERAGES | OTHERS, **PAIRS}, METRICS),
    **COMMON,
)


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


OF_SGD = {key: SGD.keywords[key] for key in ("momentum", "weight_decay")}
EIGHT = {"bits": 8, "optimiser": partial(LowPrecisionSGD, bits=8, **OF_SGD)}
SETTLED = {"settles": True, "rates": (0.1, 0.01)}  # SWALP's rates
SWALP = SWA._replace(**EIGHT, **SETTLED)
FORKS = {"full": {}, "low": EIGHT, "settled": SETTLED, "swalp": EIGHT | SETTLED}
BY_BITS = ("loss.bits", "loss.optimiser.bits", "loss.optimiser.foreach", "start")
BY_BITS += ("loss.optimiser.function",)
BY_SWALP = (*BY_BITS, "loss.rates", "loss.settles", EACH, OF, WAY)
GAPS = {
    "full_sgd": {"low_swa": (BY_SWALP,), "low_sgd": (BY_BITS,)},
    "settled_swa": {"low_swa": (BY_BITS,)},
    "low_swa": {"low_swa_steps": ((EACH,),)},
}
BITS = Study(
    name="bits",
    key="study_bits_{arm}_{metric}",
    metrics=ERRORS,
    judge=lambda made, test, job: {"error": 1 - methods_judge(made, test, job)["accuracy"]},
    extra=bits_extra,
    arms={
        **{
            f"{name}_fork": replace(FORK, loss=Path("begins", **of))
            for name, of in FORKS.items()
        },
        "full_sgd": ending("full_fork", Path("falls")),
        "full_swa": ending("full_fork", SWA),
        "low_sgd": ending("low_fork", Path("falls", **EIGHT)),
        "settled_swa": ending("settled_fork", SWA._replace(**SETTLED)),
        "low_swa": ending("swalp_fork", SWALP),
        "low_swa_steps": ending("swalp_fork", SWALP._replace(snapshots="step")),
    }
    | {
        f"full_{name}_{bits}_bits": ending(f"full_{name}", Path("rests", rounded=bits, **ANEW))
        for name, bits in itertools.product(("sgd", "swa"), (*FEW, WHOLE))
    },
    outcomes=compared("bits", GAPS, ERRORS),
    **COMMON | {"seeds": range(3), "sizes": SIZES | {"epochs": 32}},
)
