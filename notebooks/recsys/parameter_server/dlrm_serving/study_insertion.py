"""The study: what default vectors cost in AUC, over drawn worlds.

    make study CHAPTERS=recsys/parameter_server STUDY=insertion

In each world a DLRM is trained and served from a cold cache of a tenth of its rows, three times
with the same requests: never waiting, waiting below a hit rate of 70 %, always waiting. The
worker is done between two requests, so what is lost is the least that it can be. It is the AUC
of always waiting less the other's: of the first 640 samples, and of the second half. The units
are samples, by their drawn numbers.
"""

import tempfile
from collections import namedtuple
from pathlib import Path

import numpy as np
import torch
from embedding_hierarchy import ParameterServer
from helpers.study import Arm, Metric, Outcome, Part, Study
from storage_tiers import InProcess, Rocks

from .click_world import ClickWorld, auc
from .dlrm import hierarchy, learned

EARLY, BATCH, LEARN = 640, 32, 512  # samples: judged cold, of a request, of a step
WAITS = {"never_wait": 0.0, "at_70": 0.7, "always_wait": 1.1}  # below which hit rate


Log = namedtuple("Log", "world numbers keys clicked")  # a world, and samples of it


def parts(seed, sizes):
    """What a world's model learns from, and the requests that it is asked."""
    world = ClickWorld(seed=seed)
    streams = {"train": (1, sizes["samples"]), "test": (2, sizes["served"])}
    made = {}
    for name, (stream, count) in streams.items():
        log = Log(world, *world.draw(count, np.random.default_rng([seed, stream])))
        made[name] = Part(log, [row.tobytes() for row in log.numbers.numpy()])
    return made


def fit(job):
    """The model after one pass over its log, in whole batches."""
    world, *log = job.train
    batches = zip(*(one.split(LEARN) for one in log), strict=True)
    whole = (batch for batch in batches if len(batch[0]) == LEARN)
    return learned(world, whole, seed=job.seed)


def judge(model, log, job):
    """AUCs of a cold cache's first samples and of the second half."""
    world, numbers, keys, clicked = log
    weight, scores = model.table.weight.detach().numpy(), []
    with (
        tempfile.TemporaryDirectory() as folder,
        Rocks(Path(folder, "db"), {"dlrm.all": weight.shape[1]}) as tier,
        ParameterServer(tier, InProcess(world.rows)) as server,
    ):
        tier.load("dlrm.all", np.arange(world.rows), weight)
        limit = job.arm.setting["threshold"]
        table = server.deploy("dlrm.all", cache_rows=world.rows // 10, threshold=limit)
        score = hierarchy(model, table)
        for asked in zip(numbers.split(BATCH), keys.split(BATCH), strict=True):
            scores.append(score(*asked))
            table.drain()
    scores, late = torch.cat(scores), len(clicked) // 2
    return {
        "auc_cold": auc(scores[:EARLY], clicked[:EARLY]),
        "auc": auc(scores[late:], clicked[late:]),
    }


STUDY = Study(
    notebook="parameter_server",
    name="insertion",
    seeds=range(20),
    over="worlds",
    sizes={"samples": 40_000, "served": 9_600},
    trial={"samples": 1024, "served": 1280},
    arms={
        "model": Arm(train="train", test=(), loss="one pass"),
        **{
            name: Arm(start="model", setting={"threshold": limit})
            for name, limit in WAITS.items()
        },
    },
    metrics={"auc": Metric("AUC"), "auc_cold": Metric("AUC")},
    key="{metric}_{arm}",
    parts=parts,
    fit=fit,
    judge=judge,
    outcomes={
        f"auc_lost_{when}{name}": Outcome(
            metric, "always_wait", name, differs=("setting.threshold",)
        )
        for metric, when in (("auc", ""), ("auc_cold", "cold_"))
        for name in ("never_wait", "at_70")
    },
)
