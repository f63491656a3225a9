"""The study: what each regulariser is worth, what a fit is worth beside carving, and how much
it is flattered where its pictures come from its own rasteriser.

    make study CHAPTERS=vision/mesh_fitting STUDY=regularisers

Judged on views that no fit has seen, both surfaces by the z-buffer; a seed draws the views and
the order of the steps.
"""

from dataclasses import replace

import cameras
import carving
import mesh_fitting as mf
import meshes
from helpers import receipts
from helpers.study import Arm, Metric, Outcome, Part, Study, student

SMALL = mf.small()
OFF = {"no_edge": ("edge",), "no_normal": ("normal",), "no_laplacian": ("laplacian",)}
OFF["none"] = ("edge", "normal", "laplacian")


def without(*names: str) -> mf.Settings:
    """The settings with these regularisers switched off."""
    return replace(SMALL, weights={**SMALL.weights, **dict.fromkeys(names, 0.0)})


ARMS = {"all": Arm(train="photographs", loss=SMALL)}
ARMS |= {name: Arm(train="photographs", loss=without(*names)) for name, names in OFF.items()}
ARMS["own_renderer"] = Arm(train="own_pictures", loss=SMALL)
ARMS["sphere"] = Arm(train="photographs", loss=replace(SMALL, steps=0))  # nothing is moved
ARMS["carved"] = replace(ARMS["sphere"], start="carving")


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """The car from views to learn from, by the z-buffer and by the fit's own rasteriser; and
    from others.
    """
    mesh, views = meshes.car(sizes["car"]), cameras.around(SMALL.views, seed=2 * seed)
    held = cameras.around(sizes["held"], seed=2 * seed + 1)
    names = [f"view {seed} {at}" for at in range(SMALL.views)]
    found = {
        name: Part(mf.photographed(mesh, views, SMALL.size, renderer), names)
        for name, renderer in (("photographs", "hard"), ("own_pictures", "soft"))
    }
    return found | {
        "test": Part((mesh, held), [f"held {seed} {at}" for at in range(len(held))])
    }


def fit(job) -> tuple:
    """The mesh that the arm fits, or carves."""
    if job.start == "carving":
        return carving.carve(job.train, job.arm.loss.level)
    steps = min(job.arm.loss.steps, job.sizes["steps"])
    found = mf.fit(job.train, replace(job.arm.loss, steps=steps), seed=job.seed)
    return found.vertices, found.faces


def judge(made: tuple, data: tuple, job) -> dict:
    """The scores of `mesh_fitting.judged`."""
    mesh, held = data
    return mf.judged(*made, mesh, held, SMALL.size)


def flattery(receipt: receipts.Receipt, found: dict) -> None:
    """Record what a fit to its own rasteriser's pictures would report, judged by that
    rasteriser again, less what a fit to photographs is worth by the z-buffer, paired by seed.
    """
    pairs = [
        one["test"]["self_iou"] - found["all"][seed]["test"]["iou"]
        for seed, one in found["own_renderer"].items()
    ]
    mean, low, high = student(pairs)
    ends = {"low": low, "high": high, "interval": "95 %"}
    receipt.record("study_flattery", mean, "IoU", repeats=len(pairs), **ends)


def gain(metric: str, less: str, differs: list[str]) -> Outcome:
    """The full fit less another arm."""
    return Outcome(metric, "all", less, differs)


STUDY = Study(
    notebook="mesh_fitting",
    name="regularisers",
    arms=ARMS,
    seeds=range(3),
    sizes={"steps": SMALL.steps, "car": 4, "held": 8},
    trial={"steps": 3, "car": 2, "held": 2},
    metrics={
        "iou": Metric("IoU"),
        "chamfer": Metric("squared units"),
        "self_iou": Metric("IoU"),
        "roughness": Metric(""),
    },
    parts=parts,
    fit=fit,
    judge=judge,
    outcomes={
        "study_over_sphere": gain("iou", "sphere", ["loss.steps"]),
        "study_over_carving": gain("iou", "carved", ["loss.steps", "start"]),
        **{
            f"study_gain_of_{name}": gain("iou", name, [f"loss.weights.{one}" for one in off])
            for name, off in OFF.items()
        },
        **{
            f"study_smoothed_by_{name}": gain(
                "roughness", name, [f"loss.weights.{one}" for one in off]
            )
            for name, off in OFF.items()
        },
        "study_own_renderer_loss": gain("iou", "own_renderer", ["train"]),
    },
    extra=flattery,
    over="draws of views",
)
