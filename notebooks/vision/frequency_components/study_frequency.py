"""The recorded studies: how training changes what a network takes from each radius, by seeds.

    make study CHAPTERS=vision/frequency_components STUDY=ways

`ways`: eight ways of training one network, all by the same recipe but `plain_longer`, which
takes three times the epochs, so that plain training can be compared with batch norm at equal
accuracy. After each epoch every network is asked about whole test images and their parts. At
its end it is attacked (FGSM, and PGD with a random start), and its first kernels are measured.
Batch norm is asked twice, with running statistics and those of the test batch.

`labels`: a small set is learned with natural and with shuffled labels, and each network asked
about the parts of these same images. `signers`: hands are learned with each fourth of the
signers left out in turn, raw and stretched.
"""

import copy
import functools
import itertools
import statistics
from collections import defaultdict
from typing import NamedTuple

import torch
from accuracy_by_radius import (
    answers,
    by_radius,
    gap,
    one_class_share,
    parts_of,
    robust_accuracy,
    survivors,
)
from frequency_split import split, stretch
from frequency_training import Recipe, adversarial, mixed, train
from gradient_attacks import fgsm, pgd
from helpers import data, device
from helpers.study import Arm, Metric, Outcome, Part, Study
from image_sets import GUARD, by_signer, draw, fingerprints, load, shuffled, signed_digits
from kernel_smoothness import high_share, roughness, roughness_penalty
from scipy import stats
from small_cnn import SmallCNN, first_kernels

EPSILON, PGD_STEPS, RADIUS, MEMORY_RADII = 0.05, 20, 8, (4, 8)
EPOCHS, MEMORY_EPOCHS, SIGNER_EPOCHS = 6, 40, 25


class Way(NamedTuple):
    """How an arm trains: its recipe, what each batch is replaced by (attacked images, mixed or
    stretched ones), and the strength of a penalty on rough kernels."""

    recipe: Recipe
    epsilon: float = 0.0
    mixed: bool = False
    stretched: bool = False
    penalty: float = 0.0

    @property
    def change(self):
        """What `train` calls for each batch, or None."""
        if self.stretched:
            return lambda model, x_BCHW, targets, drawn: (stretch(x_BCHW), targets)
        if self.mixed:
            return mixed()
        return adversarial(self.epsilon, 2) if self.epsilon else None


loaded, signed_hands = functools.cache(load), functools.cache(signed_digits)  # same files


def begin(word, job):
    """A new network for the arm's images, with what its setting adds, on their device."""
    pixels_NCHW = job.train.pixels_NCHW
    network = SmallCNN(job.sizes["width"], side=pixels_NCHW.shape[-1], **job.arm.setting)
    return network.to(pixels_NCHW.device)


def fit(job):
    """The network after each epoch, as a list."""
    way, after = job.arm.loss, []
    penalty = roughness_penalty(way.penalty) if way.penalty else None
    keep = lambda epoch, model: after.append(copy.deepcopy(model))  # noqa: E731
    how = {"seed": job.seed, "at_epoch": keep, "change": way.change, "penalty": penalty}
    train(job.start, job.train, way.recipe, **how)
    return after


def curves_of(models, parts):
    """The accuracies `by_radius` of the last model, and as lists those of all, as "curves"."""
    rows = [by_radius(model, parts) for model in models]
    return rows[-1] | {"curves": {key: [row[key] for row in rows] for key in rows[0]}}


def extra_curves(receipt, found):
    """Record a curve for each arm: the means over seeds, in percent, by epoch."""
    for name, runs in found.items():
        curves = [next(iter(parts.values()))["curves"] for parts in runs.values()]
        columns = {"epoch": range(1, len(curves[0]["whole"]) + 1)}
        for key in curves[0]:
            by_epoch = zip(*(one[key] for one in curves), strict=True)
            columns[key] = [100 * statistics.mean(values) for values in by_epoch]
        receipt.curve(name, **columns)


def clothes(images):
    """The `Part` of these images, whose units are the images themselves."""
    return Part(images, fingerprints(images))


