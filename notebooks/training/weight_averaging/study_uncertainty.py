"""The recorded studies of what networks do not know: Gaussians of weights, and several runs.

    make study CHAPTERS=training/weight_averaging STUDY=uncertainty

`uncertainty`: five classes known, five unknown; one run of SGD, or the Gaussian of one, and
three of them. `widths`: test errors by width, a fifth of the training labels wrong. Paths and
forks are those of `study_averaging.py`; here weights are collected four times an epoch.
"""

import copy
import itertools
from functools import partial
from typing import NamedTuple

import study_averaging as base
import torch
import weight_posteriors as wp
from averaging import WeightAverage
from fashion_task import draw, load
from helpers import data, device
from helpers.study import Arm, Metric, Outcome, Study
from loss_plane import weights_of
from predictive_scores import best_temperature, detection_auroc, entropies, scores
from small_training import logits_of
from study_averaging import COMMON, ERRORS, FORK, MEMBERS, METRICS, Path, ending

SAMPLES, DECAY, RANK, DROPOUT, WRONG = 30, 3e-4, 20, 0.2, 0.2
KNOWN, UNKNOWN = range(5), range(5, 10)
WIDTHS = (1, 2, 4, 8, 16)


class Asked(NamedTuple):
    """How an arm's probabilities come about: as the mean of its networks' ("network"), with a
    "temperature", or as that of `samples` drawn by "dropout", "laplace" or from each
    "gaussian", with `scale` and `low_rank` of its covariance, batch norms filled by each
    `every`-th training image."""

    way: str = "network"
    samples: int = 0
    scale: float = 0.5
    low_rank: bool = True
    every: int = 5


def made(job):
    """What an arm makes: a path's end, (SWA, Gaussian) of a cloud, or a function of images."""
    if isinstance(job.arm.loss, Asked):
        return asked(job)
    return collected(job) if job.arm.loss.snapshots == "quarter" else base.fit(job)


