"""What a model makes of the parts of its images: accuracy by radius, survivors, amplitudes.

A test set is split once for each radius; every model and epoch is asked about the same parts.
Parts come raw, or stretched so that each image's largest value is one, as in the authors' code.
Batch norms answer with running statistics, or, as that code does, with those of the test batch.

Legend: N images, C channels, H height, W width, R radii, K classes.
"""

import contextlib
import math
from typing import NamedTuple

import torch
from frequency_split import split, stretch
from gradient_attacks import Filtered
from small_cnn import batch_statistics

RADII = (4, 8, 12, 16)  # of the paper
BATCH = 500  # images asked at once; also those that share batch statistics


class Parts(NamedTuple):
    """A test set and its parts: images and each of low[radius], high[radius] (N, C, H, W)."""

    images_NCHW: torch.Tensor
    labels_N: torch.Tensor
    low: dict
    high: dict


def parts_of(images_NCHW, labels_N, radii=RADII, stretched=False):
    """The `Parts` of the images at the radii; the whole images are never stretched here."""
    found = {radius: split(images_NCHW, radius) for radius in radii}
    change = stretch if stretched else lambda images: images
    low, high = ({r: change(pair[i]) for r, pair in found.items()} for i in (0, 1))
    return Parts(images_NCHW, labels_N, low, high)


def answers(model, images_NCHW, statistics="running"):
    """The model's logits (N, K), asked in batches of `BATCH`.

    statistics: "running" or "batch", of its batch norms. Raises ValueError for another word.
    """
    if statistics not in ("running", "batch"):
        raise ValueError(f"statistics is {statistics!r}; allowed are 'running' and 'batch'")
    mode = batch_statistics(model) if statistics == "batch" else contextlib.nullcontext()
    with mode, torch.inference_mode():
        return torch.cat([model(part) for part in images_NCHW.split(BATCH)])


def accuracy(model, images_NCHW, labels_N, statistics="running"):
    """The share of images that the model answers with their label, a float."""
    right_N = answers(model, images_NCHW, statistics).argmax(1) == labels_N
    return right_N.double().mean().item()


def by_radius(model, parts, statistics="running"):
    """Accuracies as a dict: "whole", and "low_4", "high_4" and so on for each radius."""
    ask = lambda images: accuracy(model, images, parts.labels_N, statistics)  # noqa: E731
    found = {"whole": ask(parts.images_NCHW)}
    for radius in parts.low:
        found[f"low_{radius}"] = ask(parts.low[radius])
        found[f"high_{radius}"] = ask(parts.high[radius])
    return found


def watch(parts, rows, statistics="running"):
    """A callback for `train`: each epoch's `by_radius` is appended to `rows`."""
    return lambda epoch, model: rows.append(by_radius(model, parts, statistics))


def epoch_with(rows, share):
    """The first epoch, from 1, with this share of whole images right, or else the last; the
    rows are those of `watch`."""
    return next((e for e, row in enumerate(rows, 1) if row["whole"] >= share), len(rows))


class Survivors(NamedTuple):
    """Of the images that are answered right as a whole: how many are right in which parts.

    by_chance: how many would be right in the high part alone if its answers kept their
    frequencies but had nothing to do with the images. one_class: how many of `high_only` belong
    to the class that has most of them. places: where these stand among the images.
    """

    both: int
    low_only: int
    high_only: int
    neither: int
    by_chance: float
    one_class: int
    places: torch.Tensor


def survivors(model, parts, radius):
    """The `Survivors` of the parts at the radius."""
    labels_N = parts.labels_N
    answer_N = answers(model, parts.high[radius]).argmax(1)
    whole, low = (
        answers(model, images).argmax(1) == labels_N
        for images in (parts.images_NCHW, parts.low[radius])
    )
    high = answer_N == labels_N
    alone_N = whole & ~low & high
    groups = (low & high, low & ~high, alone_N, ~low & ~high)
    counts = [int((whole & group).sum()) for group in groups]
    often_K = answer_N[whole].bincount(minlength=int(labels_N.max()) + 1)
    by_chance = often_K[labels_N[whole & ~low]].sum() / whole.sum().clamp(min=1)
    one_class = labels_N[alone_N].bincount(minlength=1).max().item()
    return Survivors(*counts, by_chance.item(), one_class, alone_N.nonzero()[:, 0])