def ways_parts(seed, sizes):
    """Images to learn from and to test on, each seed's own."""
    folder, where = data.fetch("fashion_mnist"), device.device()
    learned = draw(loaded(folder, "train", where), sizes["images"], seed)
    tested = draw(loaded(folder, "t10k", where), sizes["tested"], seed)
    return {"train": clothes(learned), "test": clothes(tested)}


def ways_judge(models, images, job):
    """Accuracies by radius, survivors, what is left after attacks, and the first kernels."""
    model, parts, count = models[-1], parts_of(*images.whole()), len(images)
    alone, kernels = survivors(model, parts, RADIUS), first_kernels(model)
    scores = {"high_only": alone.high_only / count, "by_chance": alone.by_chance / count}
    scores |= {f"one_class_high_{r}": one_class_share(model, parts.high[r]) for r in (4, 8)}
    asked = {"stretched": (parts_of(*parts[:2], stretched=True), "running")}
    if job.arm.setting.get("norm"):
        asked["batch_statistics"] = (parts, "batch")
    for name, how in asked.items():
        scores |= {f"{name}_{key}": share for key, share in by_radius(model, *how).items()}
    attacked = slice(job.sizes["attacked"])
    scores |= after_attacks(model, parts.images_NCHW[attacked], parts.labels_N[attacked])
    scores["roughness"] = roughness(kernels).item()
    scores["kernel_high"] = high_share(kernels, images.pixels_NCHW.shape[-1], RADIUS).item()
    return curves_of(models, parts) | scores


def after_attacks(model, images, labels):
    """Accuracies after both attacks, by name, PGD from a random start."""
    drawn = torch.Generator(device=images.device).manual_seed(0)
    attacks = {
        "fgsm": lambda m, x, y: fgsm(m, x, y, EPSILON),
        "pgd": lambda m, x, y: pgd(m, x, y, EPSILON, EPSILON / 5, PGD_STEPS, drawn),
    }
    return {n: robust_accuracy(model, images, labels, one) for n, one in attacks.items()}


METRICS = defaultdict(lambda: Metric("%", 100), roughness=Metric("mean square"))
PLAIN = Way(Recipe(EPOCHS))
ATTACKED = PLAIN._replace(epsilon=EPSILON)
NORM, POINTS = {"norm": True}, "percentage points"
ARMS = {
    "plain": Arm(train="train", loss=PLAIN),
    "plain_longer": Arm(train="train", loss=Way(Recipe(3 * EPOCHS))),
    "batch_norm": Arm(train="train", loss=PLAIN, setting=NORM),
    "dropout": Arm(train="train", loss=PLAIN, setting={"dropout": 0.5}),
    "mixup": Arm(train="train", loss=PLAIN._replace(mixed=True)),
    "adversarial": Arm(train="train", loss=ATTACKED),
    "batch_norm_adversarial": Arm(train="train", loss=ATTACKED, setting=NORM),
    "smooth_penalty": Arm(train="train", loss=PLAIN._replace(penalty=10.0)),
}
ROBUST = {"differs": ("loss.epsilon",), "ratio": True}
EQUAL = ("loss.recipe.epochs", "setting.norm")  # as good on whole images, by more epochs
WAYS = Study(
    notebook="frequency_components",
    name="ways",
    seeds=range(10),
    added="ten, not the three of an earlier record, by which the attack stays undecided",
    sizes={"images": 6000, "tested": 1000, "attacked": 500, "width": 8, "epochs": EPOCHS},
    trial={"images": 100, "tested": 60, "attacked": 20, "width": 2},
    arms=ARMS,
    parts=ways_parts,
    begin=begin,
    fit=fit,
    judge=ways_judge,
    extra=extra_curves,
    metrics=METRICS,
    outcomes={
        "robust_roughness_ratio": Outcome("roughness", "adversarial", "plain", **ROBUST),
        "batch_norm_robust_roughness_ratio": Outcome(
            "roughness", "batch_norm_adversarial", "batch_norm", **ROBUST
        ),
        "batch_norm_pgd_gap": Outcome("pgd", "plain_longer", "batch_norm", EQUAL, unit=POINTS),
    },
)


def labels_parts(seed, sizes):
    """A few images with their own labels, and the same ones with each other's."""
    learned = loaded(data.fetch("fashion_mnist"), "train", device.device())
    few = draw(learned, sizes["memory_images"], seed)
    return {"natural": clothes(few), "shuffled": clothes(shuffled(few, seed))}


