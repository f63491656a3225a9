"""What a model makes of the parts of its images: accuracy by radius, survivors, amplitudes.

A test set is split once for each radius; every model and epoch is asked about the same parts.
Parts come raw, or stretched so that each image's largest value is one, as in the authors' code.
Batch norms answer with running statistics, or, as that code does, with those of the test batch.

Legend: N images, C channels, H height, W width, R radii, K classes.
"""

import contextlib
from typing import NamedTuple

import torch
from frequency_split import split, stretch
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


class Survivors(NamedTuple):
    """Of the images that are answered right as a whole: how many are right in which parts."""

    both: int
    low_only: int
    high_only: int
    neither: int


def survivors(model, parts, radius):
    """(`Survivors` at the radius, indices of those that are right in the high part alone)."""
    whole, low, high = (
        answers(model, images).argmax(1) == parts.labels_N
        for images in (parts.images_NCHW, parts.low[radius], parts.high[radius])
    )
    groups = (low & high, low & ~high, ~low & high, ~low & ~high)
    counts = Survivors(*(int((whole & group).sum()) for group in groups))
    return counts, (whole & ~low & high).nonzero().flatten()


def one_class_share(model, images_NCHW):
    """The largest share of images that get one and the same answer, a float.

    Near 1, the answer says nothing of the image, and an accuracy is the share of that class.
    """
    answers_N = answers(model, images_NCHW).argmax(1)
    return answers_N.bincount().max().item() / len(answers_N)


def amplitude_sweep(model, high_NCHW, labels_N, amplitudes, statistics="running"):
    """The accuracies, a list, on the high part times each amplitude."""
    return [accuracy(model, a * high_NCHW, labels_N, statistics) for a in amplitudes]


def robust_accuracy(model, images_NCHW, labels_N, attack):
    """The share still answered right after attack(model, images, labels), a float."""
    batches = zip(images_NCHW.split(BATCH), labels_N.split(BATCH), strict=True)
    found = torch.cat([attack(model, images, labels) for images, labels in batches])
    return accuracy(model, found, labels_N)


def confidence_table(asked, images_NCHW, crowd_NCHW, radii):
    """What the page's slider shows: each model's probabilities of each part at each radius.

    asked: {name: (model, statistics)}. crowd_NCHW: other test images that fill the batch where
    its statistics count, which are then those of a test batch, not of a few images. The result
    is uint8 (names, 2 raw or stretched, R, 2 low or high, N, K): probabilities times 255.
    """
    count, found = len(images_NCHW), []
    batch = torch.cat([images_NCHW, crowd_NCHW])[:BATCH]
    pairs = [split(batch, radius) for radius in radii]
    for model, statistics in asked.values():
        used = len(batch) if statistics == "batch" else count
        for change in (lambda part: part, stretch):
            for pair in pairs:
                told = [answers(model, change(part[:used]), statistics) for part in pair]
                found += [logits[:count] for logits in told]
    table = torch.stack(found).softmax(-1).mul(255).round().to(torch.uint8)
    return table.view(len(asked), 2, len(radii), 2, count, -1)
