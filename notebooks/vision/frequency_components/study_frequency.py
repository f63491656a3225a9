"""The recorded studies: how training changes what a network takes from each radius, by seeds.

    make study CHAPTERS=vision/frequency_components STUDY=ways

`ways`: eight ways of training one network; `plain_longer` takes three times the epochs, to be
as good as batch norm. After each epoch a network is asked about whole test images and their
parts; at its end it is attacked (FGSM, and PGD with a random start), and its first kernels are
measured. The plain network is attacked again with smoothed kernels, the one with batch norm
behind a filter. `labels`: natural and shuffled labels are learned, and asked about by parts
when `KNOWN` are right. `signers`: each fourth of the signers is left out, raw and stretched.
"""

import copy
import functools
import itertools
import statistics
from collections import defaultdict

import accuracy_by_radius as ask
import image_sets
import kernel_smoothness as smoothness
import torch
from frequency_split import split, stretch
from frequency_training import Recipe, train
from gradient_attacks import fgsm, pgd
from helpers import data, device
from helpers.study import Arm, Metric, Outcome, Part, Study, student
from image_sets import GUARD, by_signer, fingerprints
from scipy import stats
from small_cnn import SmallCNN, first_kernels

EPSILON, PGD_STEPS, RADIUS = 0.05, 20, 8
EPOCHS, MEMORY_EPOCHS, SIGNER_EPOCHS = 6, 40, 25
KNOWN = 0.95  # of the images, with natural and with shuffled labels, when both are compared
loaded = functools.cache(image_sets.load)  # the same files for each seed
signed_hands = functools.cache(image_sets.signed_digits)


def begin(word, job):
    """A new network for the arm's images, with what its setting adds, on their device."""
    _, channels, _, side = job.train.pixels_NCHW.shape
    network = SmallCNN(job.sizes["width"], channels, side, **job.arm.setting)
    return network.to(job.train.pixels_NCHW.device)


def fit(job):
    """The networks after each epoch; or another arm's last one with other kernels."""
    if isinstance(way := job.arm.loss, functools.partial):
        return [smoothness.smoothed(job.start[-1], way)]
    after = []
    keep = lambda epoch, model: after.append(copy.deepcopy(model))  # noqa: E731
    train(job.start, job.train, way, seed=job.seed, at_epoch=keep)
    return after


def curves_of(models, parts, known=2.0):
    """Accuracies by radius after the first epoch with `known` right, else the last; curves."""
    rows = [ask.by_radius(model, parts) for model in models]
    epoch, curves = ask.epoch_with(rows, known), {k: [row[k] for row in rows] for k in rows[0]}
    return rows[epoch - 1] | {"epoch": epoch, "curves": curves}


def extra_curves(receipt, found):
    """Record a curve for each arm that trained: the means over seeds, in percent, by epoch."""
    for name, runs in found.items():
        scores = [next(iter(parts.values())) for parts in runs.values()]
        curves = [one["curves"] for one in scores if "curves" in one]
        rows = {k: zip(*(one[k] for one in curves), strict=True) for k in (curves or [{}])[0]}
        columns = {k: [100 * statistics.mean(one) for one in row] for k, row in rows.items()}
        if columns:
            receipt.curve(name, epoch=range(1, len(columns["whole"]) + 1), **columns)


def clothes(file, count, seed):
    """Images of a file of Fashion-MNIST, the seed's own."""
    whole = loaded(data.fetch("fashion_mnist"), file, device.device())
    return image_sets.draw(whole, count, seed)


def each(**images):
    """A `Part` of each, whose units are the images themselves."""
    return {name: Part(one, fingerprints(one)) for name, one in images.items()}


def ways_parts(seed, sizes):
    """Images to learn from and to test on."""
    learned = clothes("train", sizes["images"], seed)
    return each(train=learned, test=clothes("t10k", sizes["tested"], seed))


def ways_judge(models, images, job):
    """Accuracies after attacks, perhaps behind a filter; of a network that the arm trained also
    those by radius, survivors and the roughness of its first kernels."""
    model, (x_NCHW, labels_N) = models[-1], images.at(slice(None))
    victims = x_NCHW[: job.sizes["attacked"]], labels_N[: job.sizes["attacked"]]
    if radius := job.arm.setting.get("filter"):
        return ask.behind_filter(model, radius, *victims, pgd_at_random)
    scores = ask.after_attacks(model, *victims, ATTACKS)
    if job.arm.train is None:
        return scores
    parts, kernels = ask.parts_of(x_NCHW, labels_N), first_kernels(model)
    for r in (4, 8):
        alone = ask.survivors(model, parts, r)
        scores[f"high_only_{r}"] = alone.high_only / images.count
        scores[f"by_chance_{r}"] = alone.by_chance / images.count
        scores[f"above_chance_{r}"] = scores[f"high_only_{r}"] - scores[f"by_chance_{r}"]
        scores[f"one_class_high_{r}"] = ask.one_class_share(model, parts.high[r])
    asked = {"stretched": (ask.parts_of(x_NCHW, labels_N, stretched=True), "running")}
    if job.arm.setting.get("norm"):
        asked["batch_statistics"] = (parts, "batch")
    for name, how in asked.items():
        scores |= {f"{name}_{key}": s for key, s in ask.by_radius(model, *how).items()}
    high = smoothness.high_share(kernels, x_NCHW.shape[-1], RADIUS)
    scores |= {"roughness": smoothness.roughness(kernels).item(), "kernel_high": high.item()}
    return curves_of(models, parts) | scores


