"""The study: is the model that processes train the same model? Its AUC, over worlds, beside
what no model can exceed.

    make study CHAPTERS=recsys/distributed_embeddings STUDY=accuracy

In each world the hybrid on two processes and one process train on the same samples once, and
are judged on samples that neither has seen, put together as one model. Batch, rate and start
were chosen by hand, of a dozen tried in world 9; the worlds of the study begin at 101, the
page's is 100. The true chances' AUC on the same samples is the limit. The units are what a
sample shows: its counts and its categories.
"""

from typing import NamedTuple

import numpy as np
import torch
from bench_hybrid import model_on, start_tables
from click_logs import World, auc, shrunk_rows
from crew import Crew
from dlrm import SMALL, Dlrm, PlainTables, train_step
from exchange import world
from helpers.study import Arm, Metric, Outcome, Part, Study
from hybrid import DistributedEmbedding, average_gradients, broadcast
from placement import plan
from synthetic_models import DLRM_TERABYTE


class Recipe(NamedTuple):
    """One pass of Adagrad: samples of a step of all processes, rate, start of its sums."""

    batch: int = 128
    rate: float = 0.05
    start: float = 1e-4


ROWS, HELD_OUT = shrunk_rows(DLRM_TERABYTE, 20_000), 30_000
SHAPES = [(rows, SMALL.width) for rows in ROWS]
TRUTH = "true chances"


def world_of(seed):
    """The World of this number."""
    return World(ROWS, bias=-2.5, seed=seed)


def held_out(seed, count=HELD_OUT):
    """Samples of a world that nobody trains on."""
    return world_of(seed).draw(count, 99)


def trained(state, clicks, recipe):
    """(whole tables, the network's other weights) after one pass of all processes over their
    shares of each batch, in the clicks' kind of numbers.
    """
    (rank, size), kind = world(), clicks.numbers.dtype
    own = plan(SHAPES, size, "memory_balanced")
    tables = DistributedEmbedding(own, dtype=kind, check=False)
    model = model_on(tables).to(kind)
    tables.set_weights([table / 20 for table in start_tables(ROWS)])
    broadcast(model)
    share, batch = recipe.batch // size, recipe.batch
    adagrad = torch.optim.Adagrad(
        model.parameters(), recipe.rate, initial_accumulator_value=recipe.start
    )
    for first in range(rank * share, len(clicks.labels) // batch * batch, batch):
        train_step(model, clicks.part(first, first + share), adagrad, average_gradients)
    layers = {name: one for name, one in model.state_dict().items() if "tables" not in name}
    return tables.get_weights(), layers


def doubled(clicks):
    """The clicks in float64, in which two ways of one sum differ by rounding alone."""
    return clicks._replace(labels=clicks.labels.double(), numbers=clicks.numbers.double())


def chances(made, clicks):
    """The chances (N,) that a trained model gives, put together on one process."""
    tables, layers = made
    model = Dlrm(PlainTables(SHAPES), len(SHAPES))
    model.load_state_dict(layers, strict=False)
    model.tables.set_weights(tables)
    with torch.no_grad():
        return model(clicks.numbers, clicks.bags()).sigmoid()


def fit(job):
    """What so many processes trained."""
    with Crew(job.arm.setting["processes"], 600) as crew:
        return crew.run("study_accuracy:trained", job.train, job.arm.loss)[0]


def judge(made, clicks, job):
    """The AUC of a model, or of the truth."""
    scores = clicks.chances if made == TRUTH else chances(made, clicks)
    return {"auc": auc(scores, clicks.labels)}


def parts(seed, sizes):
    """What a world's models learn from, and what they are judged on."""
    clicks = world_of(seed).draw(sizes["samples"])
    return {"train": part(clicks), "test": part(held_out(seed, sizes["held_out"]))}


def part(clicks):
    """Clicks with their units."""
    shown = np.hstack([clicks.numbers.numpy(), clicks.ids.T.numpy()])
    return Part(clicks, [row.tobytes() for row in shown])


LEARNED = {"train": "train", "loss": Recipe()}
STUDY = Study(
    notebook="distributed_embeddings",
    name="accuracy",
    seeds=range(101, 121),
    over="worlds",
    sizes={"samples": 102_400, "held_out": HELD_OUT},
    trial={"samples": 256, "held_out": 100},
    arms={
        "one_process": Arm(setting={"processes": 1}, **LEARNED),
        "hybrid": Arm(setting={"processes": 2}, **LEARNED),
        "truth": Arm(start=TRUTH),
    },
    metrics={"auc": Metric("AUC")},
    key="{metric}_{arm}",
    parts=parts,
    fit=fit,
    judge=judge,
    outcomes={
        "auc_hybrid_over_one_process": Outcome(
            "auc", "hybrid", "one_process", differs=("setting.processes",)
        ),
        "auc_truth_over_hybrid": Outcome(
            "auc",
            "truth",
            "hybrid",
            differs=(
                *("loss", "loss.batch", "loss.rate", "loss.start"),
                *("setting.processes", "start", "train"),
            ),
        ),
    },
)
