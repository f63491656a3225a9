"""The study: two classes are known, then a third is learnt from photos in which it alone is
marked.

    make study CHAPTERS=vision/custom_detection STUDY=forgetting

What is not marked is taught as background, so the old classes may be forgotten or untaught. An
arm that is taught nothing about them tells one from the other. Replay adds a quarter of the old
photos, with all three classes marked, in as many steps. A seed draws who is old and new among
`bccd`'s training and validation photos; its test is the test.
"""

from dataclasses import replace

import annotations
import average_precision
import numpy as np
from helpers import data
from helpers.study import Arm, Metric, Outcome, Part, Study

from . import loading, training

OLD, NEW = ("RBC", "WBC"), ("Platelets",)
NEW_AT = training.CLASSES.index(NEW[0])
PLAIN = training.Settings()
ARMS = {
    "two": Arm(train="two", loss=PLAIN),
    "third": Arm(train="third", start="two", loss=PLAIN),
    "alone": Arm(train="third", start="two", loss=training.Settings(taught=(NEW_AT,))),
    "replay": Arm(train="replay", start="two", loss=PLAIN),
    "joint": Arm(train="joint", loss=PLAIN),
}


def only(photos: list, names: tuple) -> list:
    """The photos with the objects of these classes alone."""
    made = []
    for one in photos:
        kept = [at for at, label in enumerate(one.labels) if label in names]
        labels = [one.labels[at] for at in kept]
        made.append(
            one.but(boxes=one.boxes[kept], labels=labels, shapes=[], crowd=None, areas=None)
        )
    return made


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """Old photos with two classes marked, new ones with the third, both, and a test."""
    every, draw = annotations.read(data.fetch("bccd")), np.random.default_rng(seed)
    every = [every[at] for at in draw.permutation(len(every))]
    known, test = ([one for one in every if (one.split == "test") == side] for side in (0, 1))
    old, new, test = (
        known[: sizes["old"]],
        known[sizes["old"] :][: sizes["new"]],
        test[: sizes["test"]],
    )
    found = {"two": only(old, OLD), "third": only(new, NEW), "test": test, "joint": old + new}
    found["replay"] = found["third"] + old[: len(old) // 4]
    return {name: Part(one, [photo.file.stem for photo in one]) for name, one in found.items()}


def fit(job):
    """The network trained on the arm's photos, from its start where it has one."""
    start = None if isinstance(job.start, str) else job.start
    epochs = job.sizes["epochs"]
    if start is not None:  # the same number of steps for all that go on from two classes
        epochs = round(epochs * job.sizes["new"] / len(job.train))
    settings = replace(job.arm.loss, epochs=epochs)
    return training.train(loading.samples(job.train), settings, job.seed, start)


def judge(net, photos: list, job) -> dict:
    """AP of the old classes, mean of both, and of the new one."""
    by = average_precision.evaluate(photos, loading.answers(net, photos)).by_class
    old = float(np.mean([by.get(name, 0.0) for name in OLD]))
    return {"ap_old": old, "ap_new": float(by.get(NEW[0], 0.0))}


STUDY = Study(
    notebook="custom_detection",
    name="forgetting",
    arms=ARMS,
    seeds=range(3),
    sizes={"old": 146, "new": 146, "test": 72, "epochs": 24},
    trial={"old": 4, "new": 3, "test": 3, "epochs": 1},
    metrics={"ap_old": Metric("AP"), "ap_new": Metric("AP")},
    parts=parts,
    fit=fit,
    judge=judge,
    outcomes={
        "study_forgotten": Outcome("ap_old", "two", "third", ["start", "train"]),
        "study_untaught": Outcome("ap_old", "alone", "third", ["loss.taught"]),
        "study_replayed": Outcome("ap_old", "replay", "third", ["train"]),
        "study_learnt": Outcome("ap_new", "third", "two", ["start", "train"]),
        "study_replay_costs": Outcome("ap_new", "third", "replay", ["train"]),
    },
    over="draws of old and new photos",
)
