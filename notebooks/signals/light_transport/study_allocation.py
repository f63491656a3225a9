"""The study: what it is worth to share the time between direct and indirect light by their
variances and costs.

    make study CHAPTERS=signals/light_transport STUDY=allocation

All arms have the time of `samples` whole samples. One draws both kinds together, two apart:
halves of the time, or the shares that a pilot says are best. Every arm sees the same pilot, as
all need its costs. `work` is variance times the seconds that were really used.
"""

import time

import allocation
import path_tracing
import rooms
import torch
from helpers.study import Arm, Metric, Outcome, Part, Study

ROOMS = {"box": rooms.cornell_box, "plates": rooms.glossy_plates}
ARMS = {
    f"{room}_{split}": Arm(
        choice=f"{room}_pilot", test=(f"{room}_pictures",), setting={"split": split}
    )
    for room in ROOMS
    for split in ("together", "halves", "best")
}
PILOT = 1_000_000  # the pilot's seeds lie beyond all others


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """For each room the seeds of the pilot, and of the pictures that are judged."""
    count, found = sizes["pictures"], {}
    for name, room in ROOMS.items():
        scene = room(sizes["pixels"], sizes["pixels"])
        for kind, first in (("pilot", PILOT), ("pictures", 0)):
            seeds = list(range(first + seed * count, first + (seed + 1) * count))
            units = [f"{name} {one}" for one in seeds]
            found[f"{name}_{kind}"] = Part((scene, seeds), units)
    return found


def fit(job) -> dict:
    """{"samples": of direct and of indirect light (of the whole for `together`), "share": of
    the time for indirect light, "dearer": the time of indirect light to an equal error, over
    that of direct light}.
    """
    (scene, seeds), sizes = job.choice, job.sizes
    whole = path_tracing.Options("lamp", gather_from=1)
    budget = (
        sizes["samples"]
        * allocation.measure(scene, whole, sizes["depth"], sizes["samples"], seeds).seconds
    )
    variances, seconds = allocation.pilot(scene, sizes["depth"], sizes["samples"], seeds)
    best = allocation.best_shares(variances, seconds)
    shares = {"halves": [0.5, 0.5], "best": best, "together": best}[job.arm.setting["split"]]
    counts = [
        max(1, round(share * budget / cost))
        for share, cost in zip(shares, seconds, strict=True)
    ]
    if job.arm.setting["split"] == "together":
        counts = [sizes["samples"]]
    direct, indirect = (v * s for v, s in zip(variances, seconds, strict=True))
    return {"samples": counts, "share": shares[1], "dearer": indirect / direct}


def judge(made: dict, data: tuple, job) -> dict:
    """Variance of the picture, the seconds that it took, their product, and the shares."""
    (scene, seeds), depth, drawn = data, job.sizes["depth"], []
    begun = time.perf_counter()
    for seed in seeds:
        if len(made["samples"]) == 1:
            whole = path_tracing.Options("lamp", gather_from=1)
            orders = path_tracing.render_orders(scene, *made["samples"], depth, whole, seed)
            drawn.append(orders.sum(0))
        else:
            drawn.append(allocation.split(scene, made["samples"], depth, seed))
    seconds = (time.perf_counter() - begun) / len(seeds)
    variance = allocation.sample_variance(torch.stack(drawn), 1)
    found = {"variance": variance, "seconds": seconds, "work": variance * seconds}
    if job.arm.setting["split"] == "best":
        found |= {"share": made["share"], "dearer": made["dearer"]}
    return found


STUDY = Study(
    notebook="light_transport",
    name="allocation",
    arms=ARMS,
    seeds=range(5),
    sizes={"pixels": 48, "depth": 5, "samples": 16, "pictures": 8},
    trial={"pixels": 8, "depth": 2, "samples": 2, "pictures": 3},
    metrics={
        "variance": Metric("radiance²"),
        "seconds": Metric("s"),
        "work": Metric("radiance² s"),
        "share": Metric("share"),
        "dearer": Metric("×"),
    },
    parts=parts,
    fit=fit,
    judge=judge,
    outcomes={
        f"study_{room}_best_over_{less}": Outcome(
            "work", f"{room}_best", f"{room}_{less}", ["setting.split"], ratio=True
        )
        for room in ROOMS
        for less in ("together", "halves")
    },
    over="draws of pictures",
)
