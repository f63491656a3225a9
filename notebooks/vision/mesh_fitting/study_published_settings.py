"""The published settings, once: twenty views, level 4, 128 pixels, 2,000 steps; about half an
hour.

    make study CHAPTERS=vision/mesh_fitting STUDY=published
"""

from dataclasses import replace

import cameras
import mesh_fitting as mf
import meshes
import study_mesh_fitting as regularisers
from helpers.study import Arm, Part, Study

PUBLISHED = mf.Settings()
START = Arm(train="photographs", loss=replace(PUBLISHED, steps=0))


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """The car from the published views, by the z-buffer, and from others."""
    mesh, views = meshes.car(sizes["car"]), cameras.around(PUBLISHED.views)
    held = cameras.around(sizes["held"], seed=seed + 1)
    given = mf.photographed(mesh, views, PUBLISHED.size)
    return {
        "photographs": Part(given, [f"view {at}" for at in range(PUBLISHED.views)]),
        "test": Part((mesh, held), [f"held {at}" for at in range(len(held))]),
    }


def judge(made: tuple, data: tuple, job) -> dict:
    """The scores of `mesh_fitting.judged`, at the published size."""
    mesh, held = data
    return mf.judged(*made, mesh, held, PUBLISHED.size)


STUDY = Study(
    notebook="mesh_fitting",
    name="published",
    arms={
        "published": Arm(train="photographs", loss=PUBLISHED),
        "start": START,
        "carved": replace(START, start="carving"),
    },
    seeds=range(1),
    sizes={"steps": PUBLISHED.steps, "car": 5, "held": 8},
    trial={"steps": 1, "car": 2, "held": 1},
    metrics=regularisers.STUDY.metrics,
    parts=parts,
    fit=regularisers.fit,
    judge=judge,
    over="orders of the views",
    threads=2,
)
