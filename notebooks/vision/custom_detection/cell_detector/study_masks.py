"""The study: what a mask head adds to boxes, on the balloon photos, beside two shapes that need
no learning.

    make study CHAPTERS=vision/custom_detection STUDY=masks

A detector learns the boxes; then a head on its frozen map learns which pixels are balloon. An
object's mask is what the head says inside its box: so balloons that overlap are not told apart,
as a Mask R-CNN would. The rivals fill the same boxes, or the ellipse in them; a balloon is
nearly one. Of the listed photos 32 exist; a seed draws who is learnt from and who is the test.
The epochs, and overlap as the score, were set with seed 0, which is not among those that count.
"""

from dataclasses import replace

import annotations
import average_precision
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from helpers import data
from helpers.study import Arm, Metric, Outcome, Part, Study
from torch import nn

from . import loading, network, training

CLASSES = ("object",)  # VIA's regions bear no name here
PLAIN = training.Settings()
KINDS = ("box", "ellipse", "head")
ARMS = {"trained": Arm(train="train", loss=PLAIN)}
ARMS |= {one: Arm(start="trained", setting={"mask": one}) for one in KINDS}


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """The photos that exist, drawn anew."""
    every = annotations.read(data.fetch("balloon"))
    every = [one for one in every if one.file.is_file()]
    order = np.random.default_rng(seed).permutation(len(every)).tolist()
    ends = (0, sizes["train"], sizes["train"] + sizes["test"])
    found = {}
    for name, start, end in zip(("train", "test"), ends, ends[1:], strict=False):
        own = [every[at] for at in order[start:end]]
        found[name] = Part(own, [one.file.stem for one in own])
    return found


def fit(job):
    """(the detector, its mask head)."""
    epochs = job.sizes["epochs"]
    samples = loading.samples(job.train, classes=CLASSES)
    net = training.train(samples, replace(job.arm.loss, epochs=epochs), job.seed, None, CLASSES)
    truth = [truth_of(*pair) for pair in zip(job.train, samples, strict=True)]
    masks = [average_precision.mask_of(sum(one.shapes, []), one.size) for one in truth]
    return net, head_of(net, samples, masks, max(1, epochs // 4))


def truth_of(photo, sample):
    """A photo's annotation at the size that the network is given."""
    size = tuple(sample.pixels.shape[:0:-1])
    return photo.moved(sample.scale).but(size=size)


def head_of(net, samples, masks, epochs: int) -> nn.Module:
    """A head that says which pixels are of an object, a quarter of the photo's size, learnt
    from whole photos and their mirror images on the detector's frozen map.
    """
    width = net.sides.in_channels
    head = nn.Sequential(
        network.block(width, width // 2),
        nn.Upsample(scale_factor=2),
        network.block(width // 2, width // 2),
        nn.Conv2d(width // 2, 1, 1),
    )
    pairs = []
    for one, mask in zip(samples, masks, strict=True):
        photo = training.padded(torch.cat([one.pixels / 255, torch.from_numpy(mask)[None]]))
        photo[3, mask.shape[0] :], photo[3, :, mask.shape[1] :] = 0, 0
        for turned in (photo, photo.flip(2)):
            with torch.no_grad():
                pairs.append(
                    (net.features(turned[None, :3]), F.avg_pool2d(turned[None, 3:], 4))
                )
    steps = max(2, epochs * len(pairs))
    optimiser = torch.optim.AdamW(head.parameters(), 3e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 3e-3, total_steps=steps)
    for _ in range(epochs):
        for at in torch.randperm(len(pairs)).tolist():
            seen, wanted = pairs[at]
            F.binary_cross_entropy_with_logits(head(seen), wanted).backward()
            optimiser.step()
            optimiser.zero_grad()
            schedule.step()
    return head.eval()


@torch.no_grad()
def masks_of(kind: str, net, head, sample, boxes) -> np.ndarray:
    """(N, H, W) masks of boxes in pixels of the sample: the box, its ellipse, or the head's."""
    high, wide = sample.pixels.shape[1:]
    y, x = torch.meshgrid(torch.arange(high) + 0.5, torch.arange(wide) + 0.5, indexing="ij")
    x0, y0, x1, y1 = boxes.T[:, :, None, None]
    inside = (x >= x0) & (x < x1) & (y >= y0) & (y < y1)
    if kind == "ellipse":
        across, down = (2 * x - x0 - x1) / (x1 - x0), (2 * y - y0 - y1) / (y1 - y0)
        inside &= across**2 + down**2 <= 1
    elif kind == "head":
        logits = head(net.features(training.padded(sample.pixels / 255)[None]))
        logits = F.interpolate(logits, scale_factor=4, mode="bilinear")[0, 0, :high, :wide]
        inside &= logits > 0
    return inside.numpy()


def judge(made, photos: list, job) -> dict:
    """AP of the masks at the size that the network is given, on boxes that are the same for
    all; and the mean overlap of the masks in the *true* boxes, whatever the detector finds.
    """
    (net, head), kind = made, job.arm.setting.get("mask", "head")
    truth, found, shares = [], [], []
    for photo, one in zip(photos, loading.samples(photos, classes=CLASSES), strict=True):
        (answer,) = training.detect(net, [replace(one, scale=1.0)])
        masks = masks_of(kind, net, head, one, answer.boxes)
        labels = [CLASSES[at] for at in answer.labels.tolist()]
        boxes, scores = (value.numpy() for value in answer[:2])
        found.append({"boxes": boxes, "scores": scores, "labels": labels, "masks": masks})
        truth.append(truth_of(photo, one))
        given = masks_of(kind, net, head, one, torch.from_numpy(truth[-1].boxes))
        for own, mask in zip(truth[-1].shapes, given, strict=True):
            wanted = average_precision.mask_of(own, truth[-1].size)
            shares.append((mask & wanted).sum() / max(1, (mask | wanted).sum()))
    boxes, masks = (
        average_precision.evaluate(truth, found, masks=way) for way in (False, True)
    )
    return {"ap": masks["AP"], "ap_boxes": boxes["AP"], "overlap": float(np.mean(shares))}


STUDY = Study(
    notebook="custom_detection",
    name="masks",
    arms=ARMS,
    seeds=range(1, 6),  # 0 set the epochs and the score
    sizes={"train": 24, "test": 8, "epochs": 400},
    trial={"train": 4, "test": 2, "epochs": 1},
    metrics={"ap": Metric("AP"), "ap_boxes": Metric("AP"), "overlap": Metric("share")},
    parts=parts,
    fit=fit,
    judge=judge,
    outcomes={
        "study_head_over_ellipse": Outcome("overlap", "head", "ellipse", ["setting.mask"]),
        "study_head_over_box": Outcome("overlap", "head", "box", ["setting.mask"]),
    },
    key="study_mask_{arm}_{metric}",
    over="draws of photos to learn from and to test",
)