def one_class_share(model, images_NCHW):
    """The largest share of images that get one and the same answer, a float.

    Near 1, the answer says nothing of the image, and an accuracy is the share of that class.
    """
    answers_N = answers(model, images_NCHW).argmax(1)
    return answers_N.bincount().max().item() / len(answers_N)


def robust_accuracy(model, images_NCHW, labels_N, attack):
    """The share still answered right after attack(model, images, labels), a float."""
    batches = zip(images_NCHW.split(BATCH), labels_N.split(BATCH), strict=True)
    found = torch.cat([attack(model, images, labels) for images, labels in batches])
    return accuracy(model, found, labels_N)


def after_attacks(model, images_NCHW, labels_N, attacks):
    """Accuracies by attack of {name: attack(model, images, labels)}, and "unattacked"."""
    attacks = {"unattacked": lambda model, images, labels: images, **attacks}
    given = images_NCHW, labels_N
    return {name: robust_accuracy(model, *given, attack) for name, attack in attacks.items()}


def behind_filter(model, radius, images_NCHW, labels_N, attack):
    """Accuracies behind a low-pass filter: "unattacked", and by what an attacker knows of it.

    "unaware" attacks the model alone, "identity" guesses the filter's gradient, "exact" has it.
    "saved_unaware" and so on: of what the attack takes from the model alone, the share that is
    left behind the filter; NaN where it takes nothing.
    """
    guessed = Filtered(model, radius, "identity")
    ways = {"unaware": lambda _, *given: attack(model, *given), "exact": attack}
    ways["identity"] = lambda _, *given: attack(guessed, *given)
    found = after_attacks(Filtered(model, radius), images_NCHW, labels_N, ways)
    alone = after_attacks(model, images_NCHW, labels_N, {"hit": attack})
    lost = alone["unattacked"] - alone["hit"] or math.nan
    return found | {f"saved_{who}": (found[who] - alone["hit"]) / lost for who in ways}


def confidence_table(asked, images_NCHW, others_NCHW, radii):
    """What the page's slider shows: each model's probabilities of each part at each radius.

    asked: {name: (model, statistics)}. others_NCHW: other test images that fill the batch where
    its statistics count, which are then those of a test batch, not of a few images. The result
    is uint8 (names, 2 raw or stretched, R, 2 low or high, N, K): probabilities times 255.
    """
    count, found = len(images_NCHW), []
    batch = torch.cat([images_NCHW, others_NCHW])[:BATCH]
    pairs = [split(batch, radius) for radius in radii]
    for model, statistics in asked.values():
        used = len(batch) if statistics == "batch" else count
        for change in (lambda part: part, stretch):
            for pair in pairs:
                logits = [answers(model, change(part[:used]), statistics) for part in pair]
                found += [one[:count] for one in logits]
    table = torch.stack(found).softmax(-1).mul(255).round().to(torch.uint8)
    return table.view(len(asked), 2, len(radii), 2, count, -1)


def gap(own_N, own_group_N, other_M, other_group_M):
    """(mean of `own_N` less that of `other_M`, its standard error), two floats.

    The values, right or wrong, come in groups (the photographs of one person), whose members
    are alike: the error counts groups, not values, by the sum over groups of the squared
    residuals of the difference (a cluster-robust error). With one group for each value it is
    the usual error of two means. Raises ValueError when a side is empty or all is one group.
    """
    if not (len(own_N) and len(other_M)):
        raise ValueError(f"{len(own_N)} and {len(other_M)} values; each side needs one")
    sides = (own_N.double(), 1), (other_M.double(), -1)
    parts = [sign * (side - side.mean()) / len(side) for side, sign in sides]
    names, place = torch.cat([own_group_N, other_group_M]).unique(return_inverse=True)
    if len(names) < 2:
        raise ValueError("all values are of one group; an error needs at least two")
    sums = torch.zeros(len(names), dtype=torch.float64, device=place.device)
    square = sums.index_add(0, place, torch.cat(parts)).square().sum()
    error = (square * len(names) / (len(names) - 1)).sqrt()
    return (sides[0][0].mean() - sides[1][0].mean()).item(), error.item()