def collected(job):
    """(SWA model, `Swag`) of a path that stays high, four collections for each epoch."""
    task, run = base.task_for(job), job.start
    swa, swag = WeightAverage(run.model), wp.Swag(RANK)
    _, stays = task.recipes(*job.arm.loss.rates, optimiser=job.arm.loss.optimiser)
    every = max(task.train.count // stays.batch // 4, 1)

    def at_step(step, model):
        if step % every == 0:
            swa.update(model)
            swag.update(weights_of(model))

    task.branch(base.drawn(job), run, stays, at_step=at_step)
    return task.refreshed(swa.model), swag


def asked(job):
    """A function of images that returns their probabilities (N, K)."""
    how, starts = job.arm.loss, job.start if isinstance(job.arm.start, tuple) else (job.start,)
    networks = [one[0] if isinstance(one, tuple) else one for one in starts]
    model, samples = networks[0].eval(), how.samples
    if how.way == "temperature":
        heat = best_temperature(logits_of(model, job.choice), job.choice.labels_N)
        return lambda images: (logits_of(model, images) / heat).softmax(1)
    if how.way == "dropout":
        return lambda images: wp.dropout_probabilities(model, images, samples)
    if how.way == "laplace":
        return lambda x: wp.laplace_probabilities(model, job.train, x, DECAY, samples)
    if how.way == "network":
        return lambda images: base.probabilities(networks, images)
    lent, few = (
        copy.deepcopy(model),
        job.train.part(torch.arange(0, job.train.count, how.every)),
    )
    cloud = partial(wp.swag_probabilities, scale=how.scale, low_rank=how.low_rank)
    clouds = [swag for _, swag in starts]
    return lambda x: sum(cloud(one, lent, few, x, samples) for one in clouds) / len(clouds)


def uncertainty_parts(seed, sizes):
    """Images of known classes, and beside those to test on as many of unknown ones."""
    found = base.drawn_parts(seed, sizes, classes=KNOWN)
    every = load(data.fetch("fashion_mnist"), "t10k", device.device())
    unknown = draw(every, len(UNKNOWN) * sizes["tested"], classes=UNKNOWN)
    unknown = unknown.scaled_as(found["train"].data)
    return found | {"test": base.clothes(found["test"].data, unknown)}


def uncertainty_judge(answer, images, job):
    """Scores on known classes, and how well entropy tells the unknown ones."""
    known, odd = map(answer, images)
    told = scores(known, images[0].labels_N)._asdict()
    return told | {"auroc": detection_auroc(entropies(known), entropies(odd))}


def runs(end="", **setting):
    """The arms of three runs, their forks and Gaussians, named with this end."""
    found = {}
    for member in range(MEMBERS):
        about = {"setting": {"member": member, **setting}, "test": ()}
        fork = f"fork_{member}{end}"
        found[fork] = Arm(train="train", loss=FORK.loss, **about)
        found[f"run_{member}{end}"] = ending(fork, Path("falls"), **about)
        stays = Path("stays", "quarter", "recomputed")
        found[f"cloud_{member}{end}"] = ending(fork, stays, **about)
    return found


RUNS, CLOUDS = ([f"{kind}_{member}" for member in range(MEMBERS)] for kind in ("run", "cloud"))
SWAG = Asked("gaussian", SAMPLES)
DROPS = {"setting": {"dropout": DROPOUT}, "test": ()}
MULTI = SWAG._replace(samples=SAMPLES // MEMBERS)
WAY, COUNT = "loss.way", "loss.samples"
FROM_CLOUD = (COUNT, WAY, "start", "train")
BEYOND = "study_uncertainty_multiswag_over_ensemble_excess"
DIFFERS = {
    "swa": ("start",),
    "temperature": ("choice", WAY),
    "dropout": (COUNT, WAY, "start"),
    "laplace": (COUNT, WAY, "train"),
    "swag_diagonal": (*FROM_CLOUD, "loss.low_rank", "loss.scale"),
    "swag": FROM_CLOUD,
    "ensemble": ("start",),
    "multiswag": FROM_CLOUD,
}  # each from SGD
UNCERTAINTY = Study(
    name="uncertainty",
    key="study_uncertainty_{arm}_{metric}",
    metrics=METRICS | {"auroc": Metric("")},
    judge=uncertainty_judge,
    arms=runs()
    | {
        "drops_fork": Arm(train="train", loss=FORK.loss, **DROPS),
        "drops": ending("drops_fork", Path("falls"), **DROPS),
        "sgd": Arm(start="run_0", loss=Asked()),
        "swa": Arm(start="cloud_0", loss=Asked()),
        "temperature": Arm(start="run_0", choice="held", loss=Asked("temperature")),
        "dropout": Arm(start="drops", loss=Asked("dropout", SAMPLES)),
        "laplace": ending("run_0", Asked("laplace", SAMPLES)),
        "swag_diagonal": ending("cloud_0", SWAG._replace(scale=1.0, low_rank=False)),
        "swag": ending("cloud_0", SWAG),
        "ensemble": Arm(start=tuple(RUNS), loss=Asked()),
        "multiswag": ending(tuple(CLOUDS), MULTI),
    },
    outcomes={BEYOND: Outcome("nll", "multiswag", "ensemble", FROM_CLOUD)}
    | base.against_sgd("study_uncertainty", DIFFERS, (*METRICS, "auroc")),
    **COMMON | {"fit": made, "parts": uncertainty_parts},
)


def widths_arms(width):
    """The arms of a width: one run and three, of SGD and of its Gaussians."""
    end, about = f"_width_{width}", {"setting": {"width": width}}
    sampled = MULTI._replace(every=1)
    run, cloud = (tuple(name + end for name in names) for names in (RUNS, CLOUDS))
    return runs(end, width=width) | {
        f"sgd{end}": Arm(start=run[0], loss=Asked(every=1), **about),
        f"swag{end}": ending(cloud[0], sampled, **about),
        f"ensemble{end}": Arm(start=run, loss=Asked(every=1), **about),
        f"multiswag{end}": ending(cloud, sampled, **about),
    }


def points(arm, less, differs):
    """The error of an arm less that of another, in points."""
    return Outcome("error", arm, less, differs, unit="points")


WIDER = {
    f"study_widths_{n}_from_{a}_to_{b}_gap": points(
        f"{n}_width_{b}", f"{n}_width_{a}", ("setting.width", "start")
    )
    for n, (a, b) in itertools.product(("sgd", "multiswag"), itertools.pairwise(WIDTHS))
}
LESS = {"multiswag_gain": "sgd", "multiswag_over_ensemble_gain": "ensemble"}
FEWER = {
    f"study_widths_{name}": points(f"{other}_width_8", "multiswag_width_8", FROM_CLOUD)
    for name, other in LESS.items()
}
DESCENT = Study(
    name="widths",
    key="study_widths_{arm}_{metric}",
    metrics=ERRORS,
    judge=lambda answer, test, job: {"error": 1 - scores(answer(test), test.labels_N).accuracy},
    arms={name: arm for width in WIDTHS for name, arm in widths_arms(width).items()},
    outcomes=WIDER | FEWER,
    **COMMON
    | {
        "fit": made,
        "parts": lambda seed, sizes: base.drawn_parts(seed, sizes, wrong=WRONG),
        "sizes": {"images": 600, "tested": 400, "epochs": 48},
    },
)
