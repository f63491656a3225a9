"""The recorded study of the loss around networks: SGD and SWA on training and test images.

    make study CHAPTERS=training/weight_averaging STUDY=surface

Both are refreshed, so that they differ in their path alone (`study_averaging.py`); sharpness is
the training loss's. Of the first seed: the plane through SGD's networks from three starts, and
a straight and a bent way between two of them, each a fifth of the images.
"""

import copy
from dataclasses import replace
from functools import partial

import loss_plane
import numpy as np
import study_averaging as base
import torch
from helpers.study import Arm, Metric, Outcome, Study
from study_averaging import ANEW, COMMON, FORK, SWA, Path, ending

SIDE, POINTS = 13, 21  # of the plane, and of the ways between starts


def surface_parts(seed, sizes):
    """The same, and a fifth of training and test images together, for a plane and curves."""
    found = base.drawn_parts(seed, sizes)
    both = (found[name].data for name in ("train", "test"))
    few = [one.part(torch.arange(0, one.count, 5)) for one in both]
    return found | {"few": base.clothes(*few)}


def surface_judge(made, images, job):
    """Loss and accuracy, of training images sharpness, too; of several networks the plane
    through them, or a way between two."""
    if job.test != "few":
        loss, accuracy = loss_plane.judge(made.eval(), images)
        sharp = {"sharpness": loss_plane.sharpness(made, images)} if job.test == "train" else {}
        return {"loss": loss, "accuracy": accuracy, **sharp}
    look = partial(loss_plane.along, copy.deepcopy(made[0]))
    first, second, *more = (loss_plane.weights_of(m) if callable(m) else m for m in made)
    if job.name == "plane":
        return loss_plane.plane_rows(look, images, [first, second, *more], SIDE)
    middle, shares = (
        more[0] if more else (first + second) / 2,
        np.linspace(0, 1, POINTS).tolist(),
    )
    points = [loss_plane.bezier(first, middle, second, share) for share in shares]
    told = loss_plane.columns({"t": shares}, look(points, images[0], *images))
    return {f"curve_{job.name}": told}


def surface_extra(receipt, found):
    """Record the curves of the first seed."""
    for runs in found.values():
        for name, columns in next(iter(runs.values())).get("few", {}).items():
            receipt.curve(f"surface_{name.removeprefix('curve_')}", **columns)


def curve_of(*starts, **more):
    """An arm of which curves are drawn, of the first seed."""
    why = "the surface is that of the training loss, too"
    return Arm(start=starts, test=("few",), shares=why, seeds=1, **more)


BOTH = {"test": ("train", "test"), "shares": "the claim is about the training loss"}
DIFFERS = ("loss.snapshots", "loss.way")
TWICE, THRICE = ({"setting": {"member": member}, "seeds": 1} for member in (1, 2))
SURFACE = Study(
    name="surface",
    key="study_surface_{arm}_{part}_{metric}",
    metrics={"loss": Metric("nat"), "accuracy": Metric("%", 100), "sharpness": Metric("nat")},
    judge=surface_judge,
    extra=surface_extra,
    arms={
        "fork": FORK,
        "sgd": ending("fork", Path("falls", **ANEW), **BOTH),
        "swa": ending("fork", SWA, **BOTH),
        "fork_2": replace(FORK, **TWICE),
        "second": ending("fork_2", Path("falls"), **TWICE),
        "fork_3": replace(FORK, **THRICE),
        "third": ending("fork_3", Path("falls"), **THRICE),
        "plane": curve_of("sgd", "second", "third"),
        "straight": curve_of("sgd", "second"),
        "bent": curve_of("sgd", "second", train="train", loss=Path("bends")),
    },
    outcomes={
        "study_surface_train_loss_excess": Outcome("loss", "swa", "sgd", DIFFERS, "train"),
        "study_surface_sharpness_excess": Outcome("sharpness", "swa", "sgd", DIFFERS, "train"),
        "study_surface_test_accuracy_gain": Outcome(
            "accuracy", "swa", "sgd", DIFFERS, "test", unit="points"
        ),
    },
    **COMMON | {"parts": surface_parts},
)