def pgd_at_random(model, images, labels):
    """The images after PGD from a random start, the same for each model."""
    drawn = torch.Generator(device=images.device).manual_seed(0)
    return pgd(model, images, labels, EPSILON, EPSILON / 5, PGD_STEPS, drawn)


ATTACKS = {"fgsm": lambda *given: fgsm(*given, EPSILON), "pgd": pgd_at_random}


def extra_ways(receipt, found):
    """Record curves, and smoothing's best gain: an upper bound, picked on its own images."""
    extra_curves(receipt, found)
    gains = [receipt.metrics[f"{name}_pgd_gain"] for name in SMOOTHINGS]
    receipt.metrics["smoothing_best_gain"] = max(gains, key=lambda one: one["value"])


METRICS = defaultdict(lambda: Metric("%", 100), epoch=Metric("epochs"))
METRICS["roughness"] = Metric("mean square")
COMMON = {"notebook": "frequency_components", "begin": begin, "fit": fit, "metrics": METRICS}
COMMON |= {"processes": 2}  # two seeds side by side
PLAIN, ATTACKED = Recipe(EPOCHS), Recipe(EPOCHS, epsilon=EPSILON)
NORM, POINTS = {"norm": True}, "percentage points"
NEAR = functools.partial(smoothness.add_neighbours, rho=0.0, normalise=False)
LOW = functools.partial(smoothness.low_kernels, radius=2)
ARMS = {
    "plain": Arm(train="train", loss=PLAIN),
    "plain_longer": Arm(train="train", loss=Recipe(3 * EPOCHS)),
    "batch_norm": Arm(train="train", loss=PLAIN, setting=NORM),
    "dropout": Arm(train="train", loss=PLAIN, setting={"dropout": 0.5}),
    "mixup": Arm(train="train", loss=Recipe(EPOCHS, mixed=True)),
    "adversarial": Arm(train="train", loss=ATTACKED),
    "batch_norm_adversarial": Arm(train="train", loss=ATTACKED, setting=NORM),
    "smooth_penalty": Arm(train="train", loss=Recipe(EPOCHS, penalty=10.0)),
    "unchanged": Arm(start="plain", loss=NEAR),
    "neighbours": Arm(start="plain", loss=functools.partial(NEAR, rho=0.1)),
    "more_neighbours": Arm(start="plain", loss=functools.partial(NEAR, rho=1.0)),
    "normalised": Arm(start="plain", loss=functools.partial(NEAR, rho=1.0, normalise=True)),
    "low_kernels": Arm(start="plain", loss=LOW),
    "filtered": Arm(start="batch_norm", setting={"filter": RADIUS}),
}
ATTACK, LONGER, NORMED, RHO = "loss.epsilon", "loss.epochs", "setting.norm", "loss.rho"
SMOOTHINGS = {
    "smooth_penalty": ("plain", ("loss.penalty",)),
    "neighbours": ("unchanged", (RHO,)),
    "more_neighbours": ("unchanged", (RHO,)),
    "normalised": ("unchanged", ("loss.normalise", RHO)),
    "low_kernels": ("unchanged", ("loss.function", "loss.normalise", "loss.radius", RHO)),
}  # an arm: what it is compared with, and in what they differ
points = functools.partial(Outcome, unit=POINTS)
rougher = functools.partial(Outcome, "roughness", differs=(ATTACK,), ratio=True)
COMPARED = {
    "robust_roughness_ratio": rougher("adversarial", "plain"),
    "batch_norm_robust_roughness_ratio": rougher("batch_norm_adversarial", "batch_norm"),
    "batch_norm_high_gain_4": points("high_4", "batch_norm", "plain", (NORMED,)),
    "robust_high_gain_4": points("high_4", "adversarial", "plain", (ATTACK,)),
    "longer_pgd_gap": points("pgd", "plain", "plain_longer", (LONGER,)),
    "batch_norm_pgd_gap": points("pgd", "plain_longer", "batch_norm", (LONGER, NORMED)),
}
COMPARED |= {f"{arm}_pgd_gain": points("pgd", arm, *about) for arm, about in SMOOTHINGS.items()}
WAYS = Study(
    **COMMON,
    name="ways",
    seeds=range(10),
    added="ten, not the three of an earlier record, by which the attack stays undecided",
    sizes={"images": 6000, "tested": 1000, "attacked": 500, "width": 8, "epochs": EPOCHS},
    trial={"images": 100, "tested": 60, "attacked": 20, "width": 2},
    arms=ARMS,
    parts=ways_parts,
    judge=ways_judge,
    extra=extra_ways,
    outcomes=COMPARED,
)