OWN = "what a network remembers of its own images is the question"
LABELS = Study(
    notebook="frequency_components",
    name="labels",
    seeds=range(5),
    sizes={"memory_images": 500, "memory_epochs": MEMORY_EPOCHS, "width": 8},
    trial={"memory_images": 100, "width": 2},
    arms={
        name: Arm(train=name, test=(name,), loss=Way(Recipe(MEMORY_EPOCHS)), shares=OWN)
        for name in ("natural", "shuffled")
    },
    parts=labels_parts,
    begin=begin,
    fit=fit,
    judge=lambda models, own, job: curves_of(models, parts_of(*own.whole(), MEMORY_RADII)),
    extra=extra_curves,
    metrics=METRICS,
)
TESTS = {
    "whole": lambda x: x,
    "whole_stretched": stretch,
    "low": lambda x: split(x, RADIUS)[0],
    "high": lambda x: split(x, RADIUS)[1],
    "high_stretched": lambda x: stretch(split(x, RADIUS)[1]),
}  # what the hands are asked as


def signers_parts(fourth, sizes):
    """Hands to learn, hands of the same signers, and those of the `fourth` that is left out.

    The units are photographs; of what is learned and of others' also the numbers at which the
    same person may have signed, so that nobody is on both sides.
    """
    hands, number_N = signed_hands(data.fetch("sign_digits"), 32, device.device())
    parts = {}
    names = ("learned", "own", "other")
    for name, of_N in zip(names, by_signer(number_N, fourth), strict=True):
        near = {"learned": range(-GUARD, GUARD + 1), "own": (), "other": (0,)}[name]
        numbers = [number + step for number in number_N[of_N].tolist() for step in near]
        images = hands.take(of_N)
        asked = images if name == "learned" else (images, number_N[of_N])
        parts[name] = Part(asked, [*fingerprints(images), *numbers])
    return parts


def signers_judge(models, hands, job):
    """Right or wrong for each photograph, by what is asked, and which ten numbers it is of."""
    images, number_N = hands
    x_NCHW, labels_N = images.whole()
    found = {"group": (number_N // 10).tolist()}
    for test, change in TESTS.items():
        right_N = answers(models[-1], change(x_NCHW)).argmax(1) == labels_N
        found[test] = right_N.int().tolist()
    return found


def extra_signers(receipt, found):
    """Record accuracies over all fourths, and what is lost at other signers: own less other,
    with its 95 % interval by an error that counts groups."""
    note = "own less other signers, 95 % interval over groups of ten numbers"
    for (name, runs), test in itertools.product(found.items(), TESTS):
        sides = {}
        for who in SIDES:
            columns = ([run[who][key] for run in runs.values()] for key in (test, "group"))
            right, group = (torch.tensor(sum(column, [])) for column in columns)
            share = 100 * right.double().mean().item()
            receipt.record(f"{name}_{test}_{who}", share, "%", repeats=len(right))
            sides[who] = right, group
        lost, error = (100 * value for value in gap(*sides["own"], *sides["other"]))
        groups = len(torch.cat([group for _, group in sides.values()]).unique())
        half = stats.t.ppf(0.975, groups - 1) * error
        told = lost, POINTS, lost - half, lost + half, len(sides["other"][0])
        receipt.record(f"{name}_{test}_gap", *told, note=note, interval="95 %")


HANDS, SIDES = Way(Recipe(SIGNER_EPOCHS, 25, 2e-3)), ("own", "other")
STRETCHED = HANDS._replace(stretched=True)
SIGNERS = Study(
    notebook="frequency_components",
    name="signers",
    seeds=range(4),
    over="fourths of the signers, each left out once",
    sizes={"signer_epochs": SIGNER_EPOCHS, "width": 8},
    trial={"width": 2},
    arms={
        "signers_raw": Arm(train="learned", test=SIDES, loss=HANDS, setting=NORM),
        "signers_stretched": Arm(train="learned", test=SIDES, loss=STRETCHED, setting=NORM),
    },
    parts=signers_parts,
    begin=begin,
    fit=fit,
    judge=signers_judge,
    extra=extra_signers,
    metrics=METRICS,
)
