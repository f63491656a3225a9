"""The recorded studies of what networks do not know: Gaussians of weights, and several runs.

    make study CHAPTERS=training/weight_averaging STUDY=uncertainty

`uncertainty`: five classes known, five unknown; one run of SGD, its Gaussian, or three of them;
a temperature and Laplace's prior are chosen on held-out images. `widths`: errors by width, a
fifth of the training labels wrong. Weights are collected four times an epoch.
"""

import copy
import itertools
from functools import partial
from typing import NamedTuple

import study_averaging as base
import weight_posteriors as wp
from averaging import WeightAverage
from fashion_task import draw, load, logits_of
from helpers import data, device
from helpers.study import Arm, Metric, Study
from loss_plane import weights_of
from predictive_scores import best_temperature, detection_auroc, entropies, scores
from study_averaging import COMMON, ERRORS, FORK, MEMBERS, METRICS, Path, ending

SAMPLES, RANK, DROPOUT, WRONG = 30, 20, 0.2, 0.2
KNOWN, UNKNOWN = range(5), range(5, 10)
WIDTHS = (1, 2, 4, 8, 16)


class Asked(NamedTuple):
    """How an arm's probabilities come about: as the mean of its networks' ("network"), with a
    "temperature", or as that of `samples` drawn by "dropout", "laplace" or from each
    "gaussian", with `scale` and `low_rank` of its covariance."""

    way: str = "network"
    samples: int = 0
    scale: float = 0.5
    low_rank: bool = True


def made(job):
    """What an arm makes: a path's end, (SWA, Gaussian) of a cloud, or a function of images."""
    if isinstance(job.arm.loss, Asked):
        return asked(job)
    return collected(job) if job.arm.loss.snapshots == "quarter" else base.fit(job)


def collected(job):
    """(SWA model, `Swag`) of a path that stays high, four collections for each epoch."""
    task, swa, swag = base.task_for(job), WeightAverage(job.start.model), wp.Swag(RANK)
    _, stays = task.recipes(*job.arm.loss.rates, optimiser=job.arm.loss.optimiser)
    every = max(task.train.count // stays.batch // 4, 1)

    def at_step(step, model):
        if step % every == 0:
            swa.update(model)
            swag.update(weights_of(model))

    task.branch(base.drawn(job), job.start, stays, at_step=at_step)
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
        laplace = wp.Laplace(model, job.train)
        prior = laplace.best_prior(job.choice, samples)
        return lambda images: laplace.probabilities(images, prior, samples)
    if how.way == "network":
        return lambda images: base.probabilities(networks, images)
    cloud = partial(wp.swag_probabilities, scale=how.scale, low_rank=how.low_rank)
    lent, clouds = (copy.deepcopy(model), job.train), [swag for _, swag in starts]
    return lambda x: sum(cloud(one, *lent, x, samples) for one in clouds) / len(clouds)


def uncertainty_parts(seed, sizes):
    """Images of known classes, and beside those to test on as many of unknown ones."""
    found = base.drawn_parts(seed, sizes, classes=KNOWN)
    every = load(data.fetch("fashion_mnist"), "t10k", device.device())
    count, like = len(UNKNOWN) * sizes["tested"], found["train"].data
    unknown = draw(every, count, seed, UNKNOWN, like)
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
DROPS, HELD = {"setting": {"dropout": DROPOUT}, "test": ()}, {"choice": "held"}
MULTI = SWAG._replace(samples=SAMPLES // MEMBERS)
WAY, COUNT, SHAPE = "loss.way", "loss.samples", ("loss.low_rank", "loss.scale")
FROM_CLOUD = (COUNT, WAY, "start", "train")
LAPLACE, DIAGONAL = Asked("laplace", SAMPLES), SWAG._replace(scale=1.0, low_rank=False)
RIVALS = {  # what each differs in from SGD, and the arm
    "swa": (("start",), Arm(start="cloud_0", loss=Asked())),
    "temperature": (("choice", WAY), Arm(start="run_0", loss=Asked("temperature"), **HELD)),
    "dropout": ((COUNT, WAY, "start"), Arm(start="drops", loss=Asked("dropout", SAMPLES))),
    "laplace": ((COUNT, WAY, "choice", "train"), ending("run_0", LAPLACE, **HELD)),
    "swag_diagonal": ((*FROM_CLOUD, *SHAPE), ending("cloud_0", DIAGONAL)),
    "swag": (FROM_CLOUD, ending("cloud_0", SWAG)),
    "ensemble": (("start",), Arm(start=tuple(RUNS), loss=Asked())),
    "multiswag": (FROM_CLOUD, ending(tuple(CLOUDS), MULTI)),
}
AUROC = METRICS | {"auroc": Metric("%", 100)}
UNCERTAINTY = Study(
    name="uncertainty",
    key="study_uncertainty_{arm}_{metric}",
    metrics=AUROC,
    judge=uncertainty_judge,
    arms=runs()
    | {
        "drops_fork": Arm(train="train", loss=FORK.loss, **DROPS),
        "drops": ending("drops_fork", Path("falls"), **DROPS),
        "sgd": Arm(start="run_0", loss=Asked()),
        **{name: arm for name, (_, arm) in RIVALS.items()},
    },
    outcomes=base.compared("uncertainty", {"sgd": RIVALS}, AUROC)
    | base.compared("uncertainty", {"ensemble": {"multiswag": (FROM_CLOUD,)}}, ("nll",)),
    **COMMON | {"fit": made, "parts": uncertainty_parts, "sizes": base.SIZES | {"epochs": 32}},
)


def widths_arms(width):
    """The arms of a width: one run and three, of SGD and of its Gaussians."""
    end, about = f"_width_{width}", {"setting": {"width": width}}
    run, cloud = (tuple(name + end for name in names) for names in (RUNS, CLOUDS))
    return runs(end, width=width) | {
        f"sgd{end}": Arm(start=run[0], loss=Asked(), **about),
        f"swag{end}": ending(cloud[0], MULTI, **about),
        f"ensemble{end}": Arm(start=run, loss=Asked(), **about),
        f"multiswag{end}": ending(cloud, MULTI, **about),
    }


SMALLER = {"seeds": range(3), "sizes": {"images": 600, "tested": 400, "epochs": 48}}
WIDER = {
    f"{name}_width_{a}": {f"{name}_width_{b}": (("setting.width", "start"),)}
    for name, (a, b) in itertools.product(("sgd", "multiswag"), itertools.pairwise(WIDTHS))
}
WIDER["multiswag_width_8"] |= {f"{one}_width_8": (FROM_CLOUD,) for one in ("sgd", "ensemble")}
DESCENT = Study(
    name="widths",
    key="study_widths_{arm}_{metric}",
    metrics=ERRORS,
    judge=lambda answer, test, job: {"error": 1 - scores(answer(test), test.labels_N).accuracy},
    arms={name: arm for width in WIDTHS for name, arm in widths_arms(width).items()},
    outcomes=base.compared("widths", WIDER, ERRORS),
    **COMMON | {"fit": made, "parts": partial(base.drawn_parts, wrong=WRONG), **SMALLER},
)