def labels_parts(seed, sizes):
    """A few images with their own labels, and the same ones with each other's."""
    few = clothes("train", sizes["memory_images"], seed)
    return each(natural=few, shuffled=image_sets.shuffled(few, seed))


def labels_judge(models, own, job):
    """Accuracies on the images that were learned, once `KNOWN` of them are."""
    return curves_of(models, ask.parts_of(*own.at(slice(None)), (4, 8)), KNOWN)


def extra_labels(receipt, found):
    """Record curves, and shuffled less natural labels, paired by seed."""
    extra_curves(receipt, found)
    pairs = zip(found["shuffled"].values(), found["natural"].values(), strict=True)
    pairs = [(mine["shuffled"], other["natural"]) for mine, other in pairs]
    for key in ("whole", "low_4", "high_4"):
        mean, *ends = student([100 * (mine[key] - other[key]) for mine, other in pairs])
        receipt.record(f"shuffled_{key}_gain", mean, POINTS, *ends, len(pairs), interval="95 %")


OWN = "what a network remembers of its own images is the question"
REMEMBERED = Recipe(MEMORY_EPOCHS, 25, 2e-3)
LABELS = Study(
    **COMMON,
    name="labels",
    seeds=range(10),
    added="the last five, with another recipe, when both were to be compared at equal accuracy",
    sizes={"memory_images": 500, "memory_epochs": MEMORY_EPOCHS, "width": 8},
    trial={"memory_images": 100, "width": 2},
    arms={
        name: Arm(train=name, test=(name,), loss=REMEMBERED, shares=OWN)
        for name in ("natural", "shuffled")
    },
    parts=labels_parts,
    judge=labels_judge,
    extra=extra_labels,
)
TESTS = {
    "whole": lambda x: x,
    "whole_stretched": stretch,
    "low": lambda x: split(x, RADIUS)[0],
    "high": lambda x: split(x, RADIUS)[1],
    "high_stretched": lambda x: stretch(split(x, RADIUS)[1]),
}  # what the hands are asked as, split by channel


def signers_parts(fourth, sizes):
    """Hands to learn, hands of the same signers, and those of the left-out `fourth`. Units are
    photographs; of what is learned and of others' also the numbers at which the same person may
    have signed, so that nobody is on both sides."""
    hands, number_N = signed_hands(data.fetch("sign_digits"), 32, device.device())
    parts, near_by = {}, {"learned": range(-GUARD, GUARD + 1), "own": (), "other": (0,)}
    for (name, near), of_N in zip(near_by.items(), by_signer(number_N, fourth), strict=True):
        numbers = [number + step for number in number_N[of_N].tolist() for step in near]
        images = hands.part(of_N)
        asked = images if name == "learned" else (images, number_N[of_N])
        parts[name] = Part(asked, [*fingerprints(images), *numbers])
    return parts


def signers_judge(models, hands, job):
    """Right or wrong for each photograph, by what is asked, and which ten numbers it is of."""
    images, number_N = hands
    x_NCHW, labels_N = images.at(slice(None))
    found = {"group": (number_N // 10).tolist()}
    for test, change in TESTS.items():
        right_N = ask.answers(models[-1], change(x_NCHW)).argmax(1) == labels_N
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
        lost, error = (100 * value for value in ask.gap(*sides["own"], *sides["other"]))
        groups = len(torch.cat([group for _, group in sides.values()]).unique())
        half = stats.t.ppf(0.975, groups - 1) * error
        told = lost, POINTS, lost - half, lost + half, len(sides["other"][0])
        receipt.record(f"{name}_{test}_gap", *told, note=note, interval="95 %")


HANDS, SIDES = Recipe(SIGNER_EPOCHS, 25, 2e-3), ("own", "other")
STRETCHED = Recipe(SIGNER_EPOCHS, 25, 2e-3, stretched=True)
SIGNERS = Study(
    **COMMON,
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
    judge=signers_judge,
    extra=extra_signers,
)
